"""Reads and changes recordings. A change is one transaction, in effect on this worker when it returns."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.recordings.document import (
    InteractionDocument,
    RecordingDocument,
    build_interaction_members,
    response_of,
)
from app.calls.recordings.masking import mask_value
from app.calls.recordings.matching import request_digest
from app.calls.recordings.options import RecordingOptions
from app.calls.recordings.records import (
    delete_interactions,
    find_recording,
    insert_recording,
    read_all_interactions,
    read_page_of_interactions,
    read_page_of_recordings,
    record_recording_change,
    require_recording,
    require_unrestricted,
    restart_run,
)
from app.calls.recordings.store import RecordingStore
from app.catalog.feed import ChangeFeed
from app.core.errors import FieldError, InvalidInput, NotFound, PreconditionFailed
from app.core.pagination import Page, PageRequest, matches_etag, write_etag
from app.core.uuid7 import uuid7
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import TENANT, RecordedInteractionRow, RecordingRow, now

# Beyond these, the conversion to UTC would overflow.
_FIRST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecordingService:
    """The operations on recordings. All of them raise Forbidden for a restricted key, and NotFound for a
    recording that does not exist.
    """

    database: Database
    feed: ChangeFeed
    store: RecordingStore

    async def page(self, page: PageRequest, *, q: str | None, principal: Principal) -> Page[RecordingRow]:
        """Return a page of the recordings."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            return await read_page_of_recordings(session, page, q=q)

    async def get(self, name: str, *, principal: Principal) -> RecordingRow:
        """Return a recording."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            return await require_recording(session, name)

    async def create(
        self, name: str, *, description: str, options: RecordingOptions, principal: Principal
    ) -> RecordingRow:
        """Create an empty recording; raise Conflict where there is one of this name, and InvalidInput where
        there are too many.
        """
        require_unrestricted(principal)
        row = RecordingRow(name=name, description=description, options=options.model_dump(mode="json"))
        async with self.database.transaction() as session:
            await insert_recording(session, row)
            await record_recording_change(session, name, "created", actor=principal.key_id)
        await self.feed.catch_up()
        return await self.get(name, principal=principal)

    async def change(
        self,
        name: str,
        *,
        description: str | None,
        options: dict[str, Any],
        if_match: str | None,
        principal: Principal,
    ) -> RecordingRow:
        """Change the description (None: not) and some options; raise PreconditionFailed where `if_match`
        names another version.
        """
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            row = await require_recording(session, name, lock=True)
            _check_version(row, if_match)
            before = RecordingOptions.model_validate(row.options)
            after = before.model_copy(update=options)
            if description is not None:
                row.description = description
            row.options = after.model_dump(mode="json")
            row.version += 1
            row.updated_at = now()
            if after.ignored != before.ignored:
                await self._match_anew(session, row.id, after.ignored)
            await session.flush()
            await record_recording_change(session, name, "updated", actor=principal.key_id)
        await self.feed.catch_up()
        return await self.get(name, principal=principal)

    async def delete(self, name: str, *, if_match: str | None, principal: Principal) -> None:
        """Delete a recording with its interactions: calls that use it fail from now on."""
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            row = await require_recording(session, name, lock=True)
            _check_version(row, if_match)
            await session.delete(row)
            await session.flush()
            await record_recording_change(session, name, "deleted", actor=principal.key_id)
        await self.feed.catch_up()

    async def begin_run(self, name: str, *, key_id: str | None, principal: Principal) -> str:
        """Return the name of a new run; where `key_id` is given, the calls of this key that name no run begin
        with the first responses again.
        """
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            row = await require_recording(session, name)
            if key_id is not None:
                await restart_run(session, row.id, f"key:{key_id}")
        return uuid7().hex

    async def interactions(
        self, name: str, page: PageRequest, *, tool: str | None, q: str | None, principal: Principal
    ) -> tuple[Page[RecordedInteractionRow], list[dict[str, Any]]]:
        """Return a page of the interactions of a recording, and the arguments of each."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            row = await require_recording(session, name)
            interactions = await read_page_of_interactions(session, page, recording_id=row.id, tool=tool, q=q)
        return interactions, [self.store.open_arguments(interaction) for interaction in interactions.rows]

    async def interaction(
        self, name: str, interaction_id: UUID, *, principal: Principal
    ) -> tuple[RecordedInteractionRow, dict[str, Any], dict[str, Any]]:
        """Return an interaction, its arguments and its response in the form of a document."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            row = await _require_interaction(session, name, interaction_id)
        response = await asyncio.to_thread(self.store.open_response_members, row)
        return row, self.store.open_arguments(row), response

    async def delete_interaction(self, name: str, interaction_id: UUID, *, principal: Principal) -> None:
        """Delete one interaction."""
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            recording = await require_recording(session, name, lock=True)
            row = await _require_interaction(session, name, interaction_id)
            recording.interactions -= 1
            recording.bytes -= len(row.sealed_arguments) + len(row.sealed_response)
            recording.updated_at = now()
            await session.delete(row)
            await session.flush()
            detail = {"interaction": str(interaction_id), "tool": row.tool}
            await record_recording_change(
                session, name, "interaction-deleted", actor=principal.key_id, detail=detail
            )
        await self.feed.catch_up()

    async def export(self, name: str, *, principal: Principal) -> dict[str, Any]:
        """Return a recording as a document."""
        require_unrestricted(principal)
        async with self.database.read_session() as session:
            row = await require_recording(session, name)
            rows = await read_all_interactions(session, row.id)
        return await asyncio.to_thread(self._build_document, row, rows)

    async def put(
        self, name: str, document: RecordingDocument, *, if_match: str | None, principal: Principal
    ) -> tuple[RecordingRow, bool]:
        """Replace a recording by a document, or create it; return it, and whether it is new.

        Raise InvalidInput for a document beyond the limits of a recording, and PreconditionFailed.
        """
        require_unrestricted(principal)
        recording_id = uuid7()
        async with self.database.transaction() as session:
            row = await find_recording(session, name, lock=True)
            is_new = row is None
            if row is None:
                if if_match is not None:
                    raise PreconditionFailed(f"There is no recording {name}.")
                row = RecordingRow(id=recording_id, name=name)
                await insert_recording(session, row)
                row = await require_recording(session, name, lock=True)
            else:
                _check_version(row, if_match)
                row.version += 1
                await delete_interactions(session, row.id)
            rows = await asyncio.to_thread(self._build_rows, row.id, document)
            self._check_bounds(rows)
            row.description = document.description
            row.options = document.options.model_dump(mode="json")
            row.interactions = row.last_position = len(rows)
            row.bytes = sum(len(one.sealed_arguments) + len(one.sealed_response) for one in rows)
            row.omitted = 0
            row.updated_at = row.used_at = now()
            session.add_all(rows)
            await session.flush()
            detail = {"interactions": len(rows)}
            await record_recording_change(session, name, "imported", actor=principal.key_id, detail=detail)
        await self.feed.catch_up()
        return await self.get(name, principal=principal), is_new

    async def _match_anew(self, session: AsyncSession, recording_id: UUID, ignored: Sequence[str]) -> None:
        """Set the digests of all interactions for other ignored arguments."""
        for row in await read_all_interactions(session, recording_id):
            row.digest = request_digest(self.store.vault, row.tool, self.store.open_arguments(row), ignored)
            session.add(row)

    def _build_document(self, row: RecordingRow, rows: Sequence[RecordedInteractionRow]) -> dict[str, Any]:
        return {
            "format": "utcp-gateway-recording/1",
            "description": row.description,
            "options": row.options,
            "interactions": [
                build_interaction_members(
                    tool=one.tool,
                    arguments=self.store.open_arguments(one),
                    definition=one.definition,
                    recorded_at=one.recorded_at,
                    response=self.store.open_response_members(one),
                )
                for one in rows
            ],
        }

    def _build_rows(self, recording_id: UUID, document: RecordingDocument) -> list[RecordedInteractionRow]:
        return [
            self._import_interaction(recording_id, position, one, document.options)
            for position, one in enumerate(document.interactions, start=1)
        ]

    def _import_interaction(
        self, recording_id: UUID, position: int, given: InteractionDocument, options: RecordingOptions
    ) -> RecordedInteractionRow:
        """Return the row of an interaction of a document: what it has of secrets is masked here, too."""
        store = self.store
        arguments = mask_value(given.read_arguments(), store.masker)
        row = RecordedInteractionRow(
            id=uuid7(),
            tenant_id=TENANT,
            recording_id=recording_id,
            position=position,
            tool=given.tool,
            digest=request_digest(store.vault, given.tool, arguments, options.ignored),
            definition=given.definition,
            kind="",
            status=0,
            size=0,
            sealed_arguments=b"",
            sealed_response=b"",
            recorded_at=max(_FIRST, min(given.recorded_at, _LAST)).astimezone(UTC),
        )
        response = given.response.model_dump(mode="json", by_alias=True, exclude_unset=True)
        store.seal(row, arguments, response_of(response))
        return row

    def _check_bounds(self, rows: Sequence[RecordedInteractionRow]) -> None:
        bounds = self.store.bounds
        if len(rows) > bounds.interactions:
            detail = f"A recording has at most {bounds.interactions:,} interactions."
            raise InvalidInput(detail, errors=[FieldError("/interactions", detail)])
        errors = [
            FieldError(
                f"/interactions/{index}/response", f"A response has at most {bounds.body_bytes:,} bytes."
            )
            for index, one in enumerate(rows)
            if one.size > bounds.body_bytes
        ]
        if errors:
            raise InvalidInput("A response of the document is too large.", errors=errors[:50])
        if sum(len(one.sealed_arguments) + len(one.sealed_response) for one in rows) > bounds.total_bytes:
            detail = f"A recording has at most {bounds.total_bytes:,} bytes."
            raise InvalidInput(detail, errors=[FieldError("/interactions", detail)])


def etag(row: RecordingRow) -> str:
    """Return the strong entity tag of a recording: its version in quotes (RFC 9110 section 8.8.3)."""
    return write_etag(row.version)


def _check_version(row: RecordingRow, if_match: str | None) -> None:
    if if_match is not None and not matches_etag(if_match, etag(row)):
        raise PreconditionFailed(f"{row.name} has changed since it was read: its ETag is {etag(row)} now.")


async def _require_interaction(
    session: AsyncSession, name: str, interaction_id: UUID
) -> RecordedInteractionRow:
    recording = await require_recording(session, name)
    query = select(RecordedInteractionRow).where(
        col(RecordedInteractionRow.recording_id) == recording.id,
        col(RecordedInteractionRow.id) == interaction_id,
    )
    row = (await session.scalars(query)).one_or_none()
    if row is None:
        raise NotFound(f"The recording {name} has no interaction {interaction_id}.")
    return row
