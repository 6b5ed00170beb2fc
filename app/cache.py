"""The Redis client: short timeouts and no retries, because a token or a counter is never worth a wait."""

from redis.asyncio import Redis
from redis.asyncio.connection import BlockingConnectionPool


def connect(url: str, *, timeout: float = 0.1, connections: int = 32) -> "Redis":
    """A client for Redis 7 or Valkey. `timeout` (seconds) bounds each command.

    redis-py's default retries turn a black-holed server into 5.7 s per command; with `retry=None` it is
    the timeout itself.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=timeout,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=None,
        health_check_interval=0,
    )
    return Redis.from_pool(pool)
