"""A health probe of PostgreSQL on a connection outside the pool."""

import asyncio
import time

import asyncpg
from asyncpg.exceptions import InterfaceError, PostgresError, TooManyConnectionsError

from app.storage.database.dsn import asyncpg_dsn

_PROBE_SECONDS = 0.7
_LATE_SECONDS = 0.05
# After a failed probe, PostgreSQL counts as unavailable for so long without another probe.
_UNAVAILABLE_SECONDS = 0.5


class DatabaseProbe:
    """Probes whether PostgreSQL responds, on a connection of its own; concurrent callers share one probe.

    Used when the pool takes long to return a connection: an unresponsive server never returns one, while an
    exhausted pool soon will. `dsn` is a PostgreSQL URL.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = asyncpg_dsn(dsn)
        self._probing: asyncio.Task[bool] | None = None
        self._unavailable_until = 0.0

    @property
    def is_unavailable(self) -> bool:
        """Whether the latest probe failed, within the last half second."""
        return time.monotonic() < self._unavailable_until

    async def responds(self) -> bool:
        """Return whether PostgreSQL responds; start a probe, or wait for the one in progress."""
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe(), name="database-probe")
        return await asyncio.shield(self._probing)

    async def _probe(self) -> bool:
        until = time.monotonic() + _PROBE_SECONDS
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                connection = await asyncpg.connect(self._dsn, timeout=_PROBE_SECONDS)  # type: ignore[no-untyped-call]
            connection.terminate()
        except TooManyConnectionsError:
            # The server responded, though it has too many clients.
            return True
        except (OSError, TimeoutError, PostgresError, InterfaceError) as error:
            if isinstance(error, TimeoutError) and time.monotonic() > until + _LATE_SECONDS:
                # This process was too busy to notice a response in time: the timeout proves nothing.
                return True
            self._unavailable_until = time.monotonic() + _UNAVAILABLE_SECONDS
            return False
        finally:
            self._probing = None
        return True

    async def aclose(self) -> None:
        """Cancel the probe in progress."""
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
