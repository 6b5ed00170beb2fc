"""Detection of loops between gateways: the identity of this one, and the header CDN-Loop (RFC 8586)."""

import re
from typing import Final

from app.core.errors import LoopDetected
from app.security.vault import Vault

_MAX_LENGTH: Final = 2048
_FIELD_CHARACTERS: Final = re.compile(rb"[\x20-\x7e\t]*")


def gateway_identity(vault: Vault) -> str:
    """Return an identifier of the gateway: opaque, and the same for all replicas with one database."""
    return f"utcp-gateway-{vault.digest('gateway-identity').hex()[:16]}"


def cdn_loop_headers(value: bytes, identity: str) -> tuple[tuple[str, str], ...]:
    """Return the CDN-Loop header for the upstream request of a call that was received with `value`.

    Raise LoopDetected where `value` names this gateway, is longer than 2048 bytes or is not a valid value.
    """
    if names_gateway(value, identity):
        raise LoopDetected("The call has passed through this gateway before.")
    if len(value) > _MAX_LENGTH or not _FIELD_CHARACTERS.fullmatch(value):
        raise LoopDetected("The CDN-Loop header is too long or malformed.")
    return (("CDN-Loop", value.decode("ascii")),)


def names_gateway(value: bytes, identity: str) -> bool:
    """Return whether the value of a CDN-Loop header names this gateway."""
    found = (entry.partition(b";")[0].strip() for entry in value.split(b","))
    return bool(identity) and identity.encode() in found
