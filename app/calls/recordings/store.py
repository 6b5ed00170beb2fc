"""Recording and replaying: what `calls.execute` uses of recordings (`calls.recordings.CallRecordings`).

Each replay reads the interactions of its request, and counts in PostgreSQL which of them its run has had, so
that runs are deterministic however many workers serve them. Live calls read nothing of this.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from sqlalchemy import select
from sqlalchemy import text as sql
from sqlmodel import col

from app.calls.recordings.document import build_response_members, response_of
from app.calls.recordings.interactions import RecordableRequest, RecordedResponse, RecordingLimits, Replay
from app.calls.recordings.masking import mask_response
from app.calls.recordings.matching import (
    digest_definition,
    find_nearest,
    is_masked_form,
    mask_for_storage,
    request_digest,
)
from app.calls.recordings.options import RecordingOptions
from app.calls.recordings.records import (
    count_omitted,
    count_replay,
    find_interactions_of_request,
    find_recording,
    record_recording_change,
    take_position,
)
from app.catalog.feed import ChangeNotice
from app.core import exact_json
from app.core.background import LoopMessages, TaskSet, cancel_tasks, run_periodically
from app.core.errors import GatewayError, NotRecorded, RecordingNotFound, RecordingOutdated
from app.core.uuid7 import uuid7
from app.security.masking import Masker
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import TENANT, RecordedInteractionRow, RecordingRow, now

_MAX_KNOWN: Final = 1_000
_MAX_COMPARED: Final = 500
_LARGE_BYTES: Final = 64 << 10
_USED_INTERVAL: Final = timedelta(hours=1)
_SWEEP_SECONDS: Final = 600.0
_STOP_SECONDS: Final = 30.0
_RUN_DAYS: Final = 7
_GATEWAY: Final = "gateway"
_SWEEPING: Final = LoopMessages(
    unavailable="recordings are swept later: the database is unavailable",
    failed="recordings could not be swept",
)
_SET_USED: Final = sql("UPDATE recordings SET used_at = now() WHERE id = :id")
_DELETE_RUNS: Final = sql(
    "DELETE FROM replay_runs WHERE ctid = ANY(ARRAY(SELECT ctid FROM replay_runs"
    " WHERE used_at <= now() - make_interval(days => :days) LIMIT 10000))"
)
_DELETE_UNUSED: Final = sql(
    "DELETE FROM recordings WHERE used_at <= now() - make_interval(days => :days) RETURNING name"
)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RecordingBounds:
    """The limits of recordings: of one interaction, and of all of a recording; `days` is how long an unused
    one is retained, 0 for ever.
    """

    body_bytes: int
    events: int
    interactions: int
    total_bytes: int
    days: int


@dataclass(slots=True)
class _Head:
    """What a worker knows of a recording."""

    id: UUID
    options: RecordingOptions
    used_at: datetime


class RecordingStore:
    """Records and replays; one instance per worker. Subscribe `on_changes` to the change feed."""

    def __init__(self, database: Database, vault: Vault, masker: Masker, *, bounds: RecordingBounds) -> None:
        self.database = database
        self.vault = vault
        self.masker = masker
        self.bounds = bounds
        self.limits = RecordingLimits(bounds.body_bytes, bounds.events)
        self._known: OrderedDict[str, _Head] = OrderedDict()
        self._generation = 0
        self._storing = TaskSet()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start the task that deletes what is not retained any more."""
        sweeping = run_periodically(self.sweep, interval=_SWEEP_SECONDS, messages=_SWEEPING)
        self._tasks.append(asyncio.create_task(sweeping, name="recordings-sweep"))

    async def aclose(self) -> None:
        """Wait for what is being stored, for at most 30 seconds."""
        await cancel_tasks(self._tasks)
        await self._storing.aclose(timeout=_STOP_SECONDS)

    async def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Forget what has changed; a subscriber of the feed."""
        if any(change.kind in ("all", "recording") for change in changes):
            self._known.clear()
            self._generation += 1

    async def require(self, name: str) -> None:
        """See `CallRecordings`."""
        await self._find_head(name)

    async def record(self, request: RecordableRequest, response: RecordedResponse) -> str:
        """See `CallRecordings`."""
        head = await self._find_head(request.recording)
        if response.size > _LARGE_BYTES:
            row, arguments = await asyncio.to_thread(self._build_row, request, response, head.id)
        else:
            row, arguments = self._build_row(request, response, head.id)
        size = len(row.sealed_arguments) + len(row.sealed_response)
        async with self.database.transaction() as session:
            taken = await take_position(
                session,
                head.id,
                size=size,
                max_interactions=self.bounds.interactions,
                max_bytes=self.bounds.total_bytes,
            )
            if taken is None:
                if not await count_omitted(session, head.id):
                    self._known.pop(request.recording, None)
                    raise create_not_found_error(request.recording)
                return "full"
            row.position, options = taken
            ignored = RecordingOptions.model_validate(options).ignored
            row.digest = request_digest(self.vault, row.tool, arguments, ignored)
            session.add(row)
        return "stored"

    async def omit(self, request: RecordableRequest) -> None:
        """See `CallRecordings`."""
        try:
            head = await self._find_head(request.recording)
            async with self.database.transaction() as session:
                await count_omitted(session, head.id)
        except GatewayError as error:
            _log.warning("an omitted response was not counted", reason=error.slug)

    def finish(self, request: RecordableRequest, response: RecordedResponse) -> None:
        """See `CallRecordings`."""
        self._storing.add(asyncio.create_task(self._finish(request, response), name="record-stream"))

    async def _finish(self, request: RecordableRequest, response: RecordedResponse) -> None:
        try:
            await self.record(request, response)
        except GatewayError as error:
            _log.warning("a stream was not recorded", recording=request.recording, reason=error.slug)

    async def replay(self, request: RecordableRequest) -> Replay:
        """See `CallRecordings`."""
        head = await self._find_head(request.recording)
        plan, options = request.plan, head.options
        arguments = mask_for_storage(plan, request.arguments, request.presets, self.masker)
        digest = request_digest(self.vault, plan.name, arguments, options.ignored)
        async with self.database.read_session() as session:
            ids = await find_interactions_of_request(session, head.id, digest)
        if not ids:
            digest = await self._find_masked_form(request, head, arguments)
            async with self.database.read_session() as session:
                ids = await find_interactions_of_request(session, head.id, digest)
        if not ids:
            raise NotRecorded("The recorded response was deleted a moment ago.")
        row = await self._read(await self._choose_next(request, head, ids, digest))
        await self._set_used(head)
        warning = ""
        if row.definition != digest_definition(plan):
            if options.strict:
                raise RecordingOutdated(
                    f"The tool {plan.name} has another definition than when interaction {row.id} of the "
                    f"recording {request.recording} was recorded.",
                    extra={"tool": plan.name, "recording": request.recording, "interaction": str(row.id)},
                )
            warning = "definition-changed"
        return Replay(self.open_response(row), warning)

    def open_response(self, row: RecordedInteractionRow) -> RecordedResponse:
        """Return the response of an interaction."""
        return response_of(self.open_response_members(row))

    def open_response_members(self, row: RecordedInteractionRow) -> dict[str, Any]:
        """Return the response of an interaction in the form of a document."""
        opened = self.vault.open(row.sealed_response, context=build_sealing_context(row, "response"))
        members: dict[str, Any] = orjson.loads(opened)
        return members

    def open_arguments(self, row: RecordedInteractionRow) -> dict[str, Any]:
        """Return the arguments of an interaction, with secrets masked."""
        opened = self.vault.open(row.sealed_arguments, context=build_sealing_context(row, "arguments"))
        arguments: dict[str, Any] = exact_json.load_exactly(opened)
        return arguments

    def seal(
        self, row: RecordedInteractionRow, arguments: dict[str, Any], response: RecordedResponse
    ) -> None:
        """Set what a row has of masked arguments and a response, sealed with the ids of the row."""
        stored = mask_response(response, self.masker)
        row.kind, row.size = stored.kind, stored.size
        row.status = stored.status if stored.error is None else stored.error.status or 0
        row.sealed_arguments = self.vault.seal(
            exact_json.dumps(arguments), context=build_sealing_context(row, "arguments")
        )
        row.sealed_response = self.vault.seal(
            exact_json.dumps(build_response_members(stored)), context=build_sealing_context(row, "response")
        )

    async def sweep(self) -> None:
        """Delete runs, and recordings that were not used for long; raise Unavailable without PostgreSQL."""
        async with self.database.transaction() as session:
            await session.execute(_DELETE_RUNS, {"days": _RUN_DAYS})
        if not self.bounds.days:
            return
        async with self.database.transaction() as session:
            deleted = [row[0] for row in await session.execute(_DELETE_UNUSED, {"days": self.bounds.days})]
            for name in deleted:
                await record_recording_change(session, name, "expired", actor=_GATEWAY)

    def _build_row(
        self, request: RecordableRequest, response: RecordedResponse, recording_id: UUID
    ) -> tuple[RecordedInteractionRow, dict[str, Any]]:
        """Return the row of an interaction, without its position and digest, and its masked arguments."""
        plan = request.plan
        arguments = mask_for_storage(plan, request.arguments, request.presets, self.masker)
        row = RecordedInteractionRow(
            id=uuid7(),
            tenant_id=TENANT,
            recording_id=recording_id,
            position=0,
            tool=plan.name,
            digest=b"",
            definition=digest_definition(plan),
            kind="",
            status=0,
            size=0,
            sealed_arguments=b"",
            sealed_response=b"",
            recorded_at=now(),
        )
        self.seal(row, arguments, response)
        return row, arguments

    async def _find_head(self, name: str) -> _Head:
        """Return what is known of a recording; raise RecordingNotFound."""
        known = self._known.get(name)
        if known is not None:
            self._known.move_to_end(name)
            return known
        generation = self._generation
        async with self.database.read_session() as session:
            row = await find_recording(session, name)
        if row is None:
            raise create_not_found_error(name)
        head = _build_head(row)
        if generation == self._generation:
            self._known[name] = head
            while len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        return head

    async def _choose_next(
        self, request: RecordableRequest, head: _Head, ids: Sequence[UUID], digest: bytes
    ) -> UUID:
        """Return the interaction that comes next in the run of a request."""
        repeats = head.options.after_last == "repeat-last"
        if repeats and len(ids) == 1:
            return ids[0]
        async with self.database.transaction() as session:
            number = await count_replay(session, head.id, request.run, digest)
        if number <= len(ids):
            return ids[number - 1]
        if repeats:
            return ids[-1]
        raise NotRecorded(
            f"The run has had all {len(ids)} recorded responses of this request of {request.plan.name}.",
            extra={"tool": request.plan.name, "recording": request.recording, "recorded": len(ids)},
            hint="Begin another run with another X-Recording-Run, or set `after_last` of the recording to "
            "repeat-last.",
        )

    async def _read(self, interaction_id: UUID) -> RecordedInteractionRow:
        query = select(RecordedInteractionRow).where(col(RecordedInteractionRow.id) == interaction_id)
        async with self.database.read_session() as session:
            row = (await session.scalars(query)).one_or_none()
        if row is None:
            raise NotRecorded("The recorded response was deleted a moment ago.")
        return row

    async def _set_used(self, head: _Head) -> None:
        if datetime.now(UTC) - head.used_at < _USED_INTERVAL:
            return
        async with self.database.transaction() as session:
            await session.execute(_SET_USED, {"id": head.id})
        head.used_at = datetime.now(UTC)

    async def _find_masked_form(
        self, request: RecordableRequest, head: _Head, arguments: dict[str, Any]
    ) -> bytes:
        """Return the digest of the first recorded request that is the given one with more of it masked; raise
        NotRecorded, with the nearest request that was recorded.
        """
        tool = request.plan.name
        query = (
            select(RecordedInteractionRow)
            .where(
                col(RecordedInteractionRow.recording_id) == head.id, col(RecordedInteractionRow.tool) == tool
            )
            .order_by(col(RecordedInteractionRow.position).desc())
            .limit(_MAX_COMPARED)
        )
        async with self.database.read_session() as session:
            rows = (await session.scalars(query)).all()
        recorded = [(str(row.id), self.open_arguments(row)) for row in rows]
        for row, (_, known) in zip(reversed(rows), reversed(recorded), strict=True):
            if is_masked_form(known, arguments, head.options.ignored):
                return row.digest
        nearest_request = await asyncio.to_thread(find_nearest, arguments, recorded, head.options.ignored)
        what = "with these arguments" if rows else "at all"
        raise NotRecorded(
            f"The recording {request.recording} has no call of {tool} {what}. Nothing was sent.",
            extra={"tool": tool, "recording": request.recording, "nearest": nearest_request},
        )


def create_not_found_error(name: str) -> RecordingNotFound:
    """Return the error for a call whose key or toolset names a recording that does not exist."""
    return RecordingNotFound(f"There is no recording {name}.", extra={"recording": name})


def build_sealing_context(row: RecordedInteractionRow, part: str) -> tuple[str, ...]:
    """Return what the sealed columns of a row are bound to."""
    return ("recording", str(row.recording_id), str(row.id), part)


def _build_head(row: RecordingRow) -> _Head:
    return _Head(row.id, RecordingOptions.model_validate(row.options), row.used_at)
