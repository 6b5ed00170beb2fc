"""What operators read and delete of what was learned."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import ChangeFeed, record_change
from app.core.errors import Forbidden, NotFound
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.search.usage.service import SearchUsage
from app.search.usage.store import (
    FORGOTTEN,
    UsageStatistics,
    forget,
    list_key_line,
    read_statistics,
)
from app.security.principal import Principal
from app.storage.models import SearchQuery, Tool

_ORDER = Ordering(
    {"at": SortField(col(SearchQuery.id), "id", UUID, unique=True)}, item_id=col(SearchQuery.id)
)


@dataclass(frozen=True, slots=True)
class SearchUsageAdministration:
    """The operations of `/search/usage`."""

    usage: SearchUsage
    feed: ChangeFeed

    async def read_usage_statistics(self, *, principal: Principal) -> UsageStatistics:
        """Return the numbers of what is stored."""
        _require_unrestricted(principal)
        async with self.usage.database.read_session() as session:
            return await read_statistics(session, principal.tenant_id)

    async def list_queries(
        self, page: PageRequest, *, q: str | None, principal: Principal
    ) -> tuple[Page[SearchQuery], dict[UUID, str]]:
        """Return a page of stored searches, and the names of their tools that still exist by id."""
        _require_unrestricted(principal)
        statement = select(SearchQuery).where(col(SearchQuery.tenant_id) == principal.tenant_id)
        if q is not None:
            statement = statement.where(contains(q, col(SearchQuery.query)))
        async with self.usage.database.read_session() as session:
            result_page = await read_page(session, statement, ordering=_ORDER, page=page)
            ids = {tool for row in result_page.rows for tool in row.tools}
            names = select(col(Tool.id), col(Tool.name)).where(
                col(Tool.tenant_id) == principal.tenant_id, col(Tool.id).in_(ids)
            )
            rows = await session.execute(names)
            return result_page, {row.id: row.name for row in rows.all()}

    async def forget(self, *, tool: str | None, key_id: str | None, principal: Principal) -> None:
        """Delete what was learned: all of it, or that of a tool (by name), a key, or both; raise NotFound for
        an unknown tool.

        The labels of keys that succeed each other by rotation are stored together, and deleted together.
        """
        _require_unrestricted(principal)
        tenant = principal.tenant_id
        async with self.usage.database.transaction() as session:
            tool_id = None
            if tool is not None:
                statement = select(col(Tool.id)).where(col(Tool.tenant_id) == tenant, col(Tool.name) == tool)
                tool_id = await session.scalar(statement)
                if tool_id is None:
                    raise NotFound(f"There is no tool {tool}.")
            key = None
            if key_id is not None:
                line = await list_key_line(session, key_id)
                key = (self.usage.digests.digest_key(line[0], tenant), line)
            deleted = await forget(session, tenant, tool_id=tool_id, key=key)
            await record_event(
                session,
                actor=principal.key_id,
                action="deleted",
                object_type="search-usage",
                object_name=tool or "",
                detail={"counts": deleted, **({} if key_id is None else {"key_id": key_id})},
            )
            await record_change(session, kind="search-usage", object_id=FORGOTTEN)
        await self.feed.catch_up()


def _require_unrestricted(principal: Principal) -> None:
    if principal.is_restricted or principal.toolsets is not None:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: it may not see what was learned from the"
            " use of all tools.",
            hint="Use a key without restrictions.",
        )
