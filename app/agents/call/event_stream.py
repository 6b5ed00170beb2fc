"""A response as events: each as it arrives, heartbeats meanwhile, and a last one that reports the outcome."""

import asyncio
import contextlib
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from app.api.streams.connection import Headers, ResponseWriter, until_disconnected
from app.api.streams.event_formats import EventFormat
from app.api.streams.event_writer import EventWriter
from app.calls import CallContext, ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.response.streams import StreamRegistry
from app.core.errors import ClientTimeout, GatewayError, Stopping
from app.protocols.base import Result
from app.security.lasting_rights import RightCheck, run_while_permitted


class EventStreamResponse:
    """An ASGI response of events. Its headers are sent at once; a later failure is in the last event."""

    status_code = 200

    def __init__(
        self,
        result: Result,
        headers: Headers,
        outcome: CallContext,
        *,
        event_format: EventFormat,
        streams: StreamRegistry,
        check: RightCheck,
    ) -> None:
        self._result = result
        self.headers = headers
        self._outcome = outcome
        self._format = event_format
        self._streams = streams
        self._check = check
        self._events = self._bytes = 0
        self._task: asyncio.Task[Any] | None = None
        self._cause: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI.
        """Send the response; raise an unexpected error again after the last event, so that it is logged."""
        streams = self._streams
        self._task = asyncio.current_task()
        output = ResponseWriter(send, clock=streams.clock, stall=streams.stall)
        writer = EventWriter(self, output, streams)
        streams.add(self)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock, after=0):
                await send(
                    {"type": "http.response.start", "status": self.status_code, "headers": self.headers}
                )
                writer.begin(self._format.heartbeat)
                await run_while_permitted(self._send_all(writer, output), self._check)
        except BaseException as caught:  # noqa: BLE001 - sent, recorded and, if unexpected, raised again.
            await self._failed(output.attribute(caught, seconds=self._outcome.seconds()), writer)
        finally:
            streams.discard(self)
            writer.end()
            await self._result.aclose()

    def end(self, cause: GatewayError) -> None:
        """End the response at once, with `cause` as its last event."""
        self._cause = self._cause or cause
        if self._task is not None:
            self._task.cancel()

    async def _send_all(self, writer: EventWriter, output: ResponseWriter) -> None:
        """Forward the events, and record the call before anything else runs: its client may look for it."""
        await self._forward(writer)
        self._outcome.complete(upstream_status=self._result.status, response_bytes=output.sent)

    async def _forward(self, writer: EventWriter) -> None:
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
        await writer.write(self._format.ended({**self._statistics(), "duration_ms": duration}), more=False)

    def _statistics(self) -> dict[str, Any]:
        return {
            "call_id": self._outcome.call_id,
            "upstream_status": self._result.status,
            "events": self._events,
            "bytes": self._bytes,
            **({"masked": True} if self._result.is_masked else {}),
        }

    async def _failed(self, error: BaseException, writer: EventWriter) -> None:
        if isinstance(error, asyncio.CancelledError) and self._cause is not None:
            error = self._cause
            if self._task is not None:
                self._task.uncancel()
        self._streams.discard(self)
        await self._outcome.conclude_failed(
            error, response_bytes=writer.sent, upstream_status=self._result.status
        )
        if isinstance(error, ClientDisconnected):
            return
        if isinstance(error, Exception) and not isinstance(error, OSError | ClientTimeout):
            known = error if isinstance(error, GatewayError) else GatewayError()
            problem = {**known.as_problem(call_id=self._outcome.call_id), **self._statistics()}
            last = self._format.failed(problem)
            if last is not None:
                await writer.write(last, more=False)
                if known is error:
                    return
        raise error
