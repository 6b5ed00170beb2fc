"""Calls in the modes `record`, `replay` and `mock` (`security.upstream_mode`).

    record   require the recording -> (the upstream responds) -> store what it gave -> the result
    replay   find the next recorded response -> the result, or the recorded error
    mock     make a value of the tool's examples or output schema -> the result

What follows is the same for all: decoding and validation, idempotency keys, records. The response cache is
used by live calls only. A body that arrives in pieces, and events, are stored once they have ended; where
their client leaves before, what had arrived of events is stored.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Final

import structlog

from app.calls.context import CallContext
from app.calls.recordings.interactions import (
    CallRecordings,
    RecordableRequest,
    RecordedError,
    RecordedResponse,
)
from app.calls.recordings.mocking import generate_response
from app.calls.response.checks import VIOLATIONS_HEADER
from app.core.errors import (
    GatewayError,
    ResponseTooLarge,
    TokenRequestFailed,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.media_types import parse_essence
from app.core.upstream_mode import UpstreamMode
from app.outbound.framing import EVENT_MEDIA_TYPES, StreamEvent, parse_events
from app.protocols.base import MASKED_HEADER, Result
from app.protocols.shared.results import JSON, TEXT, event_value

SOURCE_HEADER: Final = "X-Call-Source"
"""Says that a response was replayed (`recording`) or made (`mock`); a live one does not have it."""
RECORDED_HEADER: Final = "X-Recording"
"""Of a call that is recorded: `stored`, or why its response is not: `full`, `too-large`, `unreadable`,
`unavailable`. A response that is passed on as it arrives does not have it.
"""
WARNING_HEADER: Final = "X-Recording-Warning"
_DROPPED_HEADERS: Final = frozenset({"x-cache", "age", SOURCE_HEADER.lower(), RECORDED_HEADER.lower()})
_ERRORS: Final[dict[str, type[UpstreamError]]] = {
    one.slug: one
    for one in (
        UpstreamError, UpstreamTimeout, UpstreamUnreachable, UpstreamUnauthorized, UpstreamMalformed,
        ResponseTooLarge,
    )
}  # fmt: skip
_log = structlog.get_logger(__name__)


async def respond_offline(mode: UpstreamMode, context: CallContext, recordings: CallRecordings) -> Result:
    """Return the result of a call in the modes `replay` and `mock`, which does not reach its upstream.

    Raise recorded errors, and the errors of `CallRecordings`.
    """
    if mode.mode == "mock":
        status, media_type, body = await asyncio.to_thread(
            generate_response, context.plan, context.request.arguments, seed=mode.seed
        )
        result = _with_events(
            Result(status=status, headers=[], media_type=media_type, body=body), context, media_type
        )
    else:
        replay = await recordings.replay(_request(mode, context))
        try:
            result = _result(replay.response, context)
        except UpstreamError as error:
            error.headers[SOURCE_HEADER] = mode.source
            if replay.warning:
                error.headers[WARNING_HEADER] = replay.warning
            raise
        if replay.warning:
            result.headers.append((WARNING_HEADER, replay.warning))
        # Other tools are validated again; the results of a manifest were, before they were stored.
        context.has_violations = any(
            name == VIOLATIONS_HEADER and not value.startswith("count=0,") and value != "count=0"
            for name, value in result.headers
        )
    result.headers.append((SOURCE_HEADER, mode.source))
    return result


def _request(mode: UpstreamMode, context: CallContext) -> RecordableRequest:
    request = context.request
    return RecordableRequest(
        mode.recording or "",
        context.plan,
        request.arguments,
        tuple(request.presets),
        request.options.recording_run or f"key:{request.principal.key_id}",
    )


async def open_recording(
    mode: UpstreamMode, context: CallContext, recordings: CallRecordings
) -> "InteractionRecording":
    """Return what stores the response to a call in mode `record`; raise the errors of `require`."""
    request = _request(mode, context)
    await recordings.require(request.recording)
    return InteractionRecording(request, recordings)


def _is_of_upstream(error: UpstreamError, context: CallContext) -> bool:
    """Return whether an error says something of the tool's upstream, and not of a token endpoint or of how
    long the client waits.
    """
    if isinstance(error, TokenRequestFailed):
        return False
    return not (isinstance(error, UpstreamTimeout) and context.client_deadline is not None)


class InteractionRecording:
    """Stores one interaction. Storing it never affects the live response."""

    def __init__(self, request: RecordableRequest, recordings: CallRecordings) -> None:
        self._request = request
        self._recordings = recordings

    async def record_result(self, result: Result) -> None:
        """Store a response; one that arrives in pieces, and events, once they have ended."""
        if result.is_content_coded:
            # What cannot be read cannot be masked.
            result.headers.append((RECORDED_HEADER, await self._omit("unreadable")))
            return
        head = RecordedResponse(
            status=result.status,
            media_type=result.media_type,
            headers=tuple(pair for pair in result.headers if pair[0].lower() not in _DROPPED_HEADERS),
            text_pieces=result.has_text_pieces,
            content_blocks=result.has_content_blocks,
        )
        if result.stream is not None:
            # The events of such a result, if any, are read from its stream.
            result.stream = self._record_body(result.stream, head)
        elif result.body is None and result.events is not None:
            result.events = self._record_events(result.events, head)
        elif len(result.body or b"") > self._recordings.limits.body_bytes:
            result.headers.append((RECORDED_HEADER, await self._omit("too-large")))
        else:
            status = await self._store(replace(head, body=result.body or b""))
            result.headers.append((RECORDED_HEADER, status))

    async def record_error(self, error: UpstreamError, context: CallContext) -> None:
        """Store an error, where it says something of the tool's upstream."""
        if _is_of_upstream(error, context):
            error.headers[RECORDED_HEADER] = await self._store(RecordedResponse(error=_convert_error(error)))

    async def _store(self, response: RecordedResponse) -> str:
        try:
            return await self._recordings.record(self._request, response)
        except GatewayError as error:
            _log.warning("a response was not recorded", recording=self._request.recording, reason=error.slug)
            return "unavailable"

    async def _omit(self, reason: str) -> str:
        await self._recordings.omit(self._request)
        return reason

    async def _record_body(
        self, pieces: AsyncIterator[bytes], head: RecordedResponse
    ) -> AsyncGenerator[bytes, None]:
        """Yield the pieces of a body, and store it at its end."""
        limit = self._recordings.limits.body_bytes
        is_stream = parse_essence(head.media_type) in EVENT_MEDIA_TYPES
        held = bytearray()
        size = 0
        stored = False
        try:
            async for piece in pieces:
                size += len(piece)
                if len(held) <= limit:
                    held += piece[: limit + 1 - len(held)]
                yield piece
            stored = True
            if size <= limit:
                await self._store(replace(head, body=bytes(held)))
            elif is_stream:
                await self._store(replace(head, body=_cut_to_whole_lines(held[:limit]), is_cut=True))
            else:
                await self._omit("too-large")
        except UpstreamError as error:
            stored = True
            if is_stream and held:
                await self._store(replace(head, body=_cut_to_whole_lines(held[:limit]), is_cut=True))
            else:
                await self._store(RecordedResponse(error=_convert_error(error)))
            raise
        finally:
            if not stored and is_stream and held:
                cut = replace(head, body=_cut_to_whole_lines(held[:limit]), is_cut=True)
                self._recordings.finish(self._request, cut)
            await _close(pieces)

    async def _record_events(
        self, events: AsyncGenerator[StreamEvent, None], head: RecordedResponse
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield events, and store the first of them at their end."""
        limits = self._recordings.limits
        held: list[StreamEvent] = []
        size = 0
        is_cut = stored = False
        try:
            async for event in events:
                size += len(event.data)
                is_cut = is_cut or len(held) >= limits.events or size > limits.body_bytes
                if not is_cut:
                    held.append(replace(event))
                yield event
            stored = True
            await self._store(replace(head, events=tuple(held), is_cut=is_cut))
        except UpstreamError as error:
            stored = True
            failed = None if is_cut else _convert_error(error)
            await self._store(replace(head, events=tuple(held), error=failed, is_cut=is_cut))
            raise
        finally:
            if not stored and held:
                self._recordings.finish(self._request, replace(head, events=tuple(held), is_cut=True))
            await events.aclose()


async def _close(pieces: AsyncIterator[bytes]) -> None:
    if isinstance(pieces, AsyncGenerator):
        await pieces.aclose()


def _cut_to_whole_lines(text: bytearray) -> bytes:
    """Return the beginning of a body of events up to its last complete line."""
    return bytes(text[: text.rfind(b"\n") + 1])


def _convert_error(error: UpstreamError) -> RecordedError:
    response = error.response
    if response is None:
        return RecordedError(error.slug, error.detail, error.request_sent)
    headers = tuple((name, value) for name, value in response.headers.items())
    return RecordedError(error.slug, error.detail, True, response.status, response.body, headers)


def _restore_error(recorded: RecordedError) -> UpstreamError:
    """Return a recorded error as it was raised."""
    response = None
    if recorded.status is not None:
        response = UpstreamErrorResponse(recorded.status, recorded.body, dict(recorded.headers))
    if response is not None and recorded.slug == UpstreamRejected.slug:
        return UpstreamRejected(recorded.detail, response=response)
    kind = _ERRORS.get(recorded.slug, UpstreamError)
    return kind(recorded.detail, response=response, request_sent=recorded.request_sent)


def _result(recorded: RecordedResponse, context: CallContext) -> Result:
    """Return a recorded response in the form that the client takes; raise a recorded error."""
    if recorded.events is None and recorded.error is not None:
        raise _restore_error(recorded.error)
    result = Result(
        status=recorded.status,
        headers=[(name, value) for name, value in recorded.headers],
        media_type=recorded.media_type,
        body=recorded.body,
        has_text_pieces=recorded.text_pieces,
        is_masked=any(name == MASKED_HEADER for name, _ in recorded.headers),
        has_content_blocks=recorded.content_blocks,
    )
    if recorded.events is None:
        return _with_events(result, context, recorded.media_type)
    if context.events_deadline is not None:
        result.events = _replay_events(recorded)
        return result
    if recorded.error is not None:
        raise _restore_error(recorded.error)
    result.body, result.media_type = _join_events(recorded)
    return result


def _with_events(result: Result, context: CallContext, media_type: str) -> Result:
    """Return a result with a body, which a client that takes events gets as events."""
    if context.events_deadline is not None:
        limit = max(context.plan.limits.event_bytes, len(result.body or b""))
        result.events = parse_events(result.iterate(), media_type, max_bytes=limit)
    return result


async def _replay_events(recorded: RecordedResponse) -> AsyncGenerator[StreamEvent, None]:
    for event in recorded.events or ():
        # Whoever masks events changes them.
        yield replace(event)
    if recorded.error is not None:
        raise _restore_error(recorded.error)


def _join_events(recorded: RecordedResponse) -> tuple[bytes, str]:
    """Return events as one body with its media type, as adapters collect them."""
    events = recorded.events or ()
    if recorded.content_blocks:
        return (events[-1].data if events else b"[]"), JSON
    if recorded.text_pieces:
        return b"".join(event.data for event in events), TEXT
    return b"[" + b",".join(event_value(event) for event in events) + b"]", JSON
