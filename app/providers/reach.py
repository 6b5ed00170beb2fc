"""How far a caller's key reaches into a registration: storing credentials, and naming what belongs to all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.errors import Fault, Forbidden
from app.security.principal import Principal
from app.utcp.text import pointer

_SCOPE: Final = "credentials:write"

CREDENTIALS_WRITE_OPTIONS: Final[Mapping[str, Any]] = {"mask_responses": True}
"""Options that only a key with `credentials:write` sets or changes; the value is what holds where one is not
set.
"""


@dataclass(frozen=True, slots=True)
class Reach:
    """`seals`: the caller may store credentials. `shared`: its key is not limited to providers or tags.

    `used` are the names of variables that the provider uses already, which a refresh may repeat.
    """

    seals: bool
    shared: bool
    used: frozenset[str] = frozenset()

    def permit_sealing(self) -> None:
        """Raises Forbidden for a caller that may not store credentials, in whatever place they stand."""
        if not self.seals:
            raise Forbidden(
                f"The API key lacks the scope `{_SCOPE}`, which credentials and variables need, "
                "also those in auth, headers, userinfo and query values of a template.",
                extra={"missing_scopes": [_SCOPE]},
            )

    def permit_options(
        self, given: Mapping[str, Any], *, stored: Mapping[str, Any] | None = None, at: str
    ) -> None:
        """Raises Forbidden, with pointers below `at`, for options that take the scope and would change.

        `stored` are the present ones; what equals them, or the default of a new provider, is no change.
        """
        if self.seals:
            return
        present = stored or {}
        changed = [
            name
            for name, default in CREDENTIALS_WRITE_OPTIONS.items()
            if name in given and _or(given[name], default) != _or(present.get(name), default)
        ]
        if changed:
            raise Forbidden(
                f"The API key lacks the scope `{_SCOPE}`, which these options need.",
                errors=[Fault(pointer(at, name), f"It takes the scope `{_SCOPE}`.") for name in changed],
                extra={"missing_scopes": [_SCOPE]},
            )

    def permit_shared(self, name: str, *, environment: bool) -> None:
        """Raises Forbidden where a limited key names a secret that belongs to all providers.

        To name one of the environment takes the scope, too: it may stand where it is shown.
        """
        if name in self.used:
            return
        if environment:
            self.permit_sealing()
        if not self.shared:
            raise Forbidden(
                "The API key is limited to certain providers or tags; "
                f"the secret variable {name} belongs to all. Give the provider a variable of its own."
            )

    def using(self, names: Iterable[str]) -> "Reach":
        """The same for a provider that uses these variables already."""
        return replace(self, used=frozenset(names))


UNBOUNDED: Final = Reach(seals=True, shared=True)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def reach_of(principal: Principal) -> Reach:
    """What the caller's scopes and limits allow."""
    return Reach(seals=principal.has(_SCOPE), shared=principal.providers is None and principal.tags is None)
