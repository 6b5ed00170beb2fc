"""Responses with the evidence envelope of a ToolClad tool, of calls that succeeded or failed."""

import asyncio
from typing import Final

from app.agents.call.responses import result_headers
from app.agents.http_messages import BytesResponse
from app.api.streams.connection import Headers
from app.calls import CallContext
from app.core.errors import GatewayError
from app.formats.toolclad.envelope import MEDIA_TYPE, Evidence

_INLINE_BYTES: Final = 64 << 10


async def envelope_response(outcome: CallContext, evidence: Evidence) -> BytesResponse:
    """Return the envelope; the status is 200, or that of the problem which the call ended with."""
    is_large = len(evidence.output) > _INLINE_BYTES
    body = await asyncio.to_thread(evidence.envelope) if is_large else evidence.envelope()
    if outcome.result is not None:
        return BytesResponse(body, [*result_headers(outcome.result, outcome), _CONTENT_TYPE])
    error = outcome.error
    headers: Headers = [
        (b"x-call-id", outcome.call_id.encode()),
        (b"cache-control", b"no-store"),
        _CONTENT_TYPE,
    ]
    if outcome.replayed:
        headers.append((b"idempotency-replayed", b"true"))
    if isinstance(error, GatewayError):
        headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    return BytesResponse(body, headers, status_code=outcome.status)


_CONTENT_TYPE: Final = (b"content-type", MEDIA_TYPE.encode())
