"""HTTP responses in chunks: UTCP's `streamable_http` (0.x: `http_stream`).

Lines of JSON are an event each, JSON is one, everything else comes in pieces of at most `chunk_size` bytes.
Collected, lines of JSON and JSON become a list, as with the UTCP client; bytes are unchanged. The progress of
a call is the number of its events, or of bytes of any other response.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from app.core.media_types import is_json, parse_essence
from app.formats.utcp.call_template import compile_template
from app.outbound.framing import JSON_LINES_MEDIA_TYPES, parse_events
from app.outbound.response import OutboundResponse
from app.protocols.base import Call, Discovered, ProgressListener, Result
from app.protocols.requests.plan_compiler import ArgumentPlan, compile_plan
from app.protocols.shared.http_based import HttpBasedAdapter
from app.protocols.shared.results import event_result
from app.protocols.streamable_http.template import StreamableHttpTemplate


@dataclass(frozen=True, slots=True)
class StreamableHttpTarget:
    """`timeout` in seconds, from the call to the end of its response; `chunk_size` in bytes."""

    plan: ArgumentPlan
    timeout: float
    chunk_size: int


class StreamableHttpAdapter(HttpBasedAdapter):
    """The adapter for calls whose response comes in chunks."""

    name: ClassVar[str] = "streamable_http"
    keeps_digits: ClassVar[bool] = True

    def prepare(self, template: Mapping[str, Any]) -> StreamableHttpTarget:
        """Compile a template of `call_template_type` streamable_http; raise InvalidInput."""
        streamable = compile_template(template, StreamableHttpTemplate)
        fields = streamable.model_dump(
            include={"url", "headers", "header_fields", "http_method", "body_field"}
        )
        plan = compile_plan({**fields, "content_type": _request_media_type(streamable.content_type)})
        return StreamableHttpTarget(plan, streamable.timeout / 1000, streamable.chunk_size)

    def origin(self, target: StreamableHttpTarget) -> str:
        """Return the origin of the URL."""
        return target.plan.origin

    def is_safe(self, target: StreamableHttpTarget) -> bool:
        """Return whether the method is GET."""
        return target.plan.safe

    def is_idempotent(self, target: StreamableHttpTarget) -> bool:
        """Return whether the method is GET."""
        return target.plan.safe

    def request_identity(self, call: Call[StreamableHttpTarget]) -> None:  # noqa: ARG002 - the contract's.
        """Return None: streams are not cached."""
        return

    def method(self, target: StreamableHttpTarget) -> str:
        """Return the HTTP method."""
        return target.plan.method

    async def discover(self, call: Call[StreamableHttpTarget]) -> Discovered:
        """Return the document at the URL, requested with the template's method."""
        target = call.target
        prepared = target.plan.prepare({})
        other_headers = [pair for pair in prepared.headers if pair[0].lower() != "accept"]
        return await self.fetch_document(
            prepared._replace(headers=[*other_headers, ("Accept", "application/json")]), call
        )

    async def call(self, call: Call[StreamableHttpTarget]) -> Result:
        """Send the request and return once the response's headers have arrived.

        JSON lines and JSON are collected as a list of values where the call takes no events. Raise what
        `HttpAdapter.call` raises.
        """
        target = call.target
        deadline = self._engine.timers.loop.time() + target.timeout
        call.deadline = min(call.deadline, deadline)
        response = await self.send(target.plan.prepare(call.arguments), call)
        if not 200 <= response.status < 300:
            raise await self.rejection(response, call)
        response.check_headers(call.limits.response_bytes)
        response.set_deadline(
            deadline if call.stream_deadline is None else min(deadline, call.stream_deadline)
        )
        if call.stream_deadline is None:
            response.set_deadline(call.deadline)
        media_type = response.headers.get("Content-Type", "")
        result = await self._result(response, media_type, target, call)
        result.status, result.headers, result.upstream_headers = (
            response.status, self.response_headers(response), response.headers,
        )  # fmt: skip
        return result

    def describe(self, call: Call[StreamableHttpTarget]) -> dict[str, Any]:
        """Return the request as JSON, secrets masked as `***`."""
        target = call.target
        return self.describe_request(target.plan.prepare(call.arguments), call)

    async def _result(
        self,
        response: OutboundResponse,
        media_type: str,
        target: StreamableHttpTarget,
        call: Call[StreamableHttpTarget],
    ) -> Result:
        media = parse_essence(media_type)
        limits = call.limits
        pieces = _chunks(response.iterate(limits.response_bytes), target.chunk_size)
        if call.stream_deadline is None and (media in JSON_LINES_MEDIA_TYPES or is_json(media)):
            events = parse_events(pieces, media_type, max_bytes=limits.response_bytes)
            return await event_result(events, call, close=response.close)
        if call.on_progress is not None:
            pieces = _counted(pieces, call.on_progress, _length(response))
        result = Result(status=200, headers=[], media_type=media_type, body=None, stream=pieces)
        result.close_with(response.close)
        if call.stream_deadline is not None:
            result.events = parse_events(result.iterate(), media_type, max_bytes=limits.event_bytes)
        return result


def _request_media_type(content_type: str) -> str:
    """Return the media type of a request's body: JSON where the template has its default, octet-stream."""
    return "application/json" if content_type == "application/octet-stream" else content_type


async def _chunks(pieces: AsyncIterator[bytes], size: int) -> AsyncIterator[bytes]:
    """Yield pieces of at most `size` bytes, each as soon as it arrives."""
    async for piece in pieces:
        for start in range(0, len(piece), size):
            yield piece[start : start + size]


def _length(response: OutboundResponse) -> int | None:
    """Return the bytes of the body; None where they are not known before its end."""
    length = response.headers.get("Content-Length", "")
    if "Content-Encoding" in response.headers or not (length.isdecimal() and len(length) < 16):
        return None
    return int(length)


async def _counted(
    pieces: AsyncIterator[bytes], on_progress: ProgressListener, total: int | None
) -> AsyncIterator[bytes]:
    """Yield the pieces, and report how many bytes have arrived."""
    size = 0
    async for piece in pieces:
        size += len(piece)
        on_progress(size, total, None)
        yield piece
