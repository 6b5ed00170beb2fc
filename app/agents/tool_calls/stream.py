"""The results of a batch as events, each as soon as its call has ended; the whole response is the last."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.types import Receive, Scope, Send

from app.agents.tool_calls.answers import result_part
from app.agents.tool_calls.model import CallAnswer, Intake, JsonObject
from app.agents.tool_calls.runner import CallBatch
from app.api.streams.connection import ResponseWriter, until_disconnected
from app.api.streams.event_writer import EventWriter
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.response.streams import StreamRegistry
from app.core import exact_json
from app.core.errors import ClientTimeout, GatewayError, Stopping
from app.core.media_types import parse_accept
from app.core.telemetry.unexpected import log_unexpected_error
from app.outbound.framing import JSON_LINES_MEDIA_TYPES, SSE_MEDIA_TYPE

Body = Callable[[Intake, list[CallAnswer]], JsonObject]
RESULT: Final = "result"
END: Final = "end"
ERROR: Final = "error"


class AnswerStream:
    """An ASGI response of events: `result` for each call, then `end` with the whole response, or `error`.

    They are server-sent events, or lines of JSON for a client that accepts only these.
    """

    status_code = 200

    def __init__(
        self, batch: CallBatch, intake: Intake, body: Body, streams: StreamRegistry, *, accept: str
    ) -> None:
        self._batch = batch
        self._intake = intake
        self._body = body
        self._streams = streams
        self._lines = _lines_media_type(accept)
        self._task: asyncio.Task[Any] | None = None
        self._cause: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the events; a client that disconnects cancels the calls that still run."""
        streams = self._streams
        self._task = asyncio.current_task()
        writer = EventWriter(self, ResponseWriter(send, clock=streams.clock, stall=streams.stall), streams)
        media = self._lines or SSE_MEDIA_TYPE
        headers = [(b"content-type", media.encode()), (b"cache-control", b"no-store")]
        streams.add(self)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock, after=0):
                await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
                writer.begin(b"\n" if self._lines else b": heartbeat\n\n")
                await self._forward(writer)
        except ClientDisconnected:
            pass
        except BaseException as error:  # noqa: BLE001 - sent as the last event, or raised again.
            await self._failed(error, writer)
        finally:
            streams.discard(self)
            writer.end()

    def end(self, cause: GatewayError) -> None:
        """End the response at once, with `cause` as its last event."""
        self._cause = self._cause or cause
        if self._task is not None:
            self._task.cancel()

    async def _forward(self, writer: EventWriter) -> None:
        if self._streams.stopping.is_set():
            raise Stopping
        answers: list[CallAnswer] = []
        async with contextlib.aclosing(self._batch.as_completed()) as completed:
            async for answer in completed:
                answers.append(answer)
                facts = answer.as_json()
                if not answer.repeats:
                    facts["message"] = result_part(self._intake.dialect, answer)
                await writer.write(self._event(RESULT, facts))
        self._streams.discard(self)
        answers.sort(key=lambda answer: answer.call.index)
        await writer.write(self._event(END, self._body(self._intake, answers)), more=False)

    async def _failed(self, error: BaseException, writer: EventWriter) -> None:
        if isinstance(error, asyncio.CancelledError):
            if self._cause is None:
                raise error
            error = self._cause
            if self._task is not None:
                self._task.uncancel()
        if isinstance(error, ClientTimeout | OSError):
            raise error
        if not isinstance(error, Exception):
            raise error
        known = error if isinstance(error, GatewayError) else log_unexpected_error(error)
        await writer.write(self._event(ERROR, known.as_problem()), more=False)

    def _event(self, name: str, facts: JsonObject) -> bytes:
        # Messages have JSON of upstreams as it came.
        text = exact_json.on_one_line(exact_json.dumps({name: facts} if self._lines else facts))
        return text + b"\n" if self._lines else b"event: " + name.encode() + b"\ndata: " + text + b"\n\n"


def _lines_media_type(accept: str) -> str:
    """Return the media type of lines of JSON that an Accept header names, "" where events are sent as SSE."""
    named = [media_range.essence for media_range in parse_accept(accept) if media_range.weight > 0]
    if SSE_MEDIA_TYPE in named:
        return ""
    return next((media for media in named if media in JSON_LINES_MEDIA_TYPES), "")
