"""Rows of a small registry, written straight into PostgreSQL, for tests of the packages that only read it."""

from typing import Any

from sqlalchemy import text

from app.catalog.feed import record_change
from app.storage.database import Database
from app.storage.models import (
    AgentTestRow,
    Approval,
    ApprovalRequirementRow,
    CallRecord,
    CallStat,
    ConsoleSessionRow,
    Event,
    IdempotencyKey,
    ImportJobRow,
    Key,
    Override,
    PendingSearch,
    PinnedResultRow,
    Provider,
    RecordingRow,
    SearchLabel,
    SearchQuery,
    SignInTokenRow,
    SynonymSetRow,
    Tool,
    ToolsetRow,
    Variable,
)


async def store_provider(database: Database, name: str, **fields: Any) -> Provider:
    """A provider of protocol http; `fields` override its columns."""
    row = Provider(name=name, **{"protocol": "http", "kind": "manual", **fields})
    async with database.transaction() as session:
        session.add(row)
        await session.flush()
        await record_change(session, kind="provider", provider_id=row.id)
    return row


async def store_tool(
    database: Database,
    provider: Provider,
    name: str,
    *,
    override: dict[str, Any] | None = None,
    **fields: Any,
) -> Tool:
    """A tool that GETs https://api.example.com/{name}; `override` is what a person changed on it."""
    template = {"call_template_type": "http", "http_method": "GET", "url": f"https://api.example.com/{name}"}
    columns = {
        "name": f"{provider.name}.{name}",
        "alias": f"{provider.name}_{name}"[:64],
        "source_key": name,
        "inputs": {"type": "object", "properties": {}},
        "call_template": template,
        **fields,
    }
    row = Tool(provider_id=provider.id, **columns)
    async with database.transaction() as session:
        session.add(row)
        await session.flush()
        if override is not None:
            session.add(Override(tool_id=row.id, **override))
            await session.flush()
        await record_change(session, kind="tool", provider_id=provider.id, object_id=str(row.id))
    return row


# One statement: a test that empties the registry waits for one reply of the server. What refers to a row is deleted with it.
_CLEAR = text(
    "WITH "
    + ", ".join(
        f"emptied_{table.__tablename__} AS (DELETE FROM {table.__tablename__})"
        for table in (
            AgentTestRow,
            Approval,
            CallRecord,
            ApprovalRequirementRow,
            CallStat,
            ConsoleSessionRow,
            Event,
            IdempotencyKey,
            ImportJobRow,
            Key,
            PendingSearch,
            PinnedResultRow,
            Provider,
            RecordingRow,
            SearchLabel,
            SearchQuery,
            SignInTokenRow,
            SynonymSetRow,
            ToolsetRow,
            Variable,
        )
    )
    + " SELECT 1"
)


async def clear(database: Database) -> None:
    """Empty the registry; the change feed keeps its numbers.

    A TRUNCATE would lock out the readers of an application that runs on the database, and could deadlock with them.
    """
    async with database.transaction() as session:
        await session.execute(_CLEAR)
