"""`/calls.csv`: call records as comma-separated values (RFC 4180)."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse

from app.access import requires
from app.access.authorise import require_same_rights
from app.access.repository import key_names
from app.api.calls.schemas import CallCsvQuery, CallView
from app.api.csv_rows import csv_cell, csv_response, csv_text
from app.api.dependencies import UsesDatabase
from app.calls.log.queries import NEWEST_CALLS, CallFilters, list_calls
from app.calls.log.service import visible_calls
from app.core.schemas import problem_responses
from app.security.principal import Principal
from app.storage.database import Database

router = APIRouter(tags=["tools"])

ReadsCalls = Annotated[Principal, Depends(requires("calls:read"))]

_COLUMNS: Final = tuple(CallView.model_fields)
_ROWS_PER_QUERY: Final = 1_000
_EXAMPLE: Final = (
    f"{','.join(_COLUMNS)}\r\n019a0000-0000-7000-8000-000000000001,2026-11-22T09:00:00Z,a1b2c3d4e5f6,library,"
    "library.searchBooks,ok,200,200,12.5,11,420,1,true,billing agent,mcp,support,upstream\r\n"
)
_CSV_RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The records, newest first, with a header line.",
        "content": {"text/csv": {"schema": {"type": "string"}, "example": _EXAMPLE}},
    }
}


@router.get(
    "/calls.csv",
    operation_id="exportCalls",
    summary="Export call records as CSV",
    response_class=StreamingResponse,
    responses=problem_responses() | _CSV_RESPONSE,
)
async def export_calls(
    request: Request,
    principal: ReadsCalls,
    database: UsesDatabase,
    query: Annotated[CallCsvQuery, Query()],
) -> StreamingResponse:
    """Return the calls of tools that this key may see, newest first, as comma-separated values.

    The columns are the members of the records of `GET /calls`, with the same filters. Text that a spreadsheet
    would take for a formula begins with an apostrophe. The response is complete where its last line ends in
    CRLF and the connection was closed properly; to continue after `limit` rows, pass the last `id` as
    `cursor`.
    """
    lines = _lines(database, query, query.filters(visible_calls(principal)), principal)
    check = partial(require_same_rights, request, "calls:read", principal)
    return await csv_response(lines, "calls.csv", check=check)


async def _lines(
    database: Database, query: CallCsvQuery, filters: CallFilters, principal: Principal
) -> AsyncIterator[bytes]:
    """Yield the lines in pieces, the header line with the first; no connection is held between two pieces."""
    page, left = NEWEST_CALLS, query.limit
    header: Iterable[Any] | None = _COLUMNS
    while left:
        async with database.read_session() as session:
            page = replace(page, limit=min(left, _ROWS_PER_QUERY))
            found = await list_calls(session, page, filters=filters, tenant=principal.tenant_id)
            names = await key_names(session, {row.key_id for row in found.rows}, principal=principal)
        left -= len(found.rows)
        lines = [] if header is None else [header]
        lines += (csv_row(CallView.of(row, names)) for row in found.rows)
        header = None
        yield csv_text(lines)
        if found.next_cursor is None:
            return
        page = replace(page, cursor=found.next_cursor)


def csv_row(call: CallView) -> list[str]:
    """Return the cells of a record: empty for null, and text that cannot be a formula."""
    return [csv_cell(value) for value in call.model_dump(mode="json").values()]
