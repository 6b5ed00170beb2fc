"""Responses that consist of events, collected to one result within limits."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import orjson

from app.calls.results.content_blocks import read_blocks
from app.calls.results.model import ModelResult
from app.core.errors import ResponseTooLarge, UpstreamError, UpstreamTimeout
from app.core.media_types import parse_essence
from app.outbound.framing import EVENT_MEDIA_TYPES, StreamEvent, parse_events
from app.protocols.base import Result

MAX_COLLECTED: Final = 16 << 20
"""Bytes of a response that are read for a model."""
OnEvent = Callable[[StreamEvent], Awaitable[None]]


def events_of(result: Result) -> AsyncGenerator[StreamEvent, None] | None:
    """Return the events of a response that consists of events, None for any other."""
    if result.events is not None:
        return result.events
    media = parse_essence(result.media_type)
    if media in EVENT_MEDIA_TYPES and not result.is_content_coded:
        return parse_events(result.iterate(), result.media_type, max_bytes=MAX_COLLECTED)
    return None


async def collect_events(
    events: AsyncGenerator[StreamEvent, None], result: Result, on_event: OnEvent | None
) -> tuple[ModelResult, bytes, UpstreamError | None]:
    """Return the result for the events of a response, their data, and the error that cut them, if any; pass
    each event to `on_event`.

    Where each of them is JSON, `body` is the JSON of the only one, or of the list of all. Events that are
    cut by a limit of time or size are a result with a note; raise what the events raise before the first.
    """
    pieces: list[bytes] = []
    size = 0
    cut: UpstreamError | None = None
    try:
        async with contextlib.aclosing(events):
            async for event in events:
                size += len(event.data) + 1
                if size > MAX_COLLECTED:
                    cut = ResponseTooLarge(f"The response has more than {MAX_COLLECTED} bytes.")
                    break
                pieces.append(event.data)
                if on_event is not None:
                    await on_event(event)
    except (UpstreamTimeout, ResponseTooLarge) as error:
        if not pieces:
            raise
        cut = error
    whole = (b"" if result.has_text_pieces else b"\n").join(pieces)
    text = whole.decode("utf-8", "replace")
    if cut is not None:
        note = f"The events end here, after {len(pieces)}: {cut.detail}"
        read = ModelResult(text, body=_as_json(pieces), is_cut=True)
        read.add_notes([note])
        return read, whole, cut
    if not text.strip():
        return ModelResult(f"(no events, HTTP {result.status})"), whole, None
    if result.has_content_blocks:
        # The others are reports of progress, which `on_event` got.
        return await asyncio.to_thread(read_blocks, pieces[-1]), whole, None
    return ModelResult(text, body=_as_json(pieces)), whole, None


def _as_json(pieces: list[bytes]) -> bytes | None:
    try:
        values = [piece for piece in pieces if piece.strip() and _parse(piece)]
    except orjson.JSONDecodeError:
        return None
    if len(values) == 1:
        return values[0]
    return b"[" + b",".join(values) + b"]"


def _parse(piece: bytes) -> bool:
    orjson.loads(piece)
    return True
