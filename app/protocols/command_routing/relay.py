"""Commands between workers, through Redis: each worker has an inbox, a stream that it alone reads.

    {prefix}inbox:<worker>    stream: sealed entries; it expires 5 s after its worker has stopped renewing it
    {prefix}workers           hash: worker -> its connected executors, sealed

An entry is added only where the inbox exists (XADD NOMKSTREAM), so that a worker that has gone is noticed
before a command is sent to it. A reader that reconnects continues after the last entry that it read: nothing
is lost, as messages of a channel are while nobody is subscribed; a round trip costs about 0.17 ms more than
by a channel (docs/decisions/0085). Neither names nor arguments are readable in Redis.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, cast
from uuid import UUID

import orjson
import structlog
from redis.asyncio import Redis

from app.core import exact_json
from app.core.background import TaskSet, cancel_tasks
from app.core.errors import InvalidInput, ResponseTooLarge, UpstreamError, UpstreamTimeout
from app.core.uuid7 import uuid7
from app.formats.ubp import json_form, wire
from app.formats.ubp.model import (
    Command,
    CommandResult,
    Event,
    Message,
    WirePayload,
)
from app.protocols.command_routing.counts import CommandCounts
from app.protocols.command_routing.model import (
    NO_METADATA,
    CommandNotSent,
    ConnectedExecutor,
    ExecutorBusy,
    ExecutorDisconnected,
    ExecutorsListener,
    ProgressListener,
)
from app.security.vault import SealBroken, Vault
from app.storage.redis import REDIS_ERRORS

MAX_BYTES: Final = 32 << 20
"""The size of an entry."""

_BLOCK_MS: Final = 1_000
_BATCH: Final = 64
_MAX_EVENT_NAMES: Final = 16
"""The events of one command, by name, that wait until Redis takes them."""
_RETRY_SECONDS: Final = 0.2
_SEAL_CONTEXT: Final = "command-relay"
_UNREACHABLE: Final = "The worker of the executor cannot be reached."
_UNREADABLE: Final = "The worker of the executor cannot read the command."
_RESULT_UNREADABLE: Final = "The response of the worker of the executor cannot be read."
_LOST: Final = "Redis has lost what the workers of the gateway have sent each other."

_log = structlog.get_logger(__name__)

EntryKind = Literal["command", "cancel", "result", "progress", "not-sent", "failed"]


class LocalExecutors(Protocol):
    """What the relay needs of the router: the executors of this worker."""

    counts: CommandCounts

    def described(self) -> list[ConnectedExecutor]:
        """Return the connections of this worker."""

    async def execute_locally(
        self,
        connection_id: str,
        command: Command,
        on_progress: ProgressListener,
        metadata: Mapping[str, str] = NO_METADATA,
        *,
        deadline: float,
    ) -> CommandResult:
        """Execute a command by one connection; raise CommandNotSent where it has ended."""


@dataclass(slots=True, eq=False)
class _Pending:
    """A command that another worker executes."""

    worker_id: str
    connection_id: str
    result: "asyncio.Future[CommandResult]"
    on_progress: ProgressListener | None


@dataclass(frozen=True, slots=True)
class Renewal:
    """How often a worker renews its inbox, and after which time without it counts as gone; in seconds."""

    interval: float = 1.0
    expiry: float = 5.0


@dataclass(slots=True)
class _Worker:
    """What is known of another worker; `renewed_at` is the `loop.time()` at which its number last changed."""

    number: int
    renewed_at: float
    executors: tuple[ConnectedExecutor, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class _Entry:
    """An entry of an inbox: its first line, and the message that follows."""

    kind: str
    entry_id: str
    sender: str
    head: dict[str, Any] = field(repr=False)
    body: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: bytes) -> "_Entry":
        """Return the entry; raise ValueError or TypeError for what is none."""
        line, _, body = text.partition(b"\n")
        head = orjson.loads(line)
        if not isinstance(head, dict):
            raise TypeError("The first line is no object.")
        kind, entry_id, sender = (head.get(name) for name in ("kind", "id", "from"))
        if not (isinstance(kind, str) and isinstance(entry_id, str) and isinstance(sender, str)):
            raise TypeError("The first line has no kind, id and sender.")
        return cls(kind, entry_id, sender, head, body)


class WorkerRelay:
    """Executes commands at other workers, and theirs at this one. It does nothing until `ensure_started`.

    `client` is for this relay alone: its commands wait for up to a second.
    """

    def __init__(
        self,
        client: Redis,
        vault: Vault,
        local: LocalExecutors,
        *,
        renewal: Renewal = Renewal(),
        prefix: str = "utcp:ubp:",
    ) -> None:
        self.worker_id = uuid7().hex
        self._client = client
        self._vault = vault
        self._local = local
        self._prefix = prefix
        self._renewal = renewal
        self._workers: dict[str, _Worker] = {}
        self._pending: dict[str, _Pending] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._replies = TaskSet()
        self._is_available = False
        self._on_executors: ExecutorsListener = _nobody
        self._number = 0
        self._has_inbox = False
        self._unreadable_workers: set[bytes] = set()
        self._refreshing = asyncio.Lock()
        self._requested = 0
        self._refreshed = 0
        """The refreshes that were requested, and how many of them a refresh that has ended covers."""
        self._last_entry = "0-0"
        self._starting: asyncio.Lock = asyncio.Lock()

    def listen(self, listener: ExecutorsListener) -> None:
        """Call `listener` with the executors that another worker had, and those that it has, at each change
        of the executors themselves.
        """
        self._on_executors = listener

    @property
    def is_available(self) -> bool:
        """Whether Redis was available at the last attempt, so that executors of other workers are known."""
        return self._is_available

    async def ensure_started(self) -> bool:
        """Start reading the inbox, once; return False where Redis is unavailable, which is tried again."""
        if not self._tasks:
            async with self._starting:
                if not self._tasks:
                    await self.refresh()
                    reading, renewing = self._read(), self._renew_always()
                    self._tasks = [asyncio.ensure_future(reading), asyncio.ensure_future(renewing)]
        return self._is_available

    async def aclose(self) -> None:
        """Stop: commands at other workers fail, and the inbox is deleted."""
        if not self._tasks:
            return
        await cancel_tasks(self._tasks)
        for task in list(self._serving.values()):
            task.cancel()
        await self._replies.aclose(timeout=1.0)
        self._fail_pending("The gateway is stopping.")
        try:
            await self._client.delete(self._inbox(self.worker_id))
            await self._client.hdel(f"{self._prefix}workers", self.worker_id)
        except REDIS_ERRORS:
            return

    def remote_executors(self) -> Iterator[ConnectedExecutor]:
        """Yield the executors of other workers, with the commands that this one has sent them since.

        There are none while Redis is unavailable.
        """
        if not self._is_available:
            return
        sent: dict[str, int] = {}
        for pending in self._pending.values():
            sent[pending.connection_id] = sent.get(pending.connection_id, 0) + 1
        for worker in self._workers.values():
            for one in worker.executors:
                own = sent.get(one.connection_id, 0)
                yield one if own <= one.open_commands else replace(one, open_commands=own)

    async def refresh(self) -> None:
        """Describe the executors of this worker to others, and read what they describe.

        One refresh runs at a time, so that an older description never replaces a newer one; those that are
        requested while one runs share the next one.
        """
        self._requested += 1
        number = self._requested
        async with self._refreshing:
            if self._refreshed >= number:
                return
            covered = self._requested
            try:
                await self._renew()
            except REDIS_ERRORS:
                self._is_available = False
            else:
                self._is_available = True
            self._refreshed = covered

    async def execute(
        self,
        executor: ConnectedExecutor,
        command: Command,
        *,
        seconds: float,
        on_progress: ProgressListener | None = None,
        metadata: Mapping[str, str] = NO_METADATA,
    ) -> CommandResult:
        """Return the result of a command that an executor of another worker executes within `seconds`.

        The executor gets it in an envelope with `metadata`.
        Raise CommandNotSent where it was certainly not sent, ExecutorDisconnected where Redis or the worker
        is lost, and what `ExecutorConnection.execute` raises. Where the task is cancelled, the other worker
        is told so.
        """
        entry_id = uuid7().hex
        result: asyncio.Future[CommandResult] = asyncio.get_running_loop().create_future()
        self._pending[entry_id] = _Pending(executor.worker_id, executor.connection_id, result, on_progress)
        head = {"connection": executor.connection_id, "seconds": seconds}
        try:
            try:
                message = Message("", command, metadata)
                added = await self._post(executor.worker_id, "command", entry_id, head, message)
            except REDIS_ERRORS:
                # Redis may have the entry: a response that is lost is an error, too.
                self._is_available = False
                raise ExecutorDisconnected(_UNREACHABLE) from None
            if not added:
                raise CommandNotSent(_UNREACHABLE)
            return await result
        except asyncio.CancelledError:
            cancelling = self._reply(executor.worker_id, "cancel", entry_id, {}, seconds=seconds)
            self._replies.add(asyncio.ensure_future(cancelling))
            raise
        finally:
            del self._pending[entry_id]
            if result.done() and not result.cancelled():
                result.exception()

    async def _post(
        self,
        worker_id: str,
        kind: EntryKind,
        entry_id: str,
        head: dict[str, Any],
        message: Message | None = None,
    ) -> bool:
        """Add an entry to an inbox; return False where there is no such inbox.

        Raise ResponseTooLarge for an entry of more than MAX_BYTES, and REDIS_ERRORS.
        """
        line = exact_json.dumps({**head, "kind": kind, "id": entry_id, "from": self.worker_id})
        text = line + b"\n" + (b"" if message is None else _encoded(message))
        if len(text) > MAX_BYTES:
            raise ResponseTooLarge(f"A message between workers has at most {MAX_BYTES >> 20} MiB.")
        sealed = self._vault.seal(text, context=(_SEAL_CONTEXT, worker_id))
        return await self._client.xadd(self._inbox(worker_id), {b"e": sealed}, nomkstream=True) is not None

    async def _reply(
        self,
        worker_id: str,
        kind: EntryKind,
        entry_id: str,
        head: dict[str, Any],
        message: Message | None = None,
        *,
        seconds: float,
    ) -> None:
        """Post an entry, again for up to `seconds` while Redis is unavailable: the other worker waits for it.

        An entry that arrives twice is taken once.
        """
        until = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                await self._post(worker_id, kind, entry_id, head, message)
            except REDIS_ERRORS:
                if asyncio.get_running_loop().time() > until:
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _read(self) -> None:
        """Read the inbox for ever."""
        inbox = self._inbox(self.worker_id)
        while True:
            try:
                found = await self._client.xread({inbox: self._last_entry}, count=_BATCH, block=_BLOCK_MS)
            except REDIS_ERRORS:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for _, entries in cast("list[Any]", found or []):
                for entry, fields in entries:
                    self._last_entry = entry
                    self._take(fields.get(b"e", b""))

    def _take(self, sealed: bytes) -> None:
        """Do what an entry says; skip and count one that cannot be read, as after a change of the format."""
        if not sealed:
            return
        try:
            entry = _Entry.parse(self._vault.open(sealed, context=(_SEAL_CONTEXT, self.worker_id)))
        except (SealBroken, ValueError, TypeError) as error:
            self._count_unreadable("an entry of a worker's inbox is skipped", error)
            return
        try:
            self._obey(entry)
        except Exception as error:  # noqa: BLE001 - no entry may end the reader of the inbox.
            self._count_unreadable("an entry of a worker's inbox is skipped", error)
            self._reject(entry)

    def _count_unreadable(self, event: str, error: Exception) -> None:
        # Neither the entry nor the text of the error, which may quote it.
        _log.warning(event, error=type(error).__name__)
        self._local.counts.unreadable += 1

    def _obey(self, entry: _Entry) -> None:
        """Do what an entry says; raise an error for one that cannot be read."""
        if entry.kind == "command":
            message = _decoded(entry.body)
            command = message.payload
            if not isinstance(command, Command):
                raise ValueError("The entry has no command.")
            connection_id, seconds = str(entry.head["connection"]), float(entry.head["seconds"])
            serving = self._serve(entry, command, message.metadata, connection_id, seconds)
            task = asyncio.ensure_future(serving)
            self._serving[entry.entry_id] = task
            task.add_done_callback(lambda _: self._serving.pop(entry.entry_id, None))
            return
        if entry.kind == "cancel":
            cancelled = self._serving.get(entry.entry_id)
            if cancelled is not None:
                cancelled.cancel()
            return
        pending = self._pending.get(entry.entry_id)
        if pending is not None:
            self._complete(pending, entry)

    def _reject(self, entry: _Entry) -> None:
        """End the command of an entry that cannot be read, for its sender or here."""
        if entry.kind == "command":
            answer = {"detail": _UNREADABLE}
            reply = self._reply(
                entry.sender, "not-sent", entry.entry_id, answer, seconds=self._renewal.expiry
            )
            self._replies.add(asyncio.ensure_future(reply))
            return
        pending = self._pending.get(entry.entry_id)
        if pending is not None and entry.kind != "progress" and not pending.result.done():
            pending.result.set_exception(ExecutorDisconnected(_RESULT_UNREADABLE))

    @staticmethod
    def _complete(pending: _Pending, entry: _Entry) -> None:
        """Give a response to the command that it belongs to; raise an error for one that cannot be read."""
        if entry.kind == "progress":
            event = _decoded(entry.body).payload
            if pending.on_progress is not None and isinstance(event, Event):
                pending.on_progress(event)
            return
        if pending.result.done():
            return
        if entry.kind == "result":
            result = _decoded(entry.body).payload
            if not isinstance(result, CommandResult):
                raise ValueError("The entry has no result.")
            pending.result.set_result(result)
            return
        detail = str(entry.head["detail"])
        if entry.kind == "not-sent":
            pending.result.set_exception(CommandNotSent(detail))
        elif entry.kind == "failed":
            pending.result.set_exception(_failure(entry.head, detail))
        else:
            raise ValueError("The kind of the entry is not known.")

    async def _serve(
        self,
        entry: _Entry,
        command: Command,
        metadata: Mapping[str, str],
        connection_id: str,
        seconds: float,
    ) -> None:
        """Execute a command of another worker within `seconds`, and send it the result."""
        sender, entry_id = entry.sender, entry.entry_id
        waiting: dict[str, Event] = {}
        forwarding: list[asyncio.Task[None]] = []

        async def forward_waiting(name: str) -> None:
            while (event := waiting.get(name)) is not None:
                with suppress(ResponseTooLarge, InvalidInput):
                    await self._reply(sender, "progress", entry_id, {}, Message("", event), seconds=0.0)
                if waiting[name] is event:
                    del waiting[name]

        def forward(event: Event) -> None:
            # An executor that sends events faster than Redis takes them must not fill the memory of either:
            # the latest of each name is sent, and not too many names.
            name = event.event_name
            if name in waiting:
                waiting[name] = event
            elif len(waiting) < _MAX_EVENT_NAMES:
                waiting[name] = event
                task = asyncio.ensure_future(forward_waiting(name))
                forwarding[:] = [*(one for one in forwarding if not one.done()), task]
                self._replies.add(task)

        kind: EntryKind = "failed"
        answer: dict[str, Any] = {}
        until = asyncio.get_running_loop().time() + seconds
        result: CommandResult | None = None
        try:
            async with asyncio.timeout(seconds):
                result = await self._local.execute_locally(
                    connection_id, command, forward, metadata, deadline=until
                )
            kind = "result"
            if forwarding:
                # The response comes after them.
                await asyncio.wait(forwarding)
        except CommandNotSent as error:
            kind, answer = "not-sent", {"detail": error.detail}
        except TimeoutError:
            answer = {"detail": "The executor did not respond in time.", "timeout": True}
        except UpstreamError as error:
            answer = {
                "detail": error.detail,
                "timeout": isinstance(error, UpstreamTimeout),
                "busy": isinstance(error, ExecutorBusy),
            }
        left = max(until - asyncio.get_running_loop().time(), 0.0)
        content = None if result is None else Message("", result)
        try:
            await self._reply(sender, kind, entry_id, answer, content, seconds=left)
        except ResponseTooLarge as error:
            answer = {"detail": error.detail, "timeout": False}
            await self._reply(sender, "failed", entry_id, answer, seconds=left)

    async def _renew_always(self) -> None:
        while True:
            await asyncio.sleep(self._renewal.interval)
            await self.refresh()
            self._drop_gone_workers()

    async def _renew(self) -> None:
        """Renew the inbox and the description of this worker, and read those of others."""
        self._number += 1
        described = [_described(executor) for executor in self._local.described()]
        own = exact_json.dumps({"number": self._number, "executors": described})
        inbox = self._inbox(self.worker_id)
        workers = f"{self._prefix}workers"
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.pexpire(inbox, int(self._renewal.expiry * 1000))
            # What has been read is of no use to anybody.
            pipe.xtrim(inbox, minid=self._last_entry, approximate=False)
            pipe.hset(workers, self.worker_id, self._vault.seal(own, context=(_SEAL_CONTEXT, "worker")))
            pipe.hgetall(workers)
            exists, _, _, found = await pipe.execute()
        if not exists:
            # At the start, where this worker was suspended for longer than its inbox lasts, and where Redis
            # has lost it: a server with another clock begins with other ids.
            self._last_entry = "0-0"
            await self._client.xadd(inbox, {b"e": b""})
            await self._client.pexpire(inbox, int(self._renewal.expiry * 1000))
            if self._has_inbox:
                # Commands and results that nobody has read are lost, and which they were is not known.
                self._fail_pending(_LOST)
            self._has_inbox = True
        self._update(found)

    def _update(self, found: dict[bytes, bytes]) -> None:
        now = asyncio.get_running_loop().time()
        names = {name.decode(errors="replace"): name for name in found}
        for worker_id, name in names.items():
            if worker_id == self.worker_id:
                continue
            try:
                value = orjson.loads(self._vault.open(found[name], context=(_SEAL_CONTEXT, "worker")))
                number = int(value["number"])
                executors = tuple(_executor(one, worker_id) for one in value["executors"])
            except Exception as error:  # noqa: BLE001 - no description may end the renewals.
                if name not in self._unreadable_workers:
                    self._count_unreadable("the description of another worker is skipped", error)
                    self._unreadable_workers.add(name)
                continue
            known = self._workers.get(worker_id)
            if known is not None and known.number == number:
                continue
            self._workers[worker_id] = _Worker(number, now, executors)
            self._on_executors(() if known is None else known.executors, executors)
        self._unreadable_workers &= found.keys()
        for worker_id in self._workers.keys() - names.keys():
            self._drop(worker_id)

    def _fail_pending(self, detail: str, worker_id: str | None = None) -> None:
        """Fail the commands at a worker, or at all of them, which may have executed them."""
        for pending in self._pending.values():
            if worker_id in (None, pending.worker_id) and not pending.result.done():
                pending.result.set_exception(ExecutorDisconnected(detail))

    def _drop_gone_workers(self) -> None:
        """Forget workers that have not renewed in time, and have others forget them."""
        now = asyncio.get_running_loop().time()
        gone = [name for name, one in self._workers.items() if now - one.renewed_at > self._renewal.expiry]
        for worker_id in gone:
            self._drop(worker_id)
            self._replies.add(asyncio.ensure_future(self._remove(worker_id)))

    async def _remove(self, worker_id: str) -> None:
        try:
            await self._client.hdel(f"{self._prefix}workers", worker_id)
        except REDIS_ERRORS:
            return

    def _drop(self, worker_id: str) -> None:
        self._on_executors(self._workers.pop(worker_id).executors, ())
        self._fail_pending(_UNREACHABLE, worker_id)

    def _inbox(self, worker_id: str) -> str:
        return f"{self._prefix}inbox:{worker_id}"


def _failure(head: Mapping[str, Any], detail: str) -> UpstreamError:
    """Return the error of a command that another worker has not executed, or not in time."""
    if head.get("busy"):
        return ExecutorBusy(detail)
    return UpstreamTimeout(detail) if head["timeout"] else ExecutorDisconnected(detail)


def _nobody(before: Iterable[ConnectedExecutor], after: Iterable[ConnectedExecutor]) -> None:
    """Take no notice of a change."""


def _encoded(message: Message) -> bytes:
    """Return a message in the form in which its payload arrived, so that this stays as it is."""
    payload = message.payload
    content = getattr(payload, "arguments", None) or getattr(payload, "result", None)
    content = content or getattr(payload, "payload", None)
    if isinstance(content, WirePayload):
        return b"w" + wire.encode_message(message)
    return b"j" + json_form.encode_message(message)


def _decoded(body: bytes) -> Message:
    return wire.decode_message(body[1:]) if body[:1] == b"w" else json_form.decode_message(body[1:])


def _described(executor: ConnectedExecutor) -> dict[str, Any]:
    return {
        "id": executor.connection_id,
        "tenant": executor.tenant_id.hex,
        "executor": executor.executor,
        "key": executor.key_id,
        "commands": sorted(executor.commands),
        "max": executor.max_commands,
        "open": executor.open_commands,
        "at": executor.connected_at,
        "transport": executor.transport,
        "registering": sorted(executor.registering),
    }


def _executor(value: dict[str, Any], worker_id: str) -> ConnectedExecutor:
    return ConnectedExecutor(
        connection_id=value["id"],
        worker_id=worker_id,
        tenant_id=UUID(value["tenant"]),
        executor=value["executor"],
        key_id=value["key"],
        commands=frozenset(value["commands"]),
        max_commands=value["max"],
        open_commands=value["open"],
        connected_at=value["at"],
        transport=value["transport"],
        # Workers of earlier versions do not say.
        registering=frozenset(value.get("registering", ())),
    )
