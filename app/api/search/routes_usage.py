"""`/search/usage`: read and delete what the ranking of tools has learned from use."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.api.authorisation import requires
from app.api.dependencies import UsesPageLinks, UsesServices
from app.api.search.schemas_usage import SearchQueryPage, SearchQueryQuery, SearchQueryView, SearchUsageView
from app.core.resource_names import TOOL_NAME
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]
Administers = Annotated[Principal, Depends(requires("admin"))]
DeletesUsage = Annotated[Principal, Depends(requires("admin", recent=True))]


@router.get(
    "/search/usage",
    operation_id="getSearchUsage",
    summary="Get what the ranking has learned, in numbers",
    responses=problem_responses(),
)
async def get_search_usage(principal: ReadsCalls, services: UsesServices) -> SearchUsageView:
    """Return how much the ranking of tools has learned from the calls that follow searches. 403 for a key
    with restrictions.
    """
    found = await services.search_usage.read_usage_statistics(principal=principal)
    return SearchUsageView.of(found, services.search_usage.usage.options)


@router.delete(
    "/search/usage",
    operation_id="deleteSearchUsage",
    summary="Delete what the ranking has learned",
    status_code=204,
    responses=problem_responses(404),
)
async def delete_search_usage(
    principal: DeletesUsage,
    services: UsesServices,
    *,
    tool: Annotated[
        str | None,
        Query(
            pattern=TOOL_NAME,
            description="Delete only what was learned of this tool.",
            examples=["library.searchBooks"],
        ),
    ] = None,
    key_id: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=100,
            pattern=r"^[^\u0000-\u001F\u007F]+$",
            description="Delete only what was learned from this key, and from those that it succeeds or that"
            " succeed it by rotation.",
            examples=["AbCdEfGhJkMn"],
        ),
    ] = None,
) -> None:
    """Delete what was learned from use: all of it, or that of a tool, a key, or both; with the stored texts
    of the searches. It has no effect on rankings from then on. 404 for an unknown tool.
    """
    await services.search_usage.forget(tool=tool, key_id=key_id, principal=principal)


@router.get(
    "/search/usage/queries",
    operation_id="listSearchQueries",
    summary="List the texts of searches",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_search_queries(
    principal: Administers,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[SearchQueryQuery, Query()],
) -> SearchQueryPage:
    """List the texts by which tools were searched, newest first, and which of the tools shown were called.
    There are none unless the gateway has SEARCH_USAGE_QUERIES.
    """
    page, names = await services.search_usage.list_queries(query.page(), q=query.q, principal=principal)
    links.set(page.next_cursor)
    return SearchQueryPage.of(page, [SearchQueryView.of(row, names) for row in page.rows])
