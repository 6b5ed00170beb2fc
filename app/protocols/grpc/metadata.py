"""Metadata of a call: headers of the template and of the call, and credentials, which override both."""

import re
from typing import Any, Final

from app.core.errors import CredentialMissing, FieldError, InvalidInput
from app.core.text import pointer
from app.outbound.attach import attach
from app.outbound.credentials import WireCredential
from app.protocols.base import Call

Pairs = list[tuple[str, str]]

# The gRPC specification's Header-Name and ASCII-Value; other names are reserved, of HTTP/2, or binary.
_NAME: Final = re.compile(r"[0-9a-z_.-]+")
_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_RESERVED: Final = frozenset(
    {
        "te",
        "content-type",
        "content-length",
        "host",
        "connection",
        "transfer-encoding",
        "user-agent",
        "accept",
    }
)


def template_metadata(headers: dict[str, str]) -> Pairs:
    """Return the metadata of a template's headers; raise InvalidInput with pointers below /headers."""
    found: Pairs = []
    for name, value in headers.items():
        if not legal(name, value):
            field_error = FieldError(pointer("/headers", name), "gRPC cannot carry it as metadata.")
            raise InvalidInput("A header of the call template cannot be sent.", errors=[field_error])
        found.append((name.lower(), value))
    return found


def build_metadata(fixed: Pairs, call: Call[Any], *, masked: bool = False) -> Pairs:
    """Return the metadata of a call; raise CredentialMissing for a credential that it cannot carry.

    With `masked`, secrets are `***`.
    """
    pairs = [*fixed]
    present = {name for name, _ in fixed}
    for name, value in call.headers:
        lowered = name.lower()
        # Headers of HTTP only, such as Accept, are not legal here.
        if lowered not in present and legal(lowered, value):
            pairs.append((lowered, value))
    for wire in call.credentials:
        if wire.location != "header":
            raise _unsent(wire, f"gRPC carries credentials as metadata (headers), not as {wire.location}")
        if not legal(wire.name, wire.value.reveal()):
            raise _unsent(wire, "its name is one of gRPC's own, or its value is not printable ASCII")
    _, pairs = attach("", pairs, call.credentials, masked=masked)
    return [(name.lower(), value) for name, value in pairs]


def _unsent(wire: WireCredential, why: str) -> CredentialMissing:
    detail = f"The credential in the slot {wire.slot} cannot be sent as metadata: {why}."
    return CredentialMissing(detail, extra={"slots": [wire.slot]})


def legal(name: str, value: str) -> bool:
    """Return whether gRPC can carry this name and value as metadata."""
    lowered = name.lower()
    own = lowered in _RESERVED or lowered.startswith("grpc-") or lowered.endswith("-bin")
    return not own and bool(_NAME.fullmatch(lowered) and _VALUE.fullmatch(value))
