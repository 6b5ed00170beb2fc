"""What of a call goes as metadata: headers of the template and of the call, and credentials, which win."""

import re
from typing import Final

from app.errors import CredentialMissing, FieldError, InvalidInput
from app.outbound.attach import attach
from app.outbound.credentials import WireCredential
from app.protocols.base import Call
from app.text import pointer

Pairs = list[tuple[str, str]]

# The gRPC specification's Header-Name and ASCII-Value; the rest is its own, HTTP/2's, or binary.
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
    """The template's own. Raises InvalidInput with pointers below /headers."""
    found: Pairs = []
    for name, value in headers.items():
        if not legal(name, value):
            field_error = FieldError(pointer("/headers", name), "gRPC cannot carry it as metadata.")
            raise InvalidInput("A header of the call template cannot be sent.", errors=[field_error])
        found.append((name.lower(), value))
    return found


def build_metadata(fixed: Pairs, call: Call, *, masked: bool = False) -> Pairs:
    """All of it. Raises CredentialMissing for a credential that metadata cannot carry."""
    pairs = [*fixed]
    present = {name for name, _ in fixed}
    for name, value in call.headers:
        lowered = name.lower()
        # What HTTP alone knows, such as Accept, is not legal here.
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
    """Whether gRPC can carry this as metadata."""
    lowered = name.lower()
    own = lowered in _RESERVED or lowered.startswith("grpc-") or lowered.endswith("-bin")
    return not own and bool(_NAME.fullmatch(lowered) and _VALUE.fullmatch(value))
