"""Redis: a client with short timeouts and no retries, and the circuit breaker that all its users share.

Calls must not wait for an unavailable Redis, so everything that uses it also works without it:

    redis = client.available_client()
    if redis is not None:       None while the breaker is open
        with client:            reports the outcome to the breaker, and suppresses the errors of Redis
            return await redis.get(name)
    return None
"""

import asyncio
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
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

__all__ = ["REDIS_ERRORS", "RedisClient", "RedisPoolExhausted", "connect"]

# The message of the error that redis-py's pool raises when no connection became free in time.
_NO_CONNECTION: Final = "No connection available."
REDIS_ERRORS = (RedisError, OSError)
"""The errors of a command where Redis cannot be used: connection refused, timeout, loading, read-only, out of
memory.
"""


class RedisPoolExhausted(RedisError):
    """No connection of this process's pool became free in time; Redis itself may be available."""


class _Pool(BlockingConnectionPool):
    """A pool that distinguishes a timeout of its own queue from a server that does not respond."""

    async def get_connection(self, *_: Any, **__: Any) -> Any:
        """Return a working connection; raise RedisPoolExhausted, or an error of Redis."""
        try:
            return await super().get_connection()  # type: ignore[no-untyped-call]
        except RedisConnectionError as error:
            if str(error) == _NO_CONNECTION:
                raise RedisPoolExhausted(_NO_CONNECTION) from None
            raise


class _CancellableConnection(AbstractConnection):
    """Sends a command as redis-py does, but keeps a cancellation, and raises only errors of Redis.

    redis-py waits with `asyncio.wait_for`, which until Python 3.12 loses a cancellation that arrives as the
    command is written. uvloop raises RuntimeError for a write to a reset connection.
    """

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        if check_health:
            await self.check_health()  # type: ignore[no-untyped-call]
        if isinstance(command, str):
            command = command.encode()
        is_sent = False
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command([command] if isinstance(command, bytes) else command)
            is_sent = True
        except TimeoutError:
            raise RedisTimeoutError("Timeout writing to socket") from None
        except (OSError, RuntimeError) as error:
            raise RedisConnectionError("The connection has been closed.") from error
        finally:
            if not is_sent:
                await self.disconnect(nowait=True)


class _Tcp(_CancellableConnection, Connection):
    pass


class _Tls(_CancellableConnection, SSLConnection):
    pass


class _Unix(_CancellableConnection, UnixDomainSocketConnection):
    pass


_CONNECTION_CLASSES = {Connection: _Tcp, SSLConnection: _Tls, UnixDomainSocketConnection: _Unix}


def connect(url: str, *, timeout: float = 0.1, max_connections: int = 32) -> "Redis":
    """Return a client for Redis 7 or Valkey, with at most `max_connections`; `timeout` (seconds) bounds each
    command.

    With redis-py's default retries, a command to a black-holed server takes 5.7 s; with `retry=None`, it
    takes the timeout.

    Raise ValueError for a URL of another form.
    """
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ValueError("REDIS_URL is not a Redis URL: give redis://host:6379/0, or rediss:// for TLS.")
    pool = _Pool.from_url(
        url,
        max_connections=max_connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=None,
        health_check_interval=0,
    )
    pool.connection_class = _CONNECTION_CLASSES[pool.connection_class]
    return Redis.from_pool(pool)


class RedisClient:
    """A Redis client behind a circuit breaker: an unavailable server costs its timeout once, not once per
    call.

    The first failure opens the breaker for `retry_seconds`; then one task at a time sends a probe (half
    open), and the first success closes it. `client` is None where there is no Redis. Use it in one event
    loop.
    """

    __slots__ = ("_client", "_retry_at", "_retry_seconds", "failures", "is_unavailable", "pool_timeouts")

    def __init__(self, client: "Redis | None", *, retry_seconds: float = 3.0) -> None:
        self._client = client
        self._retry_seconds = retry_seconds
        self._retry_at = 0.0
        self.is_unavailable = client is None
        """Whether the last command failed, or there is no Redis."""
        self.failures = 0
        """Commands that failed, since the start."""
        self.pool_timeouts = 0
        """Commands that were not sent, because all connections of this process were in use."""

    def available_client(self) -> "Redis | None":
        """Return the client, or None while the breaker is open.

        A probe without an outcome (its task was cancelled) is followed by another after `retry_seconds`.
        """
        if not self.is_unavailable:
            return self._client
        now = time.monotonic()
        if now < self._retry_at:
            return None
        self._retry_at = now + self._retry_seconds
        return self._client

    def __enter__(self) -> Self:
        """Enter the block in which commands are sent."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Close the breaker after a success, open it after an error of Redis, and suppress that error.

        An exhausted pool leaves the breaker as it is, since the command was never sent.
        """
        if kind is None:
            if self.is_unavailable:
                self.is_unavailable = False
            return False
        if not issubclass(kind, REDIS_ERRORS):
            return False
        if issubclass(kind, RedisPoolExhausted):
            self.pool_timeouts += 1
            return True
        self.failures += 1
        self.is_unavailable = True
        self._retry_at = time.monotonic() + self._retry_seconds
        return True
