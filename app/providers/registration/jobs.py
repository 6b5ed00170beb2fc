"""Runs imports in the background (`Prefer: respond-async`, RFC 7240) and stores the state of each in a row.

The worker that runs one writes a heartbeat into its row every few seconds. Where that is missing for longer,
the worker has ended, and the import has failed.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import delete, update
from sqlmodel import col

from app.catalog.feed import ChangeFeed, record_change
from app.core.errors import GatewayError, NotFound, Unavailable
from app.core.uuid7 import uuid7
from app.providers.registration.batch import ImportProgress
from app.providers.registration.converter import Converter
from app.providers.registration.model import RegistrationRequest
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import ImportJobRow, now

HEARTBEAT_SECONDS: Final = 5.0
HEARTBEAT_TIMEOUT_SECONDS: Final = 30.0
_PROGRESS_SECONDS: Final = 1.0
_RETENTION: Final = timedelta(days=7)


@cache
def _get_worker_name() -> str:
    """Return the name of this process, made at its first use: workers are forked after their imports."""
    return f"{os.getpid()}-{uuid7()}"


_log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[tuple[int, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class ImportJobs:
    """Starts imports and returns their state."""

    database: Database
    converter: Converter
    feed: ChangeFeed

    async def start(
        self,
        work: Work,
        *,
        principal: Principal,
        progress: ImportProgress,
        registers: Sequence[RegistrationRequest] = (),
    ) -> ImportJobRow:
        """Run the work, which returns a status and a body, in the background; return its row.

        `registers` are the providers that it stores; the workers learn when it begins and ends
        (`FirstImports`). The work counts in `progress`, which is stored once a second where it has changed.
        """
        providers = [{"name": one.name, "tags": list(one.tags)} for one in registers]
        state = {"beat": now().isoformat(), "providers": providers}
        row = ImportJobRow(owner=f"{_get_worker_name()}/{principal.key_id}", result=state)
        async with self.database.transaction() as session:
            await session.execute(
                delete(ImportJobRow).where(col(ImportJobRow.created_at) < now() - _RETENTION)
            )
            session.add(row)
            await session.flush()
            await record_change(session, kind="import", object_id=str(row.id))
        await self.feed.catch_up()
        self.converter.spawn(self._run(row.id, work, providers, progress))
        return row

    async def get(self, import_id: UUID, *, principal: Principal) -> ImportJobRow:
        """Return an import that this API key started, or any one for an admin without limits.

        Raises NotFound. An import without a heartbeat is marked as failed.
        """
        async with self.database.read_session() as session:
            row = await session.get(ImportJobRow, import_id)
        is_own = row is not None and row.owner.rpartition("/")[2] == principal.key_id
        if row is None or not (is_own or (not principal.is_restricted and principal.has_scope("admin"))):
            raise NotFound(f"There is no import {import_id}.")
        if row.state == "running" and self._is_dead(row):
            died = Unavailable("The worker that ran this import has ended. Ask for it again.")
            await self._finish(row.id, "failed", died.status, problem_json(died))
            async with self.database.read_session() as session:
                row = await session.get(ImportJobRow, import_id) or row
        return row

    async def _run(
        self, import_id: UUID, work: Work, providers: Sequence[Any], progress: ImportProgress
    ) -> None:
        heartbeat = asyncio.create_task(self._beat(import_id, providers, progress))
        state, status = "failed", 500
        body: dict[str, Any] = {}
        try:
            status, body = await work()
            state = "done"
        except GatewayError as error:
            status, body = error.status, problem_json(error)
        except Exception:  # noqa: BLE001 - a background task: whatever it was, the row must say that it failed.
            _log.exception("import failed", import_id=str(import_id))
            body = problem_json(GatewayError())
        finally:
            heartbeat.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await heartbeat
        with contextlib.suppress(Unavailable):
            await self._finish(import_id, state, status, body)

    async def _beat(self, import_id: UUID, providers: Sequence[Any], progress: ImportProgress) -> None:
        shown, written_at = ImportProgress(), time.monotonic()
        while True:
            await asyncio.sleep(_PROGRESS_SECONDS)
            if progress == shown and time.monotonic() - written_at < HEARTBEAT_SECONDS:
                continue
            shown, written_at = replace(progress), time.monotonic()
            with contextlib.suppress(Unavailable):
                async with self.database.transaction() as session:
                    beat = {
                        "beat": now().isoformat(),
                        "providers": list(providers),
                        "progress": asdict(shown) if shown.total else None,
                    }
                    await session.execute(
                        update(ImportJobRow).where(*_match_running(import_id)).values(result=beat)
                    )

    async def _finish(self, import_id: UUID, state: str, status: int, body: dict[str, Any]) -> None:
        values = {"state": state, "result": {"status": status, "body": body}, "finished_at": now()}
        async with self.database.transaction() as session:
            await session.execute(update(ImportJobRow).where(*_match_running(import_id)).values(**values))
            await record_change(session, kind="import", object_id=str(import_id))
        await self.feed.catch_up()

    def _is_dead(self, row: ImportJobRow) -> bool:
        beat = str((row.result or {}).get("beat") or row.created_at.isoformat())
        return beat < (now() - timedelta(seconds=HEARTBEAT_TIMEOUT_SECONDS)).isoformat()


def problem_json(error: GatewayError) -> dict[str, Any]:
    """Return the error as the problem details (RFC 9457) that a waiting client would have got."""
    return error.as_problem()


def _match_running(import_id: UUID) -> tuple[Any, ...]:
    return (col(ImportJobRow.id) == import_id, col(ImportJobRow.state) == "running")
