"""Which stored credentials a tool needs: alternatives (OR) of slots that go together (AND)."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from app.errors import CredentialMissing, CredentialNotAllowed, Fault
from app.security.credentials import SealedCredential


class Need(NamedTuple):
    """One slot that a tool needs, with the OAuth2 scopes that its operation asks for."""

    slot: str
    scopes: tuple[str, ...] = ()


Needs = tuple[tuple[Need, ...], ...]


def compile_needs(security: Iterable[Iterable[Mapping[str, Any]]]) -> Needs:
    """From a tool's stored `security`: `[[{"slot": ..., "scopes": [...]}, ...], ...]`."""
    return tuple(
        tuple(Need(need["slot"], tuple(need.get("scopes") or ())) for need in alternative)
        for alternative in security
    )


def chosen_alternative(
    needs: Needs, credentials: Mapping[str, SealedCredential], *, origin: str
) -> list[tuple[SealedCredential, Need]]:
    """The first alternative that is stored and allowed. An empty one means: send what is stored, else
    nothing. Raises CredentialMissing and CredentialNotAllowed.
    """
    optional = not needs
    barred: SealedCredential | None = None
    for alternative in needs:
        if not alternative:
            optional = True
            continue
        found = [(credentials[need.slot], need) for need in alternative if need.slot in credentials]
        if len(found) < len(alternative):
            continue
        outside = [credential for credential, _ in found if origin not in credential.allowed_origins]
        if not outside:
            return [pair for pair in found if pair[0].kind != "static"]
        barred = barred or outside[0]
    if barred is not None:
        raise not_allowed(barred, origin)
    if optional:
        return []
    raise _missing(needs)


def not_allowed(credential: SealedCredential, origin: str) -> CredentialNotAllowed:
    return CredentialNotAllowed(
        f"The credential in slot {credential.slot!r} may not be sent to {origin}: "
        "add this origin to its allowed origins first.",
        extra={"slot": credential.slot, "origin": origin},
    )


def _missing(needs: Needs) -> CredentialMissing:
    ways = [" and ".join(repr(need.slot) for need in alternative) for alternative in needs]
    slots = list(dict.fromkeys(need.slot for alternative in needs for need in alternative))
    return CredentialMissing(
        f"Store a credential in slot {', or in '.join(ways)}.",
        errors=[Fault("", f"No credential is stored in slot {slot!r}.") for slot in slots],
        extra={"slots": slots},
    )
