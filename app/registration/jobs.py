"""Imports that nobody waits for (`Prefer: respond-async`, RFC 7240): a row says how each one fares.

The worker that runs one says in its row every few seconds that it still does; a row that has been silent for
longer belongs to a worker that died, and has failed.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy import delete, update
from sqlmodel import col

from app.database import Database
from app.errors import GatewayError, NotFound, Unavailable
from app.models import Import, new_id, now
from app.registration.converter import Converter
from app.security.principal import Principal

BEAT_SECONDS: Final = 5.0
DEAD_SECONDS: Final = 30.0
_KEPT: Final = timedelta(days=7)
_WORKER: Final = f"{os.getpid()}-{new_id()}"
_log = structlog.get_logger(__name__)

Work = Callable[[], Awaitable[tuple[int, dict[str, Any]]]]


@dataclass(frozen=True, slots=True)
class ImportJobs:
    """Starts imports and tells how they fare."""

    database: Database
    converter: Converter

    async def start(self, work: Work, *, principal: Principal) -> Import:
        """Runs the work, which gives a status and an answer, beside the requests."""
        row = Import(owner=f"{_WORKER}/{principal.key_id}", result={"beat": now().isoformat()})
        async with self.database.writing() as session:
            await session.execute(delete(Import).where(col(Import.created_at) < now() - _KEPT))
            session.add(row)
        self.converter.spawn(self._run(row.id, work))
        return row

    async def get(self, import_id: UUID, *, principal: Principal) -> Import:
        """An import that this caller (or anybody, for an admin without limits) started; NotFound.

        One whose worker has gone silent is marked as failed.
        """
        async with self.database.reading() as session:
            row = await session.get(Import, import_id)
        mine = row is not None and row.owner.rpartition("/")[2] == principal.key_id
        unlimited = principal.providers is None and principal.tags is None
        if row is None or not (mine or (unlimited and principal.has("admin"))):
            raise NotFound(f"There is no import {import_id}.")
        if row.state == "running" and self._is_silent(row):
            died = Unavailable("The worker that ran this import has ended. Ask for it again.")
            await self._finish(row.id, "failed", died.status, problem_of(died))
            async with self.database.reading() as session:
                row = await session.get(Import, import_id) or row
        return row

    async def _run(self, import_id: UUID, work: Work) -> None:
        beating = asyncio.create_task(self._beat(import_id))
        state, status = "failed", 500
        answer: dict[str, Any] = {}
        try:
            status, answer = await work()
            state = "done"
        except GatewayError as error:
            status, answer = error.status, problem_of(error)
        except Exception:  # noqa: BLE001 - a background task: whatever it was, the row must say that it failed.
            _log.exception("import failed", import_id=str(import_id))
            answer = problem_of(GatewayError())
        finally:
            beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await beating
        with contextlib.suppress(Unavailable):
            await self._finish(import_id, state, status, answer)

    async def _beat(self, import_id: UUID) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            with contextlib.suppress(Unavailable):
                async with self.database.writing() as session:
                    beat = {"beat": now().isoformat()}
                    await session.execute(update(Import).where(*_running(import_id)).values(result=beat))

    async def _finish(self, import_id: UUID, state: str, status: int, answer: dict[str, Any]) -> None:
        values = {"state": state, "result": {"status": status, "answer": answer}, "finished_at": now()}
        async with self.database.writing() as session:
            await session.execute(update(Import).where(*_running(import_id)).values(**values))

    def _is_silent(self, row: Import) -> bool:
        beat = str((row.result or {}).get("beat") or row.created_at.isoformat())
        return beat < (now() - timedelta(seconds=DEAD_SECONDS)).isoformat()


def problem_of(error: GatewayError) -> dict[str, Any]:
    """The error as the problem details (RFC 9457) that a waiting caller would have had."""
    problem: dict[str, Any] = {
        **error.extra,
        "type": f"urn:utcp-gateway:problem:{error.slug}",
        "title": error.title,
        "status": error.status,
        "detail": error.detail,
    }
    if error.errors:
        problem["errors"] = [fault.as_json() for fault in error.errors]
    return problem


def _running(import_id: UUID) -> tuple[Any, ...]:
    return (col(Import.id) == import_id, col(Import.state) == "running")
