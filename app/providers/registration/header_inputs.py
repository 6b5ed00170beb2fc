"""Compares the inputs that an operator wants in headers with what the clients of MCP see of the tool."""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import tool_select
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.dialects.header_inputs import find_invalid_header_inputs
from app.formats.dialects.sanitize import UnusableSchema, sanitize_inputs
from app.storage.models import Override, Tool


async def find_lost_header_inputs(session: AsyncSession, provider_id: UUID) -> dict[str, str]:
    """Return a note on each tool of a provider whose source no longer has such inputs, by source key.

    The tool stays listed, without these headers; the annotations of the operator stay, for the next import.
    """
    statement = tool_select().add_columns(col(Tool.source_key).label("source_key"))
    statement = statement.where(
        col(Tool.provider_id) == provider_id, col(Override.annotations)["header_inputs"].is_not(None)
    )
    notes: dict[str, str] = {}
    for row in await session.execute(statement):
        given = row.annotations["header_inputs"] or {}
        try:
            errors = find_invalid_header_inputs(sanitize_inputs(row.inputs).schema, given)
        except UnusableSchema:
            # A note of its own says that the tool is not listed.
            continue
        if errors:
            headers = ", ".join(f"{name} (Mcp-Param-{given[name]})" for name in errors)
            notes[row.source_key] = (
                f"MCP clients no longer repeat these inputs in headers: {headers}. "
                f"{next(iter(errors.values()))} Change `annotations.header_inputs` of the tool."
            )
    return notes


def header_inputs_of(changes: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the inputs that changes of a tool name for headers, with their tokens."""
    return (changes.get("annotations") or {}).get("header_inputs") or {}


def check_header_inputs(inputs: Any, changes: Mapping[str, Any], *, at: str = "") -> None:
    """Raise InvalidInput where changes name an input for a header that the clients of MCP do not see, or not
    with a single type of those that a header can have.

    `inputs` is the schema of the arguments as models see it, `at` the JSON pointer to the changes.
    """
    given = header_inputs_of(changes)
    if not given:
        return
    try:
        errors = find_invalid_header_inputs(sanitize_inputs(inputs).schema, given)
    except UnusableSchema as error:
        errors = dict.fromkeys(given, f"Clients of MCP do not see this tool. {error.reason}")
    if errors:
        raise InvalidInput(
            "Not all of these inputs can be repeated in a header.",
            errors=[
                FieldError(pointer(at, "annotations", "header_inputs", name), detail)
                for name, detail in errors.items()
            ],
        )


async def inputs_by_tool(session: AsyncSession, ids: Iterable[UUID]) -> dict[UUID, Any]:
    """Return the schemas of the arguments of tools as models see them, by the ids of the tools."""
    wanted = list(ids)
    if not wanted:
        return {}
    rows = await session.execute(tool_select().where(col(Tool.id).in_(wanted)))
    return {row.id: row.inputs for row in rows}
