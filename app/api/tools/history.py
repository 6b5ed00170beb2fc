"""Reads the history of a tool: what imports, approvals and people changed on it."""

from datetime import datetime
from typing import Final

from sqlalchemy import Text, and_, cast, or_, select
from sqlmodel import col

from app.api.tools.schemas_history import ToolHistoryQuery
from app.api.tools.service import get_tool
from app.core.pagination import Ordering, Page, SortField, contains, read_page
from app.providers.registration.tool_history import FIRST_IMPORT_KEY
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Tool, ToolHistoryEntry

_ORDER: Final = Ordering(
    {"at": SortField(col(ToolHistoryEntry.at), "at", datetime)}, item_id=col(ToolHistoryEntry.id)
)


async def tool_history(
    database: Database, query: ToolHistoryQuery, *, principal: Principal, name: str
) -> Page[ToolHistoryEntry]:
    """Return a page of the history of the tool of this canonical name or alias.

    Raise NotFound where there is none that the principal may see, and InvalidInput for another list's cursor.
    """
    tool = await get_tool(database, principal=principal, name=name)
    entry = ToolHistoryEntry
    source_key = select(col(Tool.source_key)).where(col(Tool.id) == tool.id).scalar_subquery()
    # A tool that was added later has an entry of its own.
    is_first_import = and_(col(entry.source_key) == FIRST_IMPORT_KEY, col(entry.at) >= tool.created_at)
    statement = select(entry).where(
        col(entry.provider_id) == tool.provider_id,
        or_(col(entry.source_key) == source_key, is_first_import),
    )
    if query.q is not None:
        texts = (cast(col(entry.differences), Text), cast(col(entry.changes), Text))
        statement = statement.where(contains(query.q, col(entry.action), *texts))
    async with database.read_session() as session:
        return await read_page(session, statement, ordering=_ORDER, page=query.page())
