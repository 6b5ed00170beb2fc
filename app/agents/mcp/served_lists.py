"""Which lists of tools clients may still have: their digests, in Redis, for all workers.

    mcp-lists:<owner>         sorted set: digests by the time at which they were served

A client lists its tools and then subscribes to their changes; what changes in between is in neither. Its
subscription therefore begins with a notification where a list was served within the last hour that differs
from the current one. `owner` is a digest of key, address and mode. A worker notes the same list once a
minute, so that lists that do not change cost no command.
"""

import time
from typing import Any, Final, NamedTuple, cast

from app.security.principal import Principal
from app.security.vault import Vault
from app.storage.redis import RedisClient
from app.toolsets.collection import ListMode

SECONDS: Final = 3_600
"""For how long a list counts as one that a client may have: much longer than it may be cached (`ttlMs`)."""
_NOTED_SECONDS: Final = 60
_MAX_NOTED: Final = 10_000


class ListAddress(NamedTuple):
    """For whom a list is, and where: `toolset` is that of the address, None for one that names none."""

    principal: Principal
    toolset: str | None
    mode: ListMode


class ServedLists:
    """Notes the lists that are served, and compares them with the current one; one instance per worker."""

    def __init__(self, redis_client: RedisClient, vault: Vault) -> None:
        self._redis_client = redis_client
        self._vault = vault
        self._noted: dict[tuple[str, str], float] = {}

    async def note(self, address: ListAddress, digest: str) -> None:
        """Note that a list is about to be served; raise nothing where Redis is unavailable."""
        name, now = self._name(address), time.time()
        if now < self._noted.get((name, digest), 0.0) + _NOTED_SECONDS:
            return
        client = self._redis_client.available_client()
        if client is None:
            return
        with self._redis_client:
            commands = client.pipeline(transaction=False)
            commands.zadd(name, {digest: now})
            commands.zremrangebyscore(name, "-inf", now - SECONDS)
            commands.expire(name, SECONDS)
            await commands.execute()
            if len(self._noted) >= _MAX_NOTED:
                self._noted.clear()
            self._noted[name, digest] = now

    async def has_other(self, address: ListAddress, digest: str) -> bool:
        """Return whether a client may have another list than that with this digest; True without Redis."""
        client = self._redis_client.available_client()
        if client is None:
            return True
        with self._redis_client:
            oldest = time.time() - SECONDS
            served = await cast("Any", client.zrangebyscore)(self._name(address), oldest, "+inf")
            return any(member != digest.encode() for member in served)
        return True

    def _name(self, address: ListAddress) -> str:
        principal = address.principal
        parts = (principal.key_id, address.toolset or "", address.mode)
        owner = self._vault.digest("mcp-lists", principal.tenant_id.bytes, *(part.encode() for part in parts))
        return f"mcp-lists:{owner[:16].hex()}"
