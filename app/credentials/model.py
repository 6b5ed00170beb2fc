"""Value classes of credentials, as they were given and before they are sealed."""

from dataclasses import dataclass, field
from typing import Any

from app.security.credentials import CredentialKind

Json = dict[str, Any]
Security = list[list[Json]]
DEFAULT_SLOT = "default"
DISCOVERY_STATIC = "discovery-static"
DISCOVERY_SLOTS = ("discovery", DISCOVERY_STATIC)
EGRESS_SLOT = "egress"


@dataclass(frozen=True, slots=True)
class GivenCredential:
    """A credential as its owner gave it: `public` may be shown, `secrets` are to be sealed.

    None in `public` means: as the slot's security scheme says. `allowed_origins` None means: the default.
    """

    kind: CredentialKind
    public: dict[str, Any]
    secrets: dict[str, Any] = field(repr=False)
    allowed_origins: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class GivenVariable:
    """A variable that came along with a registration; it becomes the provider's own."""

    value: str = field(repr=False)
    secret: bool = True


@dataclass(frozen=True, slots=True)
class InlineCredential:
    """A credential that stood in a template itself, and the origins of the tools that it stood at.

    `shared`: it is that of `auth_tools`, the registrar's own, whether or not it stood at tools as well.
    """

    slot: str
    given: GivenCredential
    fingerprint: str
    origins: tuple[str, ...] = ()
    shared: bool = False
