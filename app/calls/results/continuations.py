"""The rests of results that were cut, kept sealed in Redis for the key whose call it was.

    {owner}index              sorted set: `id:bytes:pieces` by the time of its end, for the limit of a key
    {owner}<id>:<n>           piece n of the content, sealed by the vault

`owner` is a digest of tenant and key. Neither names nor contents are readable in Redis. A handle is the id
and the position from which it reads; whoever has another key gets NotFound for it, and so does the same key
once it no longer sees the tool. Without Redis there are no handles, and calls are not affected.
"""

import re
import secrets
import time
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import orjson

from app.calls.results.budget import Rest
from app.core import exact_json
from app.core.errors import NotFound, Unavailable
from app.security.principal import Principal, ToolVisibility
from app.security.vault import SealBroken, Vault
from app.storage.redis import RedisClient

SECONDS: Final = 600
MAX_BYTES: Final = 8 << 20
MAX_KEY_BYTES: Final = 64 << 20
_LEAST_BYTES: Final = 16 << 10
"""Bytes that a rest counts as at least, so that a key has no more than 4,096 of them."""
_PIECE: Final = 256 << 10
"""Bytes of a piece: a command with more could take longer than the timeout of Redis."""
_HANDLE: Final = re.compile(r"(c_[A-Za-z0-9_-]{22})(?:\.([ib])([0-9]{1,8}))?")
_CONTEXT: Final = "continuation"

# KEYS: index; ARGV: now, end, bytes, pieces, id, limit, seconds. Removes what has ended, and the oldest ones
# until the new one fits; returns these members.
_ADMIT: Final = """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
local total = tonumber(ARGV[3])
local members = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, member in ipairs(members) do
  total = total + tonumber(string.match(member, ':(%d+):'))
end
local removed = {}
for _, member in ipairs(members) do
  if total <= tonumber(ARGV[6]) then break end
  total = total - tonumber(string.match(member, ':(%d+):'))
  redis.call('ZREM', KEYS[1], member)
  removed[#removed + 1] = member
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[5] .. ':' .. ARGV[3] .. ':' .. ARGV[4])
redis.call('EXPIRE', KEYS[1], ARGV[7])
return removed
"""


# KEYS: index, piece; ARGV: the member of the rest, the sealed piece, seconds. Stores nothing, and returns 0,
# where the rest has been removed for a later one of the same key: nobody would count or delete the piece.
_ADD_PIECE: Final = """
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'EX', ARGV[3])
return 1
"""


@dataclass(frozen=True, slots=True)
class StoredRest:
    """A rest as it was stored, and from where it is to be read: an item, or a byte of its text."""

    id: str
    rest: Rest
    unit: Literal["item", "byte"]
    position: int


