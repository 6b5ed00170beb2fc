"""Gateways that call each other: who this one is, and calls that were here before (CDN-Loop, RFC 8586)."""

import re
from typing import Final

from app.errors import LoopDetected
from app.security.vault import Vault

LOOP: Final = b"cdn-loop"
_MAX_LENGTH: Final = 2048
_FIELD_CHARACTERS: Final = re.compile(rb"[\x20-\x7e\t]*")


def identity_of(vault: Vault) -> str:
    """Return the same for all replicas over one database; it tells nothing about anything."""
    return f"utcp-gateway-{vault.digest('gateway-identity').hex()[:16]}"


def travelled(value: bytes, identity: str) -> tuple[tuple[str, str], ...]:
    """Return the header with which a call goes on, which says where it has been; raises LoopDetected."""
    if came_from(value, identity):
        raise LoopDetected("The call came from this gateway itself, through another one.")
    if len(value) > _MAX_LENGTH or not _FIELD_CHARACTERS.fullmatch(value):
        raise LoopDetected("The call has been through more gateways than anybody wants.")
    return (("CDN-Loop", value.decode("ascii")),)


def came_from(value: bytes, identity: str) -> bool:
    """Return whether the header names this gateway."""
    found = (entry.partition(b";")[0].strip() for entry in value.split(b","))
    return bool(identity) and identity.encode() in found
