"""Comma-separated values (RFC 4180) that spreadsheets can open, also as the body of a response."""

import csv
import io
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from starlette.responses import StreamingResponse

from app.core import exact_json
from app.security.lasting_rights import RightCheck

CSV_MEDIA_TYPE: Final = "text/csv; charset=utf-8; header=present"
# A spreadsheet takes a cell that begins with one of these for a formula (CWE-1236).
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: Any) -> str:
    """Return the cell of a JSON value: empty for null, objects and arrays as JSON, and text that cannot be a
    formula.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return exact_json.dumps(value).decode()
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA_STARTS) else text


async def csv_response(lines: AsyncIterator[bytes], filename: str, *, check: RightCheck) -> StreamingResponse:
    """Return pieces of lines as a download of this name. `check` is made before each further piece is sent.

    The first piece is read now, so that an error of the database has its own status: raise what that raises.
    """
    first = await anext(lines)

    async def content() -> AsyncIterator[bytes]:
        yield first
        async for piece in lines:
            await check()
            yield piece

    headers = {"Content-Disposition": f'attachment; filename="{filename}"', "Cache-Control": "no-store"}
    return StreamingResponse(content(), media_type=CSV_MEDIA_TYPE, headers=headers)


def csv_text(rows: Iterable[Iterable[Any]]) -> bytes:
    """Return rows of cells as lines in UTF-8, each with CRLF."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\r\n").writerows(rows)
    return buffer.getvalue().encode()
