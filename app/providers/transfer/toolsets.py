"""Toolsets in the export of all definitions, and their import."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field
from sqlalchemy import select
from sqlmodel import col

from app.catalog.feed import ChangeFeed
from app.core.errors import FieldError, GatewayError, InvalidInput
from app.core.schemas import ShortText, StrictModel, Text, ToolsetName
from app.core.text import pointer
from app.providers.credentials.validation_errors import validated
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import TENANT, ToolsetRow
from app.toolsets.changes import (
    find_toolset,
    insert_toolset,
    name_taken,
    require_unrestricted,
    stored_definition,
)
from app.toolsets.definition import AgentName, StoredDefinition, ToolsetDefinition
from app.toolsets.meta_tools import META_TOOL_NAMES

ToolsetOutcome = Literal["created", "unchanged", "failed"]


class ExportedToolset(StrictModel):
    """A toolset in an export. `former_names` are canonical names by names that tools had in it before."""

    name: ToolsetName
    title: ShortText = ""
    description: Text = ""
    definition: ToolsetDefinition
    former_names: dict[AgentName, ShortText] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportedToolset:
    """What became of a toolset of an import, with the status that a request with it alone would have had.

    `name` is None where it has no readable one.
    """

    name: str | None
    outcome: ToolsetOutcome
    status: int
    error: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class ToolsetTransfer:
    """Exports and imports toolsets."""

    database: Database
    feed: ChangeFeed

    async def export(self, *, principal: Principal) -> list[dict[str, Any]]:
        """Return all toolsets by name as JSON of ExportedToolset; none for a restricted key, which may not
        read their definitions.
        """
        if principal.is_restricted:
            return []
        statement = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
        async with self.database.read_session() as session:
            ordered = statement.order_by(col(ToolsetRow.name).collate("C"))
            rows = (await session.execute(ordered)).scalars().all()
        return [_export_toolset(row) for row in rows]

    async def import_all(self, entries: Sequence[Any], *, principal: Principal) -> list[ImportedToolset]:
        """Create the toolsets, and return the outcome of each, in order. One that is stored and differs is a
        conflict, as a provider is.
        """
        outcomes = []
        for index, entry in enumerate(entries):
            name = entry.get("name") if isinstance(entry, dict) else None
            known = name if isinstance(name, str) else None
            try:
                outcome: ToolsetOutcome = await self._import(entry, pointer("/toolsets", index), principal)
            except GatewayError as error:
                outcomes.append(ImportedToolset(known, "failed", error.status, error))
                continue
            status = 201 if outcome == "created" else 200
            outcomes.append(ImportedToolset(known, outcome, status))
        if any(toolset.outcome == "created" for toolset in outcomes):
            await self.feed.catch_up()
        return outcomes

    async def _import(self, entry: Any, at: str, principal: Principal) -> ToolsetOutcome:
        require_unrestricted(principal)
        body = validated(ExportedToolset, entry, at=at)
        taken = [tool for tool, one in body.definition.changes.items() if one.name in META_TOOL_NAMES]
        if taken:
            where = pointer(f"{at}/definition/changes", taken[0], "name")
            raise InvalidInput(
                "A tool has the name of a tool of the gateway's.",
                errors=[FieldError(where, "This name is that of a tool of the gateway's.")],
            )
        async with self.database.transaction() as session:
            row = await find_toolset(session, body.name, lock=True)
            if row is not None:
                if _export_toolset(row) == body.model_dump(mode="json", exclude_defaults=True):
                    return "unchanged"
                raise name_taken(body.name)
            stored = StoredDefinition(**body.definition.model_dump(), former_names=body.former_names)
            await insert_toolset(
                session,
                body.name,
                stored,
                title=body.title,
                description=body.description,
                principal=principal,
            )
        return "created"


def _export_toolset(row: ToolsetRow) -> dict[str, Any]:
    former = StoredDefinition.model_validate(row.definition).former_names
    exported = ExportedToolset(
        name=row.name,
        title=row.title,
        description=row.description,
        definition=stored_definition(row),
        former_names=former,
    )
    return exported.model_dump(mode="json", exclude_defaults=True)
