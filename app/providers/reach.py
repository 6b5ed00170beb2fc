"""How far a caller's key reaches into a registration: storing credentials, and naming what belongs to all."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from app.errors import Forbidden
from app.security.principal import Principal

_SCOPE: Final = "credentials:write"


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


def reach_of(principal: Principal) -> Reach:
    """What the caller's scopes and limits allow."""
    return Reach(seals=principal.has(_SCOPE), shared=principal.providers is None and principal.tags is None)
