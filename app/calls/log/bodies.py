"""Recorded arguments and responses of calls (CALL_LOG_BODIES): truncated, and sealed with the call's id.

They are stored in the row of the call record and deleted with it. Only a key with the scope `calls:bodies`
may read them, and each read is recorded as an event.
"""

import base64
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

import orjson

from app.calls.log.entries import CallLogEntry
from app.core import exact_json
from app.security.vault import Vault

BodyPolicy = Literal["errors", "all"]
BodyField = Literal["arguments", "result", "evidence"]
_JSON: Final = "application/json"
_EVIDENCE_OVERHEAD: Final = 64 << 10
"""Bytes of evidence besides the output: the command, the end of the error output."""


@dataclass(frozen=True, slots=True)
class CapturedBody:
    """A recorded body: `text`, or `base64` where it is not UTF-8.

    `bytes` is the length of the whole body, `truncated` says that the recorded body is shorter.
    """

    media_type: str
    bytes: int
    truncated: bool
    text: str | None = None
    base64: str | None = None
    presets: "CapturedBody | None" = None
    """Of arguments: those that a toolset set, by JSON pointer; the body has those of the client."""


class BodyRecorder:
    """Seals the first `max_bytes` bytes of bodies: of all calls, or (policy `errors`) of failed ones."""

    def __init__(self, vault: Vault, *, policy: BodyPolicy, max_bytes: int) -> None:
        self._vault = vault
        self._policy = policy
        self._max_bytes = max_bytes
        # Its output is base64, and the envelope has members beside it.
        self._max_evidence = max_bytes * 4 // 3 + _EVIDENCE_OVERHEAD

    def create_bodies(self) -> "BodyBuffers":
        """Return empty buffers for the bodies of one call."""
        return BodyBuffers(self._max_bytes)

    def seal(self, bodies: "BodyBuffers", entry: CallLogEntry) -> None:
        """Seal the bodies into `entry`, the record of their call, where the policy includes its outcome."""
        if self._policy == "errors" and entry.outcome == "ok":
            return
        arguments = bodies.arguments.as_body()
        if bodies.presets.size:
            arguments = replace(arguments, presets=bodies.presets.as_body())
        entry.arguments = self._seal_body(arguments, entry, "arguments")
        if bodies.result.size:
            entry.result = self._seal_body(bodies.result.as_body(), entry, "result")
        if bodies.evidence is not None:
            # A part of it would give other bytes and another hash.
            whole = bodies.evidence if len(bodies.evidence) <= self._max_evidence else b"null"
            context = _build_context(entry.tenant_id, entry.id, "evidence")
            entry.evidence = self._vault.seal(whole, context=context)

    def _seal_body(self, body: CapturedBody, entry: CallLogEntry, field: BodyField) -> bytes:
        context = _build_context(entry.tenant_id, entry.id, field)
        return self._vault.seal(exact_json.dumps(body), context=context)


class BodyBuffer:
    """The first `max_bytes` bytes of one body, and the size of the whole body in bytes."""

    __slots__ = ("_max_bytes", "_prefix", "media_type", "size")

    def __init__(self, max_bytes: int) -> None:
        self.media_type = _JSON
        self.size = 0
        self._max_bytes = max_bytes
        self._prefix = bytearray()

    def add(self, piece: bytes) -> None:
        """Append the next piece of the body; beyond the limit, only its size is counted."""
        self.size += len(piece)
        free = self._max_bytes - len(self._prefix)
        if free > 0:
            self._prefix += piece[:free]

    def clear(self) -> None:
        """Remove what was added."""
        self.size = 0
        self._prefix.clear()

    def as_body(self) -> CapturedBody:
        """Return the recorded body; a character that is split by the truncation is omitted."""
        prefix = bytes(self._prefix)
        truncated = self.size > len(prefix)
        for cut in range(4 if truncated else 1):
            try:
                text = prefix[: len(prefix) - cut].decode()
            except UnicodeDecodeError:
                continue
            return CapturedBody(self.media_type, self.size, truncated, text=text)
        return CapturedBody(self.media_type, self.size, truncated, base64=base64.b64encode(prefix).decode())


class BodyBuffers:
    """The buffers for the bodies of one call."""

    __slots__ = ("arguments", "evidence", "presets", "result")

    def __init__(self, max_bytes: int) -> None:
        self.arguments = BodyBuffer(max_bytes)
        self.presets = BodyBuffer(max_bytes)
        self.result = BodyBuffer(max_bytes)
        self.evidence: bytes | None = None


def open_body(vault: Vault, blob: bytes, *, tenant: UUID, call_id: UUID, field: BodyField) -> CapturedBody:
    """Return a body from its sealed form in a record; raise SealBroken for a blob of another call, tenant or
    field.
    """
    members: dict[str, Any] = orjson.loads(vault.open(blob, context=_build_context(tenant, call_id, field)))
    presets = members.pop("presets", None)
    return CapturedBody(**members, presets=None if presets is None else CapturedBody(**presets))


def open_evidence(vault: Vault, blob: bytes, *, tenant: UUID, call_id: UUID) -> dict[str, Any] | None:
    """Return recorded evidence, None where it was too long to be recorded; raise SealBroken."""
    opened: dict[str, Any] | None = orjson.loads(
        vault.open(blob, context=_build_context(tenant, call_id, "evidence"))
    )
    return opened


def _build_context(tenant: UUID, call_id: UUID, field: BodyField) -> tuple[str, ...]:
    return ("call-body", str(tenant), str(call_id), field)
