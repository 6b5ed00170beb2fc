"""Arguments and answers of calls, where a setting asks for them: bounded, and sealed with the call's id.

They lie in the row of the record and go with it. Only a key with the scope `calls:bodies` reads them, and
each reading leaves an event.
"""

import base64
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID

import orjson

from app.call_log.entries import CallEntry
from app.security.vault import Vault

Which = Literal["errors", "all"]
Field = Literal["arguments", "result"]
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Body:
    """What was kept of a body: text, or base64 where it is none; `bytes` is the length of the whole."""

    media_type: str
    bytes: int
    truncated: bool
    text: str | None = None
    base64: str | None = None


class BodyKeeper:
    """Seals at most `most_bytes` of each body: of all calls, or (`errors`) of those that did not succeed."""

    def __init__(self, vault: Vault, *, which: Which, most_bytes: int) -> None:
        self._vault = vault
        self._policy = which
        self._max_bytes = most_bytes

    def begin(self) -> "Bodies":
        """What a call gathers its bodies in."""
        return Bodies(self._max_bytes)

    def seal(self, bodies: "Bodies", entry: CallEntry) -> None:
        """Put the bodies into the record of their call, if calls with this outcome have them."""
        if self._policy == "errors" and entry.outcome == "ok":
            return
        entry.arguments = self._sealed(bodies.arguments, entry, "arguments")
        if bodies.result.size:
            entry.result = self._sealed(bodies.result, entry, "result")

    def _sealed(self, piece: "Piece", entry: CallEntry, field: Field) -> bytes:
        context = _context(entry.tenant_id, entry.id, field)
        return self._vault.seal(orjson.dumps(piece.as_body()), context=context)


class Piece:
    """The beginning of a body."""

    __slots__ = ("_max_bytes", "_prefix", "media_type", "size")

    def __init__(self, most: int) -> None:
        self.media_type = _JSON
        self.size = 0
        self._max_bytes = most
        self._prefix = bytearray()

    def add(self, piece: bytes) -> None:
        """More of the body."""
        self.size += len(piece)
        room = self._max_bytes - len(self._prefix)
        if room > 0:
            self._prefix += piece[:room]

    def as_body(self) -> Body:
        """What was kept. A character that was cut in two is left out."""
        kept = bytes(self._prefix)
        truncated = self.size > len(kept)
        for cut in range(4 if truncated else 1):
            try:
                text = kept[: len(kept) - cut].decode()
            except UnicodeDecodeError:
                continue
            return Body(self.media_type, self.size, truncated, text=text)
        return Body(self.media_type, self.size, truncated, base64=base64.b64encode(kept).decode())


class Bodies:
    """The bodies of one call, as they come by."""

    __slots__ = ("arguments", "result")

    def __init__(self, most_bytes: int) -> None:
        self.arguments = Piece(most_bytes)
        self.result = Piece(most_bytes)


def open_body(vault: Vault, blob: bytes, *, tenant: UUID, call_id: UUID, field: Field) -> Body:
    """What `seal` put into a record; raises SealBroken for a blob of another call, tenant or field."""
    found: dict[str, Any] = orjson.loads(vault.open(blob, context=_context(tenant, call_id, field)))
    return Body(**found)


def _context(tenant: UUID, call_id: UUID, field: Field) -> tuple[str, ...]:
    return ("call-body", str(tenant), str(call_id), field)
