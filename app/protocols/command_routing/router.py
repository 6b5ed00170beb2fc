"""Which executor a command goes to: the least busy of those that have registered it, at any worker."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar
from uuid import UUID

from app.core.errors import UpstreamTimeout
from app.formats.ubp.model import Command, CommandResult, Status
from app.protocols.command_routing.connection import ExecutorConnection
from app.protocols.command_routing.counts import CommandCounts, CommandOutcome
from app.protocols.command_routing.model import (
    NO_METADATA,
    Capability,
    CommandNotSent,
    ConnectedExecutor,
    ExecutorDisconnected,
    ExecutorKey,
    ExecutorsListener,
    ProgressListener,
    latest_start,
    not_connected,
)

ConnectedListener: TypeAlias = Callable[[UUID, str], None]
"""Called with a tenant and the name of its executor; it must not block."""

_Connection = TypeVar("_Connection")
_ByExecutor: TypeAlias = dict[ExecutorKey, dict[str, _Connection]]
"""Connections by their executor and by their id."""

_TIMED_OUT: Final = "The executor did not respond in time."
_MAX_AWAY: Final = 10_000


class Relay(Protocol):
    """What the router needs of `WorkerRelay`."""

    worker_id: str

    @property
    def is_available(self) -> bool:
        """Whether executors of other workers are known."""

    async def ensure_started(self) -> bool:
        """Start reading the inbox, once; return False where Redis is unavailable."""

    async def refresh(self) -> None:
        """Describe the executors of this worker to others, and read what they describe."""

    def remote_executors(self) -> Iterator[ConnectedExecutor]:
        """Yield the executors of other workers."""

    def listen(self, listener: ExecutorsListener) -> None:
        """Call `listener` at changes of the executors of another worker."""

    async def execute(
        self,
        executor: ConnectedExecutor,
        command: Command,
        *,
        seconds: float,
        on_progress: ProgressListener | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommandResult:
        """Return the result of a command that another worker's executor executes."""

    async def aclose(self) -> None:
        """Stop."""


