"""Redis: a client with short timeouts and no retries, and the breaker that all its users share.

A token or a counter is never worth a wait, so whoever uses Redis can do without it:

    redis = cache.redis()
    if redis is not None:       else it is left alone for now
        with cache:             tells the breaker how it went, and swallows that Redis is away
            return await redis.get(name)
    return None
"""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

from redis.asyncio import Redis
from redis.asyncio.connection import (
    AbstractConnection,
    BlockingConnectionPool,
    Connection,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import RedisError

__all__ = ["AWAY", "Cache", "PoolBusy", "connect"]

# What redis-py's pool says, as an error of its own kind, when its queue was waited in for too long.
_NO_CONNECTION: Final = "No connection available."
AWAY = (RedisError, OSError)
"""What a command raises where Redis cannot be used: refused, timed out, loading, read-only, out of memory."""


class PoolBusy(RedisError):
    """No connection of this process's pool became free in time, which says nothing about Redis."""


class _Pool(BlockingConnectionPool):
    """A pool that tells a wait in its own queue from a server that does not answer."""

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        """A connection that works; raises `PoolBusy`, and errors of Redis."""
        try:
            return await super().get_connection()  # type: ignore[no-untyped-call]
        except RedisAway as error:
            if str(error) == _NO_CONNECTION:
                raise PoolBusy(_NO_CONNECTION) from None
            raise


class _Sending(AbstractConnection):
    """uvloop answers a write to a connection that was reset with RuntimeError, which is no error of Redis."""

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        try:
            await super().send_packed_command(command, check_health=check_health)
        except RuntimeError as error:
            raise RedisAway("The connection has been closed.") from error


class _Tcp(_Sending, Connection):
    pass


class _Tls(_Sending, SSLConnection):
    pass


class _Unix(_Sending, UnixDomainSocketConnection):
    pass


_KINDS = {Connection: _Tcp, SSLConnection: _Tls, UnixDomainSocketConnection: _Unix}


def connect(url: str, *, timeout: float = 0.1, connections: int = 32) -> "Redis":
    """A client for Redis 7 or Valkey. `timeout` (seconds) bounds each command.

    redis-py's default retries turn a black-holed server into 5.7 s per command; with `retry=None` it is
    the timeout itself.
    """
    pool = _Pool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=None,
        health_check_interval=0,
    )
    pool.connection_class = _KINDS[pool.connection_class]
    return Redis.from_pool(pool)


class Cache:
    """A Redis client behind a breaker, so that a server which is away costs its timeout once, not per call.

    The first failure opens it for `off_seconds`; then one caller at a time tries (half open), and the first
    that succeeds closes it. `client` None means that there is no Redis. Use it in one event loop.
    """

    __slots__ = ("_client", "_off_seconds", "_retry_at", "away", "busy", "failures")

    def __init__(self, client: "Redis | None", *, off_seconds: float = 3.0) -> None:
        self._client = client
        self._off_seconds = off_seconds
        self._retry_at = 0.0
        self.away = client is None
        """Whether Redis did not answer when it was last asked, or there is none."""
        self.failures = 0
        """Commands that failed, since the start."""
        self.busy = 0
        """Commands that were not sent, because every connection of this process was in use."""

    def redis(self) -> "Redis | None":
        """The client, or None while Redis is left alone.

        A probe of which nothing is heard (its task was cancelled) is followed by another after `off_seconds`.
        """
        if not self.away:
            return self._client
        now = time.monotonic()
        if now < self._retry_at:
            return None
        self._retry_at = now + self._off_seconds
        return self._client

    def __enter__(self) -> Self:
        """Commands are sent within."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Closes the breaker after a command that was answered, opens it after one of `AWAY`, but for
        `PoolBusy`: that command was never sent."""
        if kind is None:
            if self.away:
                self.away = False
            return False
        if not issubclass(kind, AWAY):
            return False
        if issubclass(kind, PoolBusy):
            self.busy += 1
            return True
        self.failures += 1
        self.away = True
        self._retry_at = time.monotonic() + self._off_seconds
        return True
