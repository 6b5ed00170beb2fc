"""A response as events: each as it comes, heartbeats while none does, and a last one that tells the end."""

import asyncio
import contextlib
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from app.call_api.connection import Headers, ResponseWriter, until_disconnected
from app.call_api.event_formats import EventFormat
from app.calls import CallOutcome, ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.streams import StreamRegistry
from app.deadlines import Timer
from app.errors import ClientTimeout, GatewayError, Stopping
from app.protocols.base import Result


class EventStreamResponse:
    """An ASGI response of events. Its headers are sent at once; what fails later, the last event tells."""

    status_code = 200

    def __init__(
        self,
        result: Result,
        headers: Headers,
        outcome: CallOutcome,
        *,
        event_format: EventFormat,
        streams: StreamRegistry,
    ) -> None:
        self._result = result
        self.headers = headers
        self._outcome = outcome
        self._format = event_format
        self._streams = streams
        self._events = self._bytes = 0
        self._task: asyncio.Task[Any] | None = None
        self._cause: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the response; raise only what nobody expected, after the last event, so that it is logged."""
        streams = self._streams
        self._task = asyncio.current_task()
        output = ResponseWriter(send, clock=streams.clock, stall=streams.stall)
        writer = _EventWriter(self, output, streams)
        streams.add(self)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock) as watch:
                watch.begin(after=0)
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.headers}
                )
                writer.begin(self._format.heartbeat)
                await self._pass_on(writer)
        except BaseException as caught:  # noqa: BLE001 - told, recorded and, if unexpected, raised again.
            await self._failed(output.attribute(caught, seconds=self._outcome.seconds()), writer)
        else:
            self._outcome.complete(upstream_status=self._result.status, response_bytes=output.sent)
        finally:
            streams.discard(self)
            writer.end()
            await self._result.aclose()

    def end(self, cause: GatewayError) -> None:
        """End at once, with an event that says why."""
        self._cause = self._cause or cause
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self, writer: "_EventWriter") -> None:
        if self._streams.stopping.is_set():
            raise Stopping
        if self._result.events is None:
            raise TypeError("The result has no events.")
        outcome = self._outcome
        media_type = self._result.media_type
        async with contextlib.aclosing(self._result.events) as events:
            async for event in events:
                self._events += 1
                self._bytes += len(event.data)
                outcome.add_result(event.data)
                await writer.write(self._format.event(event, media_type))
        self._streams.discard(self)
        if outcome.durable:
            await outcome.conclude(upstream_status=self._result.status, response_bytes=writer.sent)
        duration = round(outcome.seconds() * 1000, 1)
        await writer.write(self._format.ended({**self._facts(), "duration_ms": duration}), more=False)

    def _facts(self) -> dict[str, Any]:
        return {
            "call_id": self._outcome.call_id,
            "upstream_status": self._result.status,
            "events": self._events,
            "bytes": self._bytes,
            **({"masked": True} if self._result.is_masked else {}),
        }

    async def _failed(self, error: BaseException, writer: "_EventWriter") -> None:
        if isinstance(error, asyncio.CancelledError) and self._cause is not None:
            error = self._cause
            if self._task is not None:
                self._task.uncancel()
        self._streams.discard(self)
        await self._outcome.fail(error, response_bytes=writer.sent, upstream_status=self._result.status)
        if isinstance(error, ClientDisconnected):
            return
        if isinstance(error, Exception) and not isinstance(error, OSError | ClientTimeout):
            known = error if isinstance(error, GatewayError) else GatewayError()
            problem = {**known.as_problem(call_id=self._outcome.call_id), **self._facts()}
            await writer.write(self._format.failed(problem), more=False)
            if known is error:
                return
        raise error


class _EventWriter:
    """Writes one event at a time, and a heartbeat when nothing was written for a while."""

    def __init__(self, stream: EventStreamResponse, writer: ResponseWriter, streams: StreamRegistry) -> None:
        self._stream = stream
        self._writer = writer
        self._clock = streams.clock
        self._interval = streams.heartbeat
        self._lock = asyncio.Lock()
        self._last = 0.0
        self._timer: Timer | None = None
        self._sending: asyncio.Task[None] | None = None

    @property
    def sent(self) -> int:
        """Bytes that the server took."""
        return self._writer.sent

    async def write(self, text: bytes, *, more: bool = True) -> None:
        """Write an event once those before it are written and the client takes it."""
        async with self._lock:
            self._last = self._clock.loop.time()
            await self._writer.write(text, more=more)

    def begin(self, heartbeat: bytes) -> None:
        """Send heartbeats from now on."""
        self._last = self._clock.loop.time()

        def ring() -> None:
            now = self._clock.loop.time()
            # While something is being written, it is the client who is waited for.
            if now >= self._last + self._interval - 0.001 and not self._lock.locked():
                self._last = now
                self._sending = self._clock.loop.create_task(self._send_heartbeat(heartbeat))
            self._timer = self._clock.call_at(max(self._last + self._interval, now + 0.01), ring)

        self._timer = self._clock.call_at(self._last + self._interval, ring)

    def end(self) -> None:
        """Send no heartbeat any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def _send_heartbeat(self, heartbeat: bytes) -> None:
        try:
            await self.write(heartbeat)
        except ClientTimeout as stalled:
            self._stream.end(stalled)
        except OSError:
            # The connection is gone, which its own watch tells.
            return
