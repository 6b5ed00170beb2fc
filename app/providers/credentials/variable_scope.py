"""Resolution of `${NAME}`: first the provider's own variables, then the tenant's, then the environment's.

A fetched manual is the upstream's text, not the registrar's: it may refer only to the provider's own
variables, to those with its namespace (`my__gw_KEY`), and to those that the template which fetched it gives
to the upstream anyway.

A variable of the environment is not marked as secret or public, so all of them are treated as secret: they
are resolved only at the call, and masked. The registrar may nevertheless use one in a field that is shown
(`${BASE_URL}/pets`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.core.errors import FieldError, InvalidInput, UnsetVariable
from app.formats.utcp.variables import list_candidates
from app.protocols.variables import locations_of, with_variables
from app.providers.credentials.permissions import RegistrationPermissions
from app.storage.models import Variable


class MisplacedSecret(InvalidInput):
    """A field that clients can read contains a secret variable."""


Layer = Literal["provider", "tenant", "environment"]


@dataclass(frozen=True, slots=True)
class KnownVariable:
    """A variable that has a value; `value` is None where it is sealed."""

    name: str
    secret: bool
    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class VariableScope:
    """The variables that the templates of a provider may refer to, by layer.

    `is_fetched` says that the templates were fetched from an upstream. `given` are then the variables that
    the provider's own template sends to this upstream, `shown` those in its public fields, by name.
    """

    provider: str
    layers: Mapping[Layer, Mapping[str, KnownVariable]]
    permissions: RegistrationPermissions
    is_fetched: bool = False
    given: frozenset[str] = frozenset()
    shown: frozenset[str] = frozenset()

    def for_fetched_text(
        self, *, given: frozenset[str] = frozenset(), shown: frozenset[str] = frozenset()
    ) -> "VariableScope":
        """Return this scope for text that was fetched from an upstream."""
        return replace(self, is_fetched=True, given=given, shown=shown)

    def is_readable(self, variable: KnownVariable) -> bool:
        """Return whether a field that clients can read may contain the variable."""
        if not variable.secret:
            return True
        return variable.value is not None and (not self.is_fetched or variable.name in self.shown)

    def find(self, name: str) -> KnownVariable | None:
        """Return the variable that a name in a template refers to, None where it has no value.

        Raise Forbidden for a shared secret that the API key may not use.
        """
        spellings = list_candidates(name, self.provider)
        for layer in ("provider", "tenant", "environment"):
            known = self.layers.get(layer, {})
            for index, spelling in enumerate(spellings):
                is_foreign = index and self.is_fetched and layer != "provider"
                if is_foreign and spelling not in self.given | self.shown:
                    break
                if spelling in known:
                    if layer != "provider" and known[spelling].secret:
                        self.permissions.require_shared_secret(
                            known[spelling].name, environment=layer == "environment"
                        )
                    return known[spelling]
        return None

    def rewritten(self, value: Any, *, at: str = "") -> Any:
        """Return a JSON value with each reference written as `${NAME}` with the stored name of the variable.

        Raise UnsetVariable for all variables without a value, with pointers below `at`.
        """

        def stored_reference(name: str) -> str | None:
            known = self.find(name)
            return None if known is None else f"${{{known.name}}}"

        try:
            return with_variables(value, stored_reference)
        except UnsetVariable as error:
            raise UnsetVariable(
                error.detail + self._advice(),
                errors=[FieldError(at + one.pointer, one.detail) for one in error.errors],
                extra=error.extra,
            ) from None

    def resolved(self, value: Any) -> Any:
        """Return a JSON value with public variables replaced by their values; secret ones remain."""

        def public_value(name: str) -> str:
            known = self.find(name)
            return f"${{{name}}}" if known is None or known.value is None else known.value

        return with_variables(value, public_value)

    def reject_secrets(self, value: Any, *, at: str) -> None:
        """Raise MisplacedSecret, with pointers below `at`, for secret variables in a JSON value that is
        shown.
        """
        errors = [
            FieldError(
                at + location, f"The variable {name} is secret; only public variables are allowed here."
            )
            for location, name in locations_of(value)
            if (known := self.find(name)) is not None and not self.is_readable(known)
        ]
        if errors:
            raise MisplacedSecret(
                "Secret variables are allowed in auth, in header values and in query values only.",
                errors=errors,
            )

    def _advice(self) -> str:
        if not self.is_fetched:
            return ""
        return (
            ". A fetched manual may use only variables of its own provider (give them in `variables`), "
            "variables with its namespace, and those that the provider's call template names"
        )


def scope_of(
    provider: str,
    rows: Iterable[Variable],
    *,
    environment: Mapping[str, str],
    permissions: RegistrationPermissions,
    is_fetched: bool = False,
) -> VariableScope:
    """Return the scope with these variables, stored or not yet; `environment` has the environment variables
    that the operator allows (VARIABLE_ENV_NAMES).
    """
    layers: dict[Layer, dict[str, KnownVariable]] = {"provider": {}, "tenant": {}}
    for row in rows:
        layer: Layer = "tenant" if row.provider_id is None else "provider"
        layers[layer][row.name] = KnownVariable(row.name, row.secret, None if row.secret else row.value)
    layers["environment"] = {
        name: KnownVariable(name, secret=True, value=value) for name, value in environment.items() if value
    }
    return VariableScope(provider, layers, permissions, is_fetched)
