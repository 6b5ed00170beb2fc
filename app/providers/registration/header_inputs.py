"""What an import says of inputs that an operator wants in headers, where the source no longer has them."""

from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import tool_select
from app.formats.dialects.header_inputs import find_invalid_header_inputs
from app.formats.dialects.sanitize import UnusableSchema, sanitize_inputs
from app.storage.models import Override, Tool


async def find_lost_header_inputs(session: AsyncSession, provider_id: UUID) -> dict[str, str]:
    """Return a note on each tool of a provider that has such inputs, by source key.

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
