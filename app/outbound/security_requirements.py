"""Selects the stored credentials that satisfy the security requirements of a tool."""

from collections.abc import Mapping

from app.errors import CredentialMissing, CredentialNotAllowed, FieldError
from app.security.credentials import SealedCredential
from app.security.requirements import SecurityRequirements, SlotRequirement


def select_alternative(
    needs: SecurityRequirements, credentials: Mapping[str, SealedCredential], *, origin: str
) -> list[tuple[SealedCredential, SlotRequirement]]:
    """Return the credentials of the first alternative of which all are stored and allowed for `origin`.

    An empty alternative makes credentials optional: the result is empty where no other alternative matches.
    Raises CredentialMissing and CredentialNotAllowed.
    """
    optional = not needs
    denied: SealedCredential | None = None
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
        denied = denied or outside[0]
    if denied is not None:
        raise not_allowed(denied, origin)
    if optional:
        return []
    raise _missing(needs)


def not_allowed(credential: SealedCredential, origin: str) -> CredentialNotAllowed:
    return CredentialNotAllowed(
        f"The credential in slot {credential.slot!r} may not be sent to {origin}: "
        "add this origin to its allowed origins first.",
        extra={"slot": credential.slot, "origin": origin},
    )


def _missing(needs: SecurityRequirements) -> CredentialMissing:
    alternatives = dict.fromkeys(
        " and ".join(repr(need.slot) for need in alternative) for alternative in needs
    )
    slots = list(dict.fromkeys(need.slot for alternative in needs for need in alternative))
    return CredentialMissing(
        f"The tool needs a credential in slot {', or in '.join(alternatives)}, and none is stored.",
        errors=[FieldError("", f"No credential is stored in slot {slot!r}.") for slot in slots],
        extra={"slots": slots},
    )
