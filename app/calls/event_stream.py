"""An answer as events: each as it comes, heartbeats while none does, and a last one that tells the end."""

import asyncio
import contextlib
from typing import Any

from starlette.types import Receive, Scope, Send

from app.calls.connection import Headers, Writer, cancel_when_gone, gone
from app.calls.event_formats import Form
from app.calls.recording import Attempt
from app.deadlines import Timer, Timers
from app.errors import CallerStalled, GatewayError, Stopping
from app.protocols.base import Result


class Streams:
    """What answers in pieces share, and those of a process that go out as events.

    `heartbeat`: seconds of silence before one; `stall`: longest wait for a caller to take a piece. When
    `stopping` is set, every stream of events gets its last event, and one that begins later, at once.
    """

    def __init__(
        self, clock: Timers, stopping: asyncio.Event, *, heartbeat: float = 15.0, stall: float = 60.0
    ) -> None:
        self.clock = clock
        self.stopping = stopping
        self.heartbeat = heartbeat
        self.stall = stall
        self._open: set[EventStream] = set()
        self._waiter: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Streams of events under way."""
        return len(self._open)

    def add(self, stream: "EventStream") -> None:
        """It begins."""
        self._open.add(stream)
        if self._waiter is None:
            self._waiter = self.clock.loop.create_task(self._end_all())

    def discard(self, stream: "EventStream") -> None:
        """It cannot be told to end any more. May be said again."""
        self._open.discard(stream)
        if not self._open and self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None

    def writer(self, send: Send) -> Writer:
        """For one answer."""
        return Writer(send, clock=self.clock, stall=self.stall)

    async def _end_all(self) -> None:
        await self.stopping.wait()
        for stream in tuple(self._open):
            stream.end(Stopping())


class EventStream:
    """An ASGI response of events. Its headers are sent at once; what fails later, the last event tells."""

    status_code = 200

    def __init__(
        self, result: Result, headers: Headers, attempt: Attempt, *, form: Form, streams: Streams
    ) -> None:
        self._result = result
        self.headers = headers
        self._attempt = attempt
        self._form = form
        self._streams = streams
        self._events = self._bytes = 0
        self._task: asyncio.Task[Any] | None = None
        self._cause: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Sends it; raises only what nobody expected, after the last event, so that it is logged."""
        self._task = asyncio.current_task()
        watcher = asyncio.create_task(cancel_when_gone(receive, self._task))
        writer = self._streams.writer(send)
        voice = _Voice(self, writer, self._streams)
        self._streams.add(self)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.headers})
            voice.begin(self._form.heartbeat)
            await self._pass_on(voice)
        except BaseException as caught:  # noqa: BLE001 - told, recorded and, if unexpected, raised again.
            error = writer.at_fault(caught, seconds=self._attempt.seconds())
            await self._failed(error, voice, watcher)
        else:
            self._attempt.settle(upstream_status=self._result.status, response_bytes=writer.sent)
        finally:
            self._streams.discard(self)
            voice.end()
            watcher.cancel()
            await self._result.aclose()

    def end(self, cause: GatewayError) -> None:
        """End at once, with an event that says why."""
        self._cause = self._cause or cause
        if self._task is not None:
            self._task.cancel()

    async def _pass_on(self, voice: "_Voice") -> None:
        if self._streams.stopping.is_set():
            raise Stopping
        if self._result.events is None:
            raise TypeError("An adapter was asked for events and gave none.")
        media_type = self._result.media_type
        async with contextlib.aclosing(self._result.events) as events:
            async for event in events:
                self._events += 1
                self._bytes += len(event.data)
                if self._attempt.bodies is not None:
                    self._attempt.bodies.result.add(event.data)
                await voice.say(self._form.event(event, media_type))
        self._streams.discard(self)
        if self._attempt.durable:
            await self._attempt.conclude(upstream_status=self._result.status, response_bytes=voice.sent)
        seconds = self._attempt.seconds()
        await voice.say(
            self._form.ended({**self._said(), "duration_ms": round(seconds * 1000, 1)}), more=False
        )

    def _said(self) -> dict[str, Any]:
        return {
            "call_id": self._attempt.call_id,
            "upstream_status": self._result.status,
            "events": self._events,
            "bytes": self._bytes,
            **({"masked": True} if self._result.masked else {}),
        }

    async def _failed(self, error: BaseException, voice: "_Voice", watcher: "asyncio.Task[bool]") -> None:
        left = isinstance(error, asyncio.CancelledError) and gone(watcher)
        if isinstance(error, asyncio.CancelledError) and not left and self._cause is not None:
            error = self._cause
            if self._task is not None:
                self._task.uncancel()
        self._streams.discard(self)
        self._attempt.fail(error, response_bytes=voice.sent, upstream_status=self._result.status)
        if left:
            return
        await self._attempt.kept()
        if isinstance(error, Exception) and not isinstance(error, OSError | CallerStalled):
            known = error if isinstance(error, GatewayError) else GatewayError()
            problem = {**known.as_problem(call_id=self._attempt.call_id), **self._said()}
            await voice.say(self._form.failed(problem), more=False)
            if known is error:
                return
        raise error


class _Voice:
    """Says one thing at a time, and a heartbeat when nothing was said for a while."""

    def __init__(self, stream: EventStream, writer: Writer, streams: Streams) -> None:
        self._stream = stream
        self._writer = writer
        self._clock = streams.clock
        self._every = streams.heartbeat
        self._turn = asyncio.Lock()
        self._last = 0.0
        self._timer: Timer | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def sent(self) -> int:
        """Bytes that the server took."""
        return self._writer.sent

    async def say(self, text: bytes, *, more: bool = True) -> None:
        """Waits for its turn, and for the caller."""
        async with self._turn:
            self._last = self._clock.loop.time()
            await self._writer.write(text, more=more)

    def begin(self, heartbeat: bytes) -> None:
        """From now on there are heartbeats."""
        self._last = self._clock.loop.time()

        def ring() -> None:
            now = self._clock.loop.time()
            # While something is being said, it is the caller who is waited for.
            if now >= self._last + self._every - 0.001 and not self._turn.locked():
                self._last = now
                self._beating = self._clock.loop.create_task(self._beat(heartbeat))
            self._timer = self._clock.at(max(self._last + self._every, now + 0.01), ring)

        self._timer = self._clock.at(self._last + self._every, ring)

    def end(self) -> None:
        """No heartbeat comes after this."""
        if self._timer is not None:
            self._timer.cancel()
        if self._beating is not None:
            self._beating.cancel()

    async def _beat(self, heartbeat: bytes) -> None:
        try:
            await self.say(heartbeat)
        except CallerStalled as stalled:
            self._stream.end(stalled)
        except OSError:
            # The connection is gone, which its own watcher tells.
            return
