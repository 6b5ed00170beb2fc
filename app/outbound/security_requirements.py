"""Selects the stored credentials that satisfy the security requirements of a tool."""

from collections.abc import Mapping

from app.core.errors import CredentialMissing, CredentialNotAllowed, FieldError
from app.security.requirements import SecurityRequirements, SlotRequirement
from app.security.sealed_credentials import SealedCredential


def select_alternative(
    needs: SecurityRequirements,
    credentials: Mapping[str, SealedCredential],
    *,
    origin: str,
    has_certificate: bool = False,
) -> list[tuple[SealedCredential, SlotRequirement]]:
    """Return the credentials of the first alternative of which all are stored and allowed for `origin`.

    `has_certificate`: the connection presents a client certificate, which meets the requirement of one.
    An empty alternative makes credentials optional: the result is empty where no other alternative matches.
    Raises CredentialMissing and CredentialNotAllowed.
    """
    optional = not needs
    denied: SealedCredential | None = None
    for alternative in needs:
        if not alternative:
            optional = True
            continue
        stored = [need for need in alternative if not need.certificate]
        if len(stored) < len(alternative) and not has_certificate:
            continue
        found = [(credentials[need.slot], need) for need in stored if need.slot in credentials]
        if len(found) < len(stored):
            continue
        outside = [credential for credential, _ in found if origin not in credential.allowed_origins]
        if not outside:
            return [pair for pair in found if pair[0].kind != "static"]
        denied = denied or outside[0]
    if denied is not None:
        raise not_allowed(denied, origin)
    if optional:
        return []
    raise _missing(needs, has_certificate=has_certificate)


def not_allowed(credential: SealedCredential, origin: str) -> CredentialNotAllowed:
    return CredentialNotAllowed(
        f"The credential in slot {credential.slot!r} may not be sent to {origin}: "
        "add this origin to its allowed origins first.",
        extra={"slot": credential.slot, "origin": origin},
    )


def _missing(needs: SecurityRequirements, *, has_certificate: bool) -> CredentialMissing:
    alternatives = dict.fromkeys(" and ".join(map(_describe, alternative)) for alternative in needs)
    required = list(dict.fromkeys(need for alternative in needs for need in alternative))
    slots = list(dict.fromkeys(need.slot for need in required if not need.certificate))
    errors = [FieldError("", f"No credential is stored in slot {slot!r}.") for slot in slots]
    if not has_certificate and any(need.certificate for need in required):
        errors.append(FieldError("", "The provider has no client certificate for this origin."))
    return CredentialMissing(
        f"The tool needs a credential in slot {', or in '.join(alternatives)}, and none is stored.",
        errors=errors,
        extra={"slots": slots},
    )


def _describe(need: SlotRequirement) -> str:
    return f"{need.slot!r} (the client certificate of the provider)" if need.certificate else repr(need.slot)
