"""The audit events of executors: who connected from where, what it registered, and why it has disconnected.

An executor that reconnects in a loop writes at most two events of each action a minute: the first one at
once, and those of the rest of the minute as one, with their number (`repeated`) and the detail of the last.
"""

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal
from uuid import UUID

import structlog

from app.access.events import record_event
from app.core.errors import Unavailable
from app.protocols.command_routing import ExecutorConnection
from app.storage.database import Database

Action = Literal["connected", "registered", "deregistered", "disconnected"]

OBJECT_TYPE: Final = "executor"
REPEAT_SECONDS: Final = 60.0
"""How long events of the same executor, key and action are counted before they are written as one."""
_CLOSE_SECONDS: Final = 2.0
_MAX_WAITING: Final = 10_000
_MAX_NAMED: Final = 50

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Event:
    tenant_id: UUID
    executor: str
    key_id: str
    action: Action
    detail: dict[str, Any]

    @property
    def subject(self) -> tuple[UUID, str, str, str]:
        """What events have in common that are counted together."""
        return self.tenant_id, self.executor, self.key_id, self.action


@dataclass(slots=True)
class _Window:
    """The time in which events of one subject are counted: their number, and the last one."""

    repeated: int = 0
    last: _Event | None = None


class ExecutorAudit:
    """Writes the audit events of executors in a task of its own; one instance per worker.

    While PostgreSQL is unavailable events wait in memory, at most 10,000. `aclose` writes what is waiting.
    """

    def __init__(
        self,
        database: Database,
        *,
        repeat_seconds: float = REPEAT_SECONDS,
        retry_seconds: float = 1.0,
    ) -> None:
        self._database = database
        self._repeat_seconds = repeat_seconds
        self._retry_seconds = retry_seconds
        self._windows: dict[tuple[UUID, str, str, str], _Window] = {}
        self._timers: dict[tuple[UUID, str, str, str], asyncio.TimerHandle] = {}
        self._waiting: list[_Event] = []
        self._writing: asyncio.Task[None] | None = None
        self._is_closed = False

    def record(
        self, connection: ExecutorConnection, action: Action, detail: dict[str, Any], *, key_id: str = ""
    ) -> None:
        """Record an event of a connection, soon; `detail` is JSON without secrets.

        The actor is the key `key_id`, without one that of the connection.
        """
        described = connection.described("")
        actor = key_id or described.key_id
        event = _Event(described.tenant_id, described.executor, actor, action, detail)
        window = self._windows.get(event.subject)
        if window is None:
            self._begin(event.subject)
            self._write(event)
        else:
            window.repeated += 1
            window.last = event

    @property
    def counted(self) -> int:
        """Of how many executors, keys and actions the events are counted at the moment."""
        return len(self._windows)

    async def aclose(self) -> None:
        """Write what is waiting, for at most two seconds; later events are not recorded."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        for subject in list(self._windows):
            self._end(subject)
        if self._writing is not None:
            _, unfinished = await asyncio.wait([self._writing], timeout=_CLOSE_SECONDS)
            if unfinished:
                _log.warning("audit events of executors are lost", count=len(self._waiting))
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    def _begin(self, subject: tuple[UUID, str, str, str]) -> None:
        """Count further events of a subject from now on."""
        if self._is_closed:
            return
        self._windows[subject] = _Window()
        loop = asyncio.get_running_loop()
        self._timers[subject] = loop.call_later(self._repeat_seconds, self._end, subject)

    def _end(self, subject: tuple[UUID, str, str, str]) -> None:
        """Write the events that were counted as one, and count again; else forget the subject."""
        window = self._windows.pop(subject)
        del self._timers[subject]
        if window.last is None:
            return
        self._begin(subject)
        self._write(replace(window.last, detail={**window.last.detail, "repeated": window.repeated}))

    def _write(self, event: _Event) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            _log.warning("an audit event of an executor is lost", executor=event.executor)
            return
        self._waiting.append(event)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write_waiting())

    async def _write_waiting(self) -> None:
        while self._waiting:
            events = list(self._waiting)
            try:
                await self._write_all(events)
            except Unavailable:
                await asyncio.sleep(self._retry_seconds)
            except Exception:  # noqa: BLE001 - a background loop; the same events would fail again.
                _log.exception("audit events of executors could not be stored")
                del self._waiting[: len(events)]
            else:
                del self._waiting[: len(events)]

    async def _write_all(self, events: Iterable[_Event]) -> None:
        async with self._database.transaction() as session:
            for event in events:
                await record_event(
                    session,
                    actor=event.key_id,
                    action=event.action,
                    object_type=OBJECT_TYPE,
                    object_name=event.executor,
                    detail=event.detail,
                    tenant=event.tenant_id,
                )


class ConnectionAudit:
    """The audit events of one connection by `transport`, from `address`, "" where it has none."""

    def __init__(self, audit: ExecutorAudit, *, transport: str, address: str) -> None:
        self._audit = audit
        self.transport = transport
        self._address = address

    def connected(self, connection: ExecutorConnection) -> None:
        """Record that a connection is that of an executor from now on."""
        self._audit.record(connection, "connected", self._detail(connection))

    def registered(self, connection: ExecutorConnection, counts: dict[str, int], *, key_id: str) -> None:
        """Record a registration that changed the tools of the provider.

        `counts` is the number of tools by what has become of them.
        """
        detail = self._detail(connection) | _named(connection.commands) | {"tools": counts}
        self._audit.record(connection, "registered", detail, key_id=key_id)

    def deregistered(self, connection: ExecutorConnection, commands: Iterable[str], *, key_id: str) -> None:
        """Record which commands a connection no longer executes."""
        detail = self._detail(connection) | _named(commands)
        self._audit.record(connection, "deregistered", detail, key_id=key_id)

    def disconnected(self, connection: ExecutorConnection, reason: str) -> None:
        """Record the end of a connection, and its duration in seconds."""
        seconds = round(max(time.time() - connection.described("").connected_at, 0.0), 3)
        detail = self._detail(connection) | {"reason": reason, "seconds": seconds}
        self._audit.record(connection, "disconnected", detail)

    def _detail(self, connection: ExecutorConnection) -> dict[str, Any]:
        return {"transport": self.transport, "address": self._address, "connection_id": connection.id}


def _named(commands: Iterable[str]) -> dict[str, Any]:
    """Return the number of commands, and the first 50 names."""
    names = sorted(commands)
    return {"commands": names[:_MAX_NAMED], "command_count": len(names)}
