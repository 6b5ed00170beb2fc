"""The second level of the token cache: Redis, sealed, and the lock that lets one process ask at a time.

Everything here works without Redis, too: what cannot be reached reads as empty (`app.redis_client.Cache` says
when).
"""

import base64
import binascii
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from redis.asyncio import Redis

from app.redis_client import Cache
from app.security.secret import Secret
from app.security.vault import SealBroken, Vault

_DELETE_IF_EQUAL = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
)
_RENEW_IF_EQUAL = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
    "else return 0 end"
)


@dataclass(frozen=True, slots=True)
class SharedToken:
    """A token from Redis, with the seconds for which it may still be used."""

    token: Secret
    seconds: float


class SharedTokens:
    """Tokens in Redis under `prefix` and the hex of a keyed digest; values are sealed and bound to their key.

    The client must answer or fail fast (socket time-outs, no retries).
    """

    def __init__(self, vault: Vault, cache: Cache, *, prefix: str) -> None:
        self._vault = vault
        self._cache = cache
        self._prefix = prefix

    async def read(self, key: bytes) -> SharedToken | None:
        """The stored token and its remaining life by Redis' own clock."""
        redis = self._cache.redis()
        if redis is None:
            return None
        name = self._name(key)
        sealed, left = None, 0
        with self._cache:
            async with redis.pipeline(transaction=False) as pipe:
                pipe.get(name)
                pipe.pttl(name)
                sealed, left = await pipe.execute()
        if sealed is None or left <= 0:
            return None
        token = self._opened(sealed, key)
        return None if token is None else SharedToken(token=token, seconds=left / 1000)

    async def write(self, key: bytes, token: Secret, *, seconds: float) -> None:
        """Keep a token for so long; shorter than it lives."""
        if seconds < 1:
            return
        blob = self._vault.seal(token.reveal().encode(), context=("token", key.hex()))
        redis = self._cache.redis()
        if redis is not None:
            with self._cache:
                await redis.set(self._name(key), base64.b64encode(blob), px=int(seconds * 1000))

    async def drop(self, key: bytes, token: Secret) -> None:
        """Delete the stored token if it is still this one."""
        redis = self._cache.redis()
        if redis is None:
            return
        name = self._name(key)
        with self._cache:
            sealed = await redis.get(name)
            if sealed is not None and self._opened(sealed, key) == token:
                await self._delete_if_equal(redis, name, sealed)

    async def acquire(self, key: bytes, *, seconds: float) -> str | Literal[False] | None:
        """Try once to lock: an owner's mark, False where another holds it, None where there is no Redis."""
        redis = self._cache.redis()
        if redis is None:
            return None
        owner = secrets.token_hex(16)
        with self._cache:
            taken = await redis.set(self._name(key) + ":lock", owner, nx=True, px=int(seconds * 1000))
            return owner if taken else False
        return None

    async def renew(self, key: bytes, owner: str, *, seconds: float) -> None:
        """Let the lock last so long from now if it is still this owner's."""
        redis = self._cache.redis()
        if redis is not None:
            name = self._name(key) + ":lock"
            with self._cache:
                await redis.eval(_RENEW_IF_EQUAL, 1, name, owner, str(int(seconds * 1000)))

    async def release(self, key: bytes, owner: str) -> None:
        """Unlock if the lock is still this owner's; one that cannot be reached ends by itself."""
        redis = self._cache.redis()
        if redis is not None:
            with self._cache:
                await self._delete_if_equal(redis, self._name(key) + ":lock", owner)

    async def _delete_if_equal(self, redis: "Redis", name: str, value: Any) -> None:
        await redis.eval(_DELETE_IF_EQUAL, 1, name, value)

    def _name(self, key: bytes) -> str:
        return f"{self._prefix}{key.hex()}"

    def _opened(self, sealed: bytes | str, key: bytes) -> Secret | None:
        """What others wrote, or wrote with keys that we do not have, counts as absent."""
        try:
            blob = base64.b64decode(sealed, validate=True)
            return Secret(self._vault.open(blob, context=("token", key.hex())).decode())
        except (SealBroken, binascii.Error, ValueError):
            return None
