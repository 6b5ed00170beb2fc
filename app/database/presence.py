"""Whether PostgreSQL is there at all: asked beside the pool."""

import asyncio
import time

import asyncpg
from asyncpg.exceptions import InterfaceError, PostgresError, TooManyConnectionsError

from app.database.dsn import asyncpg_dsn

_PROBE_SECONDS = 0.7
_LATE_SECONDS = 0.05
# After a silence, callers are told so without asking again for this long.
_UNAVAILABLE_SECONDS = 0.5


class Presence:
    """Whether PostgreSQL answers: asked when a connection is long in coming, once for all who wait.

    A server that is away in the sense of a black hole answers nothing for as long as one waits, while a pool
    that is busy gives a connection soon. The difference is found out on a connection beside the pool.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = asyncpg_dsn(dsn)
        self._probing: asyncio.Task[bool] | None = None
        self._unavailable_until = 0.0

    @property
    def away(self) -> bool:
        """It did not answer a moment ago."""
        return time.monotonic() < self._unavailable_until

    async def answers(self) -> bool:
        """Asks, or waits for the answer that others wait for."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe(), name="database-presence")
        return await asyncio.shield(self._probing)

    async def _probe(self) -> bool:
        until = time.monotonic() + _PROBE_SECONDS
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                connection = await asyncpg.connect(self._dsn, timeout=_PROBE_SECONDS)  # type: ignore[no-untyped-call]
            connection.terminate()
        except TooManyConnectionsError:
            # Who says that has too many clients, and is there.
            return True
        except (OSError, TimeoutError, PostgresError, InterfaceError) as error:
            if isinstance(error, TimeoutError) and time.monotonic() > until + _LATE_SECONDS:
                # This process was late itself, and cannot tell whose silence it was.
                return True
            self._unavailable_until = time.monotonic() + _UNAVAILABLE_SECONDS
            return False
        finally:
            self._probing = None
        return True

    async def aclose(self) -> None:
        """Stop asking."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
