"""Which variable a `${NAME}` means: the provider's own, then the tenant's, then those of the environment.

A manual that was fetched is the upstream's text, not the registrar's: it may name the provider's own
variables and those with its namespace (`my__gw_KEY`), and no others.

An environment value is not marked as secret or public, so all are secret: they are opened at the call only,
and masked. But the registrar may name one in an open field, too (`${BASE_URL}/pets`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from app.credentials.permissions import RegistrationPermissions
from app.errors import FieldError, InvalidInput, UnsetVariable
from app.models import Variable
from app.protocols.variables import locations_of, with_variables
from app.utcp.variables import candidates


class MisplacedSecret(InvalidInput):
    """A secret variable stands in a field that is shown."""


Layer = Literal["provider", "tenant", "environment"]


@dataclass(frozen=True, slots=True)
class KnownVariable:
    """A variable that has a value; `value` is None where it is sealed."""

    name: str
    secret: bool
    value: str | None = field(default=None, repr=False)

    def may_be_shown(self, *, fetched: bool) -> bool:
        """Return whether it may stand in a field that is shown, of a text that was fetched or not."""
        return not self.secret or (self.value is not None and not fetched)


@dataclass(frozen=True, slots=True)
class VariableScope:
    """The variables that a provider's texts may name."""

    provider: str
    layers: Mapping[Layer, Mapping[str, KnownVariable]]
    permissions: RegistrationPermissions
    is_fetched: bool = False

    def narrowed(self) -> "VariableScope":
        """Return the scope for text that came from an upstream."""
        return replace(self, is_fetched=True)

    def find(self, name: str) -> KnownVariable | None:
        """Return the variable that a name as written means, if it has a value.

        Raises Forbidden for a shared secret that the API key may not use.
        """
        spellings = candidates(name, self.provider)
        for layer in ("provider", "tenant", "environment"):
            known = self.layers.get(layer, {})
            for index, spelling in enumerate(spellings):
                if index and self.is_fetched and layer != "provider":
                    break
                if spelling in known:
                    if layer != "provider" and known[spelling].secret:
                        self.permissions.require_shared_secret(
                            known[spelling].name, environment=layer == "environment"
                        )
                    return known[spelling]
        return None

    def rewritten(self, value: Any, *, at: str = "") -> Any:
        """Return the value with each reference spelled `${NAME}` under the name that is stored.

        Raises UnsetVariable naming every one that has no value, with pointers below `at`.
        """

        def spelled(name: str) -> str | None:
            known = self.find(name)
            return None if known is None else f"${{{known.name}}}"

        try:
            return with_variables(value, spelled)
        except UnsetVariable as error:
            raise UnsetVariable(
                error.detail + self._advice(),
                errors=[FieldError(at + fault.pointer, fault.detail) for fault in error.errors],
                extra=error.extra,
            ) from None

    def resolved(self, value: Any) -> Any:
        """Return the value with variables that are not secret written out; secret ones stay `${NAME}`."""

        def shown(name: str) -> str:
            known = self.find(name)
            return f"${{{name}}}" if known is None or known.value is None else known.value

        return with_variables(value, shown)

    def reject_secrets(self, value: Any, *, at: str) -> None:
        """Raise MisplacedSecret where a secret variable stands in a field that is shown."""
        faults = [
            FieldError(
                at + place, f"The variable {name} may be secret; here stand only variables that are not."
            )
            for place, name in locations_of(value)
            if (known := self.find(name)) is not None and not known.may_be_shown(fetched=self.is_fetched)
        ]
        if faults:
            raise MisplacedSecret(
                "Secret variables may stand in auth, in header values and in query values only.",
                errors=faults,
            )

    def _advice(self) -> str:
        if not self.is_fetched:
            return ""
        return (
            ". A fetched manual may use only variables of its own provider (give them in `variables`) "
            "and variables that carry its namespace"
        )


def scope_of(
    provider: str,
    rows: Iterable[Variable],
    *,
    environment: Mapping[str, str],
    permissions: RegistrationPermissions,
    is_fetched: bool = False,
) -> VariableScope:
    """Return the scope over variables (stored or not yet); `environment` holds what the operator listed."""
    layers: dict[Layer, dict[str, KnownVariable]] = {"provider": {}, "tenant": {}}
    for row in rows:
        layer: Layer = "tenant" if row.provider_id is None else "provider"
        layers[layer][row.name] = KnownVariable(row.name, row.secret, None if row.secret else row.value)
    layers["environment"] = {
        name: KnownVariable(name, secret=True, value=value) for name, value in environment.items() if value
    }
    return VariableScope(provider, layers, permissions, is_fetched)
