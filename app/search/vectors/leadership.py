"""Which of the encoding processes of one database encodes: the one that holds an advisory lock."""

import contextlib
import hashlib
from typing import Any, Final

import asyncpg
from asyncpg.exceptions import InterfaceError, PostgresError

from app.core.errors import Unavailable
from app.storage.database import asyncpg_dsn

_LOCK: Final = 7240
_SECONDS: Final = 5.0


class Leadership:
    """The advisory lock of a model, held by a connection of its own; it ends with the connection.

    `dsn` must not go through a transaction pooler. `model` is the digest of the model: replicas with
    different models do not wait for each other.
    """

    def __init__(self, dsn: str, *, model: str) -> None:
        self._dsn = asyncpg_dsn(dsn)
        # The second key of a pair of 32-bit numbers.
        self._key = int.from_bytes(hashlib.sha256(model.encode()).digest()[:4], "big", signed=True)
        self._connection: Any = None
        self._leads = False

    async def acquire(self) -> bool:
        """Return whether this process holds the lock, or gets it now; raise Unavailable."""
        try:
            if self._connection is None or self._connection.is_closed():
                self._leads = False
                connecting = asyncpg.connect(self._dsn, timeout=_SECONDS)  # type: ignore[no-untyped-call]
                self._connection = await connecting
            if not self._leads:
                query = "SELECT pg_try_advisory_lock($1, $2)"
                self._leads = await self._connection.fetchval(query, _LOCK, self._key, timeout=_SECONDS)
        except (OSError, TimeoutError, PostgresError, InterfaceError):
            self.close()
            raise Unavailable("The database is unavailable.") from None
        return self._leads

    def close(self) -> None:
        """Give up the lock, with the connection."""
        connection, self._connection, self._leads = self._connection, None, False
        if connection is not None:
            with contextlib.suppress(InterfaceError):
                connection.terminate()
