"""Results of protocols whose responses are values or messages rather than HTTP bodies."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any, Final

import orjson

from app.core import exact_json
from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import ResponseTooLarge, UpstreamTimeout
from app.outbound.framing import StreamEvent
from app.protocols.base import Call, Result

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
BYTES: Final = "application/octet-stream"
_MAX_TEXT: Final = 64 << 10


def value_result(value: Any, call: Call[Any], *, status: int = 200) -> Result:
    """Return a JSON value as a result; raise ResponseTooLarge above the call's `response_bytes`."""
    return body_result(exact_json.dumps(value, option=orjson.OPT_NON_STR_KEYS), JSON, call, status=status)


def body_result(body: bytes, media_type: str, call: Call[Any], *, status: int = 200) -> Result:
    """Return a complete body as a result, with one event where the call takes events.

    Raise ResponseTooLarge above the call's `response_bytes`.
    """
    check_size(len(body), call.limits.response_bytes)
    events = None
    if call.stream_deadline is not None:
        kind = "json" if media_type == JSON else "bytes" if media_type == BYTES else "text"
        events = _single_event(StreamEvent(body, kind))  # type: ignore[arg-type]
    return Result(status=status, headers=[], media_type=media_type, body=body, events=events)


async def event_result(
    events: AsyncGenerator[StreamEvent, None],
    call: Call[Any],
    *,
    close: Callable[[], None],
    max_events: int | None = None,
) -> Result:
    """Return messages as a result: as events where the call takes them, else collected as a JSON list.

    `close` ends the request and must be idempotent. Each collected message is progress of the call.
    Collecting ends after `max_events` messages; raise
    UpstreamTimeout at the call's deadline and ResponseTooLarge above its `response_bytes`.
    """
    if call.stream_deadline is not None:
        result = Result(
            status=200, headers=[], media_type=JSON, body=None, events=_closing_after(events, close)
        )
        result.close_with(close)
        return result
    try:
        with time_limit(call.deadline):
            collected = await _collect(events, call, max_events)
    finally:
        close()
    return Result(status=200, headers=[], media_type=JSON, body=collected)


@contextlib.contextmanager
def time_limit(deadline: float, detail: str = "The upstream did not respond in time.") -> Iterator[None]:
    """Raise UpstreamTimeout with `detail` where the body has not ended at `deadline` (a `loop.time()`)."""
    try:
        with Deadline(get_timer_queue(), deadline):
            yield
    except TimeoutError:
        raise UpstreamTimeout(detail) from None


def check_size(size: int, max_bytes: int) -> None:
    """Raise ResponseTooLarge where a response of `size` bytes has more than `max_bytes`."""
    if size > max_bytes:
        raise ResponseTooLarge(f"The upstream's response has more than {max_bytes} bytes.")


def event_value(event: StreamEvent) -> bytes:
    """Return an event as one serialised JSON value: JSON unchanged, everything else as a string."""
    if event.kind == "json":
        return event.data
    if event.kind == "message":
        with contextlib.suppress(orjson.JSONDecodeError):
            orjson.loads(event.data)
            return event.data
    return exact_json.dumps(event.data.decode("utf-8", "replace"))


def event_text(event: StreamEvent) -> str | None:
    """Return an event as the text of a report of progress; None for bytes, and above 64 KiB."""
    if event.kind == "bytes" or len(event.data) > _MAX_TEXT:
        return None
    return event.data.decode("utf-8", "replace")


async def _collect(
    events: AsyncGenerator[StreamEvent, None], call: Call[Any], max_events: int | None
) -> bytes:
    limit, on_progress = call.limits.response_bytes, call.on_progress
    values: list[bytes] = []
    size = 2
    async with contextlib.aclosing(events):
        async for event in events:
            value = event_value(event)
            size += len(value) + 1
            check_size(size, limit)
            values.append(value)
            if on_progress is not None:
                on_progress(len(values), None, event_text(event))
            if max_events is not None and len(values) >= max_events:
                break
    return b"[" + b",".join(values) + b"]"


async def _closing_after(
    events: AsyncGenerator[StreamEvent, None], close: Callable[[], None]
) -> AsyncGenerator[StreamEvent, None]:
    try:
        async with contextlib.aclosing(events):
            async for event in events:
                yield event
    finally:
        close()


def single_event(body: bytes) -> AsyncGenerator[StreamEvent, None]:
    """Return a JSON body as the only event of a response."""
    return _single_event(StreamEvent(body, "json"))


async def _single_event(event: StreamEvent) -> AsyncGenerator[StreamEvent, None]:
    yield event
