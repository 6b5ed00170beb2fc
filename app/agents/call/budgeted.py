"""Responses within the budget that a client prefers: the part of the result, and how to read the rest."""

import re
from collections.abc import Sequence
from typing import Final

from app.agents.call.responses import result_headers
from app.agents.call.result_preferences import TABLE_MEDIA_TYPES
from app.agents.http_messages import BytesResponse
from app.calls import CallContext
from app.calls.results import ModelResult, ResultBudget, read_response
from app.core.media_types import is_json, is_textual, parse_essence
from app.protocols.base import BODY_METADATA_HEADERS, Result
from app.services import Services

_TEXT: Final = "text/plain; charset=utf-8"
_MAX_NOTES: Final = 20
_MAX_NOTE: Final = 300
"""Characters of a note in a header: it may have names of the upstream's response, of any length."""
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")


def can_be_budgeted(result: Result) -> bool:
    """Return whether a response is text or JSON, the only ones that a budget applies to."""
    media = parse_essence(result.media_type)
    return result.events is None and not result.is_content_coded and (is_json(media) or is_textual(media))


async def respond_within(
    budget: ResultBudget,
    applied: str,
    *,
    result: Result,
    outcome: CallContext,
    services: Services,
    root_path: str,
) -> BytesResponse:
    """Return the response with the part of a result that is within a budget.

    `applied` is the value of Preference-Applied. Raise what the stream of the response raises.
    """
    read = await read_response(outcome, result, budget=budget, continuations=services.continuations)
    result.headers = [pair for pair in result.headers if pair[0].lower() not in BODY_METADATA_HEADERS]
    headers = [*result_headers(result, outcome), (b"preference-applied", applied.encode("ascii", "replace"))]
    if read.continuation is not None:
        link = f'<{root_path}/continuations/{read.continuation}>; rel="next"'
        headers += [(b"x-continuation", read.continuation.encode()), (b"link", link.encode("latin-1"))]
    if read.notes:
        headers.append((b"x-result-notes", _strings(read.notes)))
    body, media_type = _body(read, result)
    if body:
        headers.append((b"content-type", media_type.encode()))
    return BytesResponse(body, headers)


def _body(read: ModelResult, result: Result) -> tuple[bytes, str]:
    """Return the body and its media type; those of the upstream where nothing was to be done."""
    if read.table_format is not None:
        return (read.content or read.text).encode(), TABLE_MEDIA_TYPES[read.table_format]
    if read.body is not None:
        return read.body, "application/json"
    if read.notes:
        return (read.content or read.text).encode(), _TEXT
    return result.body or b"", result.media_type


def _strings(notes: Sequence[str]) -> bytes:
    """Return sentences as a list of strings of RFC 9651, which are ASCII."""
    texts = (note.encode("ascii", "replace").decode()[:_MAX_NOTE] for note in notes[:_MAX_NOTES])
    escaped = (_CONTROLS.sub("?", text).replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return ", ".join(f'"{text}"' for text in escaped).encode()
