"""The live tail of calls: rows of HTML as server-sent events, made from `GET /calls/stream`.

    GET /calls/stream --> collected for 250 ms --> at most 50 rows --> one event `rows`

However many calls there are, a browser gets at most four updates a second of at most 50 rows; an update says
how many calls it leaves out. The API's stream ends by the server's stop, or the end of the key or session:
the last event, `end`, says why, and whether to connect again, or to read the list anew.

A page passes the `position` of its list, from which on the stream has what the list lacks. A browser that
connects again passes the id of the last event, which goes before. The first heartbeat is that of the API,
which has subscribed by then.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar, Final

import orjson

from app.api.streams.connection import ResponseWriter
from app.console.http.api_client import StreamedResponse
from app.console.http.api_stream import ApiStreamResponse
from app.console.http.page import Page
from app.console.templating import template
from app.core import exact_json

COLLECT_SECONDS: Final = 0.25
MAX_ROWS: Final = 50
_HEARTBEAT: Final = b": heartbeat\n\n"
_ROWS: Final = "call_rows.html"
# Of the problems by which the API ends a stream: a new connection may succeed.
_OVERLOADED: Final = "overloaded"
"""There is too much between the position and now: the list is the shorter way."""
_TEMPORARY: Final = frozenset({"stopping", _OVERLOADED, "unavailable", "client-timeout", "internal-error"})


class CollectedCalls:
    """The newest calls that are not written yet, at most 50, and how many there were besides."""

    def __init__(self) -> None:
        self._newest: deque[tuple[str, bytes]] = deque(maxlen=MAX_ROWS)
        self._count = 0
        self.arrived = asyncio.Event()
        self.is_subscribed = False
        """Whether the API has subscribed: it has sent a heartbeat."""
        self.has_ended = False
        self.problem: dict[str, Any] | None = None
        """Why the API has ended its stream; None where it did not say."""

    def add(self, event_id: str, data: bytes) -> None:
        """Add a call, as JSON."""
        self._newest.append((event_id, data))
        self._count += 1
        self.arrived.set()

    def subscribe(self) -> None:
        """Add that the API has subscribed."""
        if not self.is_subscribed:
            self.is_subscribed = True
            self.arrived.set()

    def end(self, problem: dict[str, Any] | None = None) -> None:
        """Add that no further calls follow."""
        self.has_ended = True
        self.problem = self.problem or problem
        self.arrived.set()

    def take(self) -> tuple[str, list[dict[str, Any]], int]:
        """Return the id of the last call, the calls, newest first, and the number of those left out."""
        taken, count = list(self._newest), self._count
        self._newest.clear()
        self._count = 0
        self.arrived.clear()
        if self.has_ended:
            self.arrived.set()
        calls = [orjson.loads(data) for _, data in reversed(taken)]
        return taken[-1][0] if taken else "", calls, count - len(taken)


class CallRowStream(ApiStreamResponse):
    """An ASGI response with the rows of new calls; `filters` are those of `GET /calls/stream`.

    A subclass does so for another stream of the API: its path, the name of its events, and the template of
    their rows.
    """

    path: ClassVar[str] = "/calls/stream"
    event: ClassVar[str] = "call"
    rows: ClassVar[str] = _ROWS

    def __init__(self, page: Page, filters: Mapping[str, str]) -> None:
        last = page.request.headers.get("last-event-id") or page.query.get("position")
        super().__init__(page, self.path, filters, headers={"Last-Event-ID": last} if last else {})

    def headers_of(self, _response: StreamedResponse) -> Mapping[str, str]:
        """See `ApiStreamResponse`."""
        return {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}

    async def forward(self, response: StreamedResponse, writer: ResponseWriter) -> None:
        """Write the rows of new calls, and at the end why there are no more."""
        collected = CollectedCalls()
        reading = asyncio.create_task(_collect(response, collected, self.event), name="console-call-rows")
        heartbeat = self.page.services.streams.heartbeat
        is_announced = False
        try:
            while True:
                try:
                    async with asyncio.timeout(heartbeat if is_announced else None):
                        await collected.arrived.wait()
                except TimeoutError:
                    await writer.write(_HEARTBEAT)
                    continue
                if collected.is_subscribed and not is_announced:
                    is_announced = True
                    await writer.write(_HEARTBEAT)
                if not collected.has_ended:
                    await asyncio.sleep(COLLECT_SECONDS)
                last, calls, left_out = collected.take()
                if calls:
                    await writer.write(
                        server_sent_event("rows", self._render_rows(calls, left_out), event_id=last)
                    )
                elif collected.has_ended:
                    await writer.write(self._end_event(collected.problem), more=False)
                    return
        finally:
            reading.cancel()

    def _render_rows(self, calls: list[dict[str, Any]], left_out: int) -> str:
        page = self.page
        return template(self.rows, page.language).render(
            root=page.root, calls=calls, left_out=left_out, **self.context()
        )

    def context(self) -> dict[str, Any]:
        """Return what the template of the rows needs besides."""
        return {}

    def _end_event(self, problem: Mapping[str, Any] | None) -> bytes:
        slug = str((problem or {}).get("type", "")).rpartition(":")[2]
        is_temporary = problem is None or slug in _TEMPORARY
        text = (
            self.page.gettext("The connection has ended; connecting again …")
            if is_temporary
            else self.page.gettext("The key or the session is not valid any more. Reload to sign in.")
        )
        end = {"text": text, "again": is_temporary, "reload": slug == _OVERLOADED}
        return server_sent_event("end", exact_json.dumps(end).decode())


async def _collect(response: StreamedResponse, collected: CollectedCalls, event: str) -> None:
    """Add the events of this name of a stream of the API, until it ends."""
    try:
        async for name, event_id, data in sse_events(response):
            if not data:
                collected.subscribe()
            elif name == event:
                collected.add(event_id, data)
            elif name == "gateway-error":
                collected.end(orjson.loads(data))
    finally:
        collected.end()


async def sse_events(parts: AsyncIterator[bytes] | StreamedResponse) -> AsyncIterator[tuple[str, str, bytes]]:
    """Yield name, id and data of server-sent events as the API writes them: one line of data each, and none
    for a heartbeat.
    """
    rest = b""
    async for part in parts:
        *events, rest = (rest + part).split(b"\n\n")
        for event in events:
            fields = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
            name, event_id, data = (fields.get(field, b"") for field in (b"event", b"id", b"data"))
            yield name.decode(), event_id.decode(), data


def server_sent_event(name: str, text: str, *, event_id: str = "") -> bytes:
    """Return an event with a text of any number of lines."""
    head = f"event: {name}\n" + (f"id: {event_id}\n" if event_id else "")
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line)
    return f"{head}{lines}\n".encode()