class CommandRouter:
    """The executors of this worker, and by the relay those of others; one instance per worker."""

    def __init__(self) -> None:
        self._connections: dict[str, ExecutorConnection] = {}
        self._local: _ByExecutor[ExecutorConnection] = {}
        self._remote_by_executor: _ByExecutor[ConnectedExecutor] = {}
        self._relay: Relay | None = None
        self._away_since: OrderedDict[tuple[UUID, str], float] = OrderedDict()
        self._on_connected: ConnectedListener = _nobody
        self.counts = CommandCounts()

    def use(self, relay: Relay) -> None:
        """Route to other workers, too; without a relay, only executors of this worker are known."""
        self._relay = relay
        relay.listen(self._remote_changed)

    def listen(self, listener: ConnectedListener) -> None:
        """Call `listener` with the tenant and the name of each executor that connects, at any worker."""
        self._on_connected = listener

    async def aclose(self) -> None:
        """End all connections, and the relay."""
        for connection in list(self._connections.values()):
            self.remove(connection)
            await connection.wait_closed()
        if self._relay is not None:
            await self._relay.aclose()

    def add(self, connection: ExecutorConnection) -> None:
        """Add a connection of this worker; call `announce` once it has registered what it executes."""
        self._connections[connection.id] = connection
        _add(self._local, connection.key, connection.id, connection)
        self._changed((), (connection.described(""),))

    def remove(self, connection: ExecutorConnection) -> None:
        """Remove a connection and close it: its open commands fail. Idempotent."""
        if self._connections.pop(connection.id, None) is not None:
            _remove(self._local, connection.key, connection.id)
            self._changed((connection.described(""),), ())
        connection.close()

    async def announce(self) -> None:
        """Tell other workers at once what executors this one has; otherwise they learn it within a second."""
        if self._relay is not None and await self._relay.ensure_started():
            await self._relay.refresh()

    async def follow_workers(self) -> None:
        """Read which executors other workers have, and follow them from then on.

        Only the first call waits for Redis.
        """
        if self._relay is not None:
            await self._relay.ensure_started()

    def connections(self) -> Collection[ExecutorConnection]:
        """Return the connections of this worker, also those that have registered nothing."""
        return self._connections.values()

    def described(self) -> list[ConnectedExecutor]:
        """Return the connections of this worker."""
        worker_id = "" if self._relay is None else self._relay.worker_id
        return [connection.described(worker_id) for connection in self._connections.values()]

    async def executors(self, tenant_id: UUID) -> list[ConnectedExecutor]:
        """Return the connected executors of a tenant at all workers, by name and time of connection."""
        if self._relay is not None and await self._relay.ensure_started():
            await self._relay.refresh()
        found = [one for one in self._all() if one.tenant_id == tenant_id and one.is_registered]
        return sorted(found, key=lambda one: (one.executor, one.connected_at, one.connection_id))

    def is_connected(self, capability: Capability) -> bool:
        """Return whether an executor of any worker has the capability, as far as this worker knows: those of
        others after `follow_workers` or `announce`, about a second late.
        """
        key = (capability.tenant_id, capability.executor)
        return any(capability.command_name in one.commands for one in self._of(key))

    def commands_of(self, tenant_id: UUID, executor: str) -> frozenset[str] | None:
        """Return what the connections of an executor have registered, as far as this worker knows; None where
        there is no connection.
        """
        found = [one.commands for one in self._of((tenant_id, executor)) if one.is_registered]
        return frozenset().union(*found) if found else None

    async def commands_of_others(
        self, tenant_id: UUID, executor: str, *, connection_id: str
    ) -> frozenset[str] | None:
        """Return what all connections of an executor but one have registered, or are registering, at all
        workers; None where that is not known, because Redis is unavailable.
        """
        await self.announce()
        if self._relay is not None and not self._relay.is_available:
            return None
        others = (one for one in self._of((tenant_id, executor)) if one.id != connection_id)
        return frozenset().union(*(one.commands | one.registering for one in others))

    def connected_executors(self, tenant_id: UUID) -> frozenset[str]:
        """Return the names of a tenant's executors of which a connection executes commands, as far as this
        worker knows.
        """
        found = {(one.tenant_id, one.executor) for one in self._all() if one.commands}
        return frozenset(name for tenant, name in found if tenant == tenant_id)

    def away_since(self, tenant_id: UUID, executor: str) -> float | None:
        """Return when the last connection of an executor has ended, in seconds since 1970 (UTC).

        None while one is connected, and where this worker has seen none.
        """
        if self.commands_of(tenant_id, executor) is not None:
            return None
        return self._away_since.get((tenant_id, executor))

    async def execute(
        self,
        capability: Capability,
        command: Command,
        *,
        deadline: float,
        on_progress: ProgressListener | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommandResult:
        """Send a command as it is to the least busy executor, and return its result.

        `metadata` is that of its envelope. An executor that disconnects before it has received the command is
        replaced by another one. Raise CommandNotSent where there is none, ExecutorDisconnected where the
        executor disconnects later, and at `deadline` (`loop.time()`) UpstreamTimeout, or ExecutorBusy where
        it has not received the command. The outcome is counted.
        """
        outcome: CommandOutcome = "error"
        try:
            result = await self._execute(capability, command, deadline, on_progress, metadata)
            if result.status is Status.SUCCESS:
                outcome = "success"
        except CommandNotSent:
            outcome = "not-connected"
            raise
        except ExecutorDisconnected:
            outcome = "disconnected"
            raise
        except UpstreamTimeout:
            outcome = "timeout"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        else:
            return result
        finally:
            self.counts.outcomes[outcome] += 1

    async def _execute(
        self,
        capability: Capability,
        command: Command,
        deadline: float,
        on_progress: ProgressListener | None,
        metadata: Mapping[str, str],
    ) -> CommandResult:
        failed: set[str] = set()
        refreshed = False
        try:
            async with asyncio.timeout_at(deadline):
                while True:
                    try:
                        found = self._least_busy(capability, failed)
                        if found is None and not refreshed:
                            # Another worker may have one since its last description.
                            refreshed = True
                            await self.announce()
                            found = self._least_busy(capability, failed)
                        if found is None:
                            raise not_connected(
                                capability, self.away_since(capability.tenant_id, capability.executor)
                            )
                        return await self._execute_by(found, command, deadline, on_progress, metadata)
                    except CommandNotSent:
                        if found is None:
                            raise
                        failed.add(found.id)
        except TimeoutError:
            raise UpstreamTimeout(_TIMED_OUT) from None

    async def execute_locally(
        self,
        connection_id: str,
        command: Command,
        on_progress: ProgressListener,
        metadata: Mapping[str, str] = NO_METADATA,
        *,
        deadline: float,
    ) -> CommandResult:
        """Execute a command by a connection of this worker; raise CommandNotSent where it has ended."""
        connection = self._connections.get(connection_id)
        if connection is None:
            raise CommandNotSent("The executor has disconnected.")
        wait_until = latest_start(deadline, asyncio.get_running_loop().time())
        return await connection.execute(command, on_progress, metadata, wait_until=wait_until)

    async def _execute_by(
        self,
        found: "ExecutorConnection | ConnectedExecutor",
        command: Command,
        deadline: float,
        on_progress: ProgressListener | None,
        metadata: Mapping[str, str],
    ) -> CommandResult:
        now = asyncio.get_running_loop().time()
        if isinstance(found, ExecutorConnection):
            wait_until = latest_start(deadline, now)
            return await found.execute(command, on_progress, metadata, wait_until=wait_until)
        if self._relay is None:
            raise CommandNotSent("The worker of the executor cannot be reached.")
        self.counts.relayed += 1
        seconds = max(deadline - now, 0.0)
        return await self._relay.execute(
            found, command, seconds=seconds, on_progress=on_progress, metadata=metadata
        )

    def _least_busy(
        self, capability: Capability, failed: set[str]
    ) -> "ExecutorConnection | ConnectedExecutor | None":
        """Return the least busy executor; of equally busy ones, one of this worker."""
        local = [one for one in self._connections.values() if one.id not in failed and one.has(capability)]
        best: ExecutorConnection | ConnectedExecutor | None = min(
            local, key=lambda one: one.load, default=None
        )
        for one in self._remote():
            if one.connection_id not in failed and one.has(capability):
                best = one if best is None or one.load < best.load else best
        return best

    def _changed(self, before: Iterable[ConnectedExecutor], after: Iterable[ConnectedExecutor]) -> None:
        """Note which connections have ended, and tell the listener of those that are new."""
        known, current = ({one.connection_id: one for one in group} for group in (before, after))
        for connection_id in known.keys() - current.keys():
            one = known[connection_id]
            if not one.is_registered:
                continue
            self._away_since[one.tenant_id, one.executor] = time.time()
            self._away_since.move_to_end((one.tenant_id, one.executor))
        while len(self._away_since) > _MAX_AWAY:
            self._away_since.popitem(last=False)
        for connection_id in current.keys() - known.keys():
            self._on_connected(current[connection_id].tenant_id, current[connection_id].executor)

    def _remote_changed(
        self, before: Iterable[ConnectedExecutor], after: Iterable[ConnectedExecutor]
    ) -> None:
        """Take the executors that another worker has now in place of those that it had."""
        before, after = tuple(before), tuple(after)
        for one in before:
            _remove(self._remote_by_executor, one.key, one.id)
        for one in after:
            _add(self._remote_by_executor, one.key, one.id, one)
        self._changed(before, after)

    @property
    def _is_following(self) -> bool:
        return self._relay is not None and self._relay.is_available

    def _of(self, key: ExecutorKey) -> "list[ExecutorConnection | ConnectedExecutor]":
        """Return the connections of an executor at all workers."""
        remote = self._remote_by_executor.get(key, {}) if self._is_following else {}
        local = (one for one in self._local.get(key, {}).values() if not one.is_closed)
        return [*local, *remote.values()]

    def _remote(self) -> Iterator[ConnectedExecutor]:
        if self._relay is not None:
            yield from self._relay.remote_executors()

    def _all(self) -> Iterator[ConnectedExecutor]:
        yield from self.described()
        yield from self._remote()


def _add(group: "_ByExecutor[_Connection]", key: ExecutorKey, connection_id: str, one: _Connection) -> None:
    group.setdefault(key, {})[connection_id] = one


def _remove(group: "_ByExecutor[_Connection]", key: ExecutorKey, connection_id: str) -> None:
    found = group.get(key, {})
    found.pop(connection_id, None)
    if not found:
        group.pop(key, None)


def _nobody(tenant_id: UUID, executor: str) -> None:
    """Take no notice of an executor that has connected."""
