"""The history of tools: what imports, approvals and people changed on them, written in the same transaction.

The first import of a provider is one entry for all of its tools; each later change of a tool is an entry of
its own. Stored definitions hold no secret, so neither does the history. Long values are cut or left out.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Text, and_, cast, or_, select, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import ToolView
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.core.uuid7 import uuid7
from app.providers.credentials.model import Json, security_json
from app.providers.registration.model import ToolChange, ToolDefinition
from app.providers.registration.repository import insert_from_json
from app.storage.database import json_text
from app.storage.models import TENANT, Provider, Tool, ToolHistoryEntry, now

FIRST_IMPORT_KEY: Final = ""
"""The source key of the entry for the first import of a provider."""
MAX_VALUE_CHARACTERS: Final = 2_000
"""Longer texts are cut, and other values whose JSON is longer are left out."""
_ORDER: Final = Ordering(
    {"at": SortField(col(ToolHistoryEntry.at), "at", datetime)}, item_id=col(ToolHistoryEntry.id)
)
_CHUNK: Final = 1_000
_INSERT: Final = insert_from_json(ToolHistoryEntry.__table__)  # type: ignore[attr-defined]
_TRIM: Final = text(
    "DELETE FROM tool_history entry USING unnest(CAST(:keys AS text[])) AS given(source_key)"
    " WHERE entry.provider_id = :provider AND entry.source_key = given.source_key"
    " AND (entry.at, entry.id) < (SELECT newer.at, newer.id FROM tool_history newer"
    " WHERE newer.provider_id = :provider AND newer.source_key = given.source_key"
    " ORDER BY newer.at DESC, newer.id DESC OFFSET :last LIMIT 1)"
)


@dataclass(frozen=True, slots=True)
class ToolHistoryWriter:
    """Writes entries of one actor (the id of an API key, or the name of a command).

    `max_entries` is the maximum number of entries of a tool; the oldest ones are deleted.
    """

    actor: str
    max_entries: int = 100

    async def write_first_import(
        self, session: AsyncSession, provider: Provider, *, revision_id: UUID
    ) -> None:
        """Write the one entry of the first import of a provider, after its tools were stored."""
        entry = self._build_entry(provider.id, FIRST_IMPORT_KEY, "imported", revision_id=revision_id)
        await _insert(session, [entry])

    async def write_import(
        self,
        session: AsyncSession,
        provider: Provider,
        changes: Iterable[ToolChange],
        *,
        before: Mapping[str, ToolDefinition],
        after: Mapping[str, ToolDefinition],
        revision_id: UUID | None,
        is_approval: bool = False,
    ) -> None:
        """Write an entry for each tool that an import, or the approval of its changes, has changed.

        `changes` are those that were applied; `before` and `after` are the definitions by source key.
        """

        def build_entries() -> list[Json]:
            return [
                self._build_entry(
                    provider.id,
                    change.source_key,
                    "approved" if is_approval else change.change,
                    revision_id=revision_id,
                    breaking=change.is_breaking,
                    differences=[one.to_json() for one in change.differences],
                    changes=list_definition_changes(
                        before.get(change.source_key), after.get(change.source_key)
                    ),
                )
                for change in changes
            ]

        # In a thread: 10,000 changed tools are compared.
        await self._write(session, provider.id, await asyncio.to_thread(build_entries))

    async def write_changes(
        self,
        session: AsyncSession,
        provider_id: UUID,
        changes: Mapping[str, Sequence[Json]],
        *,
        action: str,
    ) -> None:
        """Write an entry for each source key, with the changes that `build_field_change` returned."""
        entries = [
            self._build_entry(provider_id, key, action, changes=list(found)) for key, found in changes.items()
        ]
        await self._write(session, provider_id, entries)

    async def _write(self, session: AsyncSession, provider_id: UUID, entries: list[Json]) -> None:
        await _insert(session, entries)
        keys = sorted({entry["source_key"] for entry in entries})
        for start in range(0, len(keys), _CHUNK):
            parameters = {"provider": provider_id, "last": self.max_entries - 1}
            await session.execute(_TRIM, {**parameters, "keys": keys[start : start + _CHUNK]})

    def _build_entry(self, provider_id: UUID, source_key: str, action: str, **members: Any) -> Json:
        """Return the row of an entry, of JSON values."""
        revision_id = members.get("revision_id")
        return {
            "id": str(uuid7()),
            "tenant_id": str(TENANT),
            "provider_id": str(provider_id),
            "source_key": source_key,
            "at": now().isoformat(),
            "actor": self.actor,
            "action": action,
            "revision_id": None if revision_id is None else str(revision_id),
            "breaking": members.get("breaking", False),
            "differences": members.get("differences", []),
            "changes": members.get("changes", []),
        }


async def read_history(
    session: AsyncSession, tool: ToolView, page: PageRequest, *, q: str | None
) -> Page[ToolHistoryEntry]:
    """Return a page of the history of a tool; with `q`, the entries whose action or changes contain it.

    Raise InvalidInput for another list's cursor.
    """
    entry = ToolHistoryEntry
    source_key = select(col(Tool.source_key)).where(col(Tool.id) == tool.id).scalar_subquery()
    # A tool that was added later has an entry of its own.
    is_first_import = and_(col(entry.source_key) == FIRST_IMPORT_KEY, col(entry.at) >= tool.created_at)
    statement = select(entry).where(
        col(entry.provider_id) == tool.provider_id,
        or_(col(entry.source_key) == source_key, is_first_import),
    )
    if q is not None:
        texts = (cast(col(entry.differences), Text), cast(col(entry.changes), Text))
        statement = statement.where(contains(q, col(entry.action), *texts))
    return await read_page(session, statement, ordering=_ORDER, page=page)


def build_field_change(field: str, before: Any, after: Any) -> Json:
    """Return the change of a field; a value that is too long is cut (text) or null, and `truncated` true."""
    old, old_cut = _limit_value(before)
    new, new_cut = _limit_value(after)
    return {"field": field, "before": old, "after": new, "truncated": old_cut or new_cut}


def list_definition_changes(before: ToolDefinition | None, after: ToolDefinition | None) -> list[Json]:
    """Return the changed fields of a definition but for its schemas, whose differences are sentences."""
    if before is None or after is None:
        return []
    old, new = _collect_fields(before), _collect_fields(after)
    names = [*old, *(name for name in new if name not in old)]
    return [
        build_field_change(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _collect_fields(definition: ToolDefinition) -> Json:
    template = {f"call_template.{name}": value for name, value in definition.call_template.items()}
    return {
        "description": definition.description,
        "tags": list(definition.tags),
        "keywords": list(definition.keywords),
        "deprecated": definition.deprecated,
        **template,
        "security": security_json(definition.security),
    }


def _limit_value(value: Any) -> tuple[Any, bool]:
    if isinstance(value, str):
        return value[:MAX_VALUE_CHARACTERS], len(value) > MAX_VALUE_CHARACTERS
    is_long = len(json_text(value)) > MAX_VALUE_CHARACTERS
    return (None if is_long else value), is_long


async def _insert(session: AsyncSession, entries: Sequence[Json]) -> None:
    for start in range(0, len(entries), _CHUNK):
        payload = await asyncio.to_thread(json_text, list(entries[start : start + _CHUNK]))
        await session.execute(_INSERT, {"rows": payload})
