"""The second level of the token cache: sealed tokens in Redis, and a lock so that one process fetches.

Everything here works without Redis, too: while it is unreachable it reads as empty (see
`app.storage.redis.RedisClient`).
"""

import base64
import binascii
import secrets
from dataclasses import dataclass
from typing import Any, Literal

from redis.asyncio import Redis

from app.security.secret import Secret
from app.security.vault import SealBroken, Vault
from app.storage.redis import RedisClient

_DELETE_IF_EQUAL = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
)
_RENEW_IF_EQUAL = (
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) "
    "else return 0 end"
)


@dataclass(frozen=True, slots=True)
class SharedToken:
    """A token from Redis, and the seconds for which it may still be used."""

    token: Secret
    seconds: float


class SharedTokens:
    """Tokens in Redis under `prefix` and the hex of a keyed digest; values are sealed and bound to their key.

    The Redis client must respond or fail fast (socket timeouts, no retries).
    """

    def __init__(self, vault: Vault, redis_client: RedisClient, *, prefix: str) -> None:
        self._vault = vault
        self._redis_client = redis_client
        self._prefix = prefix

    async def read(self, key: bytes) -> SharedToken | None:
        """Return the stored token with its remaining lifetime by Redis's own clock, or None."""
        redis = self._redis_client.available_client()
        if redis is None:
            return None
        name = self._name(key)
        sealed, left = None, 0
        with self._redis_client:
            async with redis.pipeline(transaction=False) as pipe:
                pipe.get(name)
                pipe.pttl(name)
                sealed, left = await pipe.execute()
        if sealed is None or left <= 0:
            return None
        token = self._open(sealed, key)
        return None if token is None else SharedToken(token=token, seconds=left / 1000)

    async def write(self, key: bytes, token: Secret, *, seconds: float) -> None:
        """Store a token for `seconds`, which must be less than its lifetime."""
        if seconds < 1:
            return
        blob = self._vault.seal(token.reveal().encode(), context=("token", key.hex()))
        redis = self._redis_client.available_client()
        if redis is not None:
            with self._redis_client:
                await redis.set(self._name(key), base64.b64encode(blob), px=int(seconds * 1000))

    async def drop(self, key: bytes, token: Secret) -> None:
        """Delete the stored token if it is still `token`."""
        redis = self._redis_client.available_client()
        if redis is None:
            return
        name = self._name(key)
        with self._redis_client:
            sealed = await redis.get(name)
            if sealed is not None and self._open(sealed, key) == token:
                await self._delete_if_equal(redis, name, sealed)

    async def acquire(self, key: bytes, *, seconds: float) -> str | Literal[False] | None:
        """Try once to take the lock of a key for `seconds`.

        Return an owner's id, False where another process holds the lock, or None where there is no Redis.
        """
        redis = self._redis_client.available_client()
        if redis is None:
            return None
        owner = secrets.token_hex(16)
        with self._redis_client:
            taken = await redis.set(self._name(key) + ":lock", owner, nx=True, px=int(seconds * 1000))
            return owner if taken else False
        return None

    async def renew(self, key: bytes, owner: str, *, seconds: float) -> None:
        """Extend the lock to `seconds` from now if it is still this owner's."""
        redis = self._redis_client.available_client()
        if redis is not None:
            name = self._name(key) + ":lock"
            with self._redis_client:
                await redis.eval(_RENEW_IF_EQUAL, 1, name, owner, str(int(seconds * 1000)))

    async def release(self, key: bytes, owner: str) -> None:
        """Release the lock if it is still this owner's; without Redis, it expires by itself."""
        redis = self._redis_client.available_client()
        if redis is not None:
            with self._redis_client:
                await self._delete_if_equal(redis, self._name(key) + ":lock", owner)

    async def _delete_if_equal(self, redis: "Redis", name: str, value: Any) -> None:
        await redis.eval(_DELETE_IF_EQUAL, 1, name, value)

    def _name(self, key: bytes) -> str:
        return f"{self._prefix}{key.hex()}"

    def _open(self, sealed: bytes | str, key: bytes) -> Secret | None:
        """Return the token, or None for anything that was not sealed with a key of ours."""
        try:
            blob = base64.b64decode(sealed, validate=True)
            return Secret(self._vault.open(blob, context=("token", key.hex())).decode())
        except (SealBroken, binascii.Error, ValueError):
            return None