class ContinuationStore:
    """Stores rests of results, and returns them to the same key; one instance per worker."""

    def __init__(self, redis_client: RedisClient, vault: Vault, visibility: ToolVisibility) -> None:
        self._redis_client = redis_client
        self._vault = vault
        self._visibility = visibility

    async def store(self, rest: Rest, *, tool: str, principal: Principal) -> str | None:
        """Return the handle of a rest, stored for ten minutes; None where it is larger than 8 MiB, where it
        had to make room for others while it was stored, or where Redis is unavailable. `tool` is the
        canonical name of the tool that was called.

        A key has at most 64 MiB: its oldest rests end early.
        """
        if len(rest.content) > MAX_BYTES:
            return None
        head = {"kind": rest.kind, "tool": tool}
        content = exact_json.dumps(head) + b"\n" + rest.content
        pieces = [content[start : start + _PIECE] for start in range(0, len(content), _PIECE)]
        handle = f"c_{secrets.token_urlsafe(16)}"
        owner, context = self._derive_prefix(principal), _build_context(principal)
        client = self._redis_client.available_client()
        if client is None:
            return None
        with self._redis_client:
            now = time.time()
            counted = max(len(rest.content), _LEAST_BYTES)
            removed = await cast("Any", client.eval)(
                _ADMIT, 1, f"{owner}index", now, now + SECONDS, counted, len(pieces), handle, MAX_KEY_BYTES,
                SECONDS,
            )  # fmt: skip
            for member in removed:
                removed_handle, _, count = _decode_member(member).split(":")
                await client.delete(*(f"{owner}{removed_handle}:{number}" for number in range(int(count))))
            member = f"{handle}:{counted}:{len(pieces)}"
            for number, piece in enumerate(pieces):
                sealed = self._vault.seal(_add_label(handle, number, len(pieces), piece), context=context)
                added = await cast("Any", client.eval)(
                    _ADD_PIECE, 2, f"{owner}index", f"{owner}{handle}:{number}", member, sealed, SECONDS
                )
                if not added:
                    return None
            return handle
        return None

    async def load(self, handle: str, *, principal: Principal) -> StoredRest:
        """Return a rest by its handle; raise NotFound where there is none for this key, or it no longer sees
        the tool, and Unavailable without Redis or PostgreSQL.
        """
        match = _HANDLE.fullmatch(handle)
        if match is None:
            raise _create_not_found_error()
        content = await self._read_content(match[1], principal)
        line, _, rest = content.partition(b"\n")
        head = orjson.loads(line)
        if not await self._visibility.may_see(head.get("tool", ""), principal=principal):
            raise _create_not_found_error()
        if match[2] == "i" and head["kind"] != "items":
            raise _create_not_found_error()
        unit: Literal["item", "byte"] = "byte" if (match[2] or head["kind"][0]) in ("b", "t") else "item"
        return StoredRest(match[1], Rest(head["kind"], rest), unit, int(match[3] or 0))

    async def _read_content(self, handle: str, principal: Principal) -> bytes:
        owner, context = self._derive_prefix(principal), _build_context(principal)
        client = self._redis_client.available_client()
        if client is None:
            raise _create_unavailable_error()
        pieces: list[bytes] = []
        with self._redis_client:
            count = 1
            while len(pieces) < count:
                sealed = await client.get(f"{owner}{handle}:{len(pieces)}")
                if sealed is None:
                    raise _create_not_found_error()
                count, piece = self._open_piece(cast("bytes", sealed), handle, len(pieces), context)
                pieces.append(piece)
            return b"".join(pieces)
        raise _create_unavailable_error()

    def _open_piece(
        self, sealed: bytes, handle: str, number: int, context: tuple[str, ...]
    ) -> tuple[int, bytes]:
        """Return how many pieces there are, and the content of one."""
        try:
            label, _, piece = self._vault.open(sealed, context=context).partition(b"\n")
        except SealBroken:
            raise _create_not_found_error() from None
        labelled_handle, labelled_number, count = label.decode().split(":")
        if (labelled_handle, labelled_number) != (handle, str(number)):
            raise _create_not_found_error()
        return int(count), piece

    def _derive_prefix(self, principal: Principal) -> str:
        """Return the beginning of the names of a key's entries, which are in one slot of a Redis cluster."""
        digest = self._vault.digest(_CONTEXT, principal.tenant_id.bytes, principal.key_id.encode())
        return f"continuation:{{{digest[:16].hex()}}}:"


def _build_context(principal: Principal) -> tuple[str, ...]:
    return (_CONTEXT, principal.tenant_id.hex, principal.key_id)


def _add_label(handle: str, number: int, count: int, piece: bytes) -> bytes:
    return f"{handle}:{number}:{count}\n".encode() + piece


def _decode_member(member: str | bytes) -> str:
    return member.decode() if isinstance(member, bytes) else member


def _create_not_found_error() -> NotFound:
    return NotFound(
        "There is no such continuation.",
        hint="A continuation can be read for ten minutes, by the API key whose call it belongs to; call the "
        "tool again.",
    )


def _create_unavailable_error() -> Unavailable:
    return Unavailable("The rest of the result cannot be read at present.")
