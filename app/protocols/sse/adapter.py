"""Server-sent events (WHATWG HTML section 9.2): UTCP's `sse`.

A call with an argument for `body_field` is a POST, any other a GET. A stream that ends is the answer; one
that breaks is taken up again where it broke (`Last-Event-ID`), unless the call had a body or `reconnect` is
false.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from app.errors import UpstreamError, UpstreamMalformed, UpstreamUnreachable
from app.http_requests.plan_compiler import ArgumentPlan, PreparedRequest, compile_plan
from app.outbound.framing import SSE_MEDIA_TYPE, SseParser, StreamEvent
from app.outbound.response import OutboundResponse
from app.protocols.base import Call, Discovered, Result
from app.protocols.shared.http_based import HttpBasedAdapter
from app.protocols.shared.results import event_result
from app.protocols.sse.template import SseTemplate
from app.utcp.call_template import compile_template

_ACCEPT: Final = ("Accept", SSE_MEDIA_TYPE)
_DOCUMENTS: Final = ("Accept", "application/json, application/yaml;q=0.9, */*;q=0.5")
_MAX_BACKOFF: Final = 60.0
_MAX_FAILED_RECONNECTS: Final = 5


@dataclass(frozen=True, slots=True)
class SseTarget:
    """`post` is for calls with a body; `event_type` None takes every event; `backoff` in seconds."""

    get: ArgumentPlan
    post: ArgumentPlan | None
    body_field: str | None
    event_type: str | None
    reconnect: bool
    backoff: float


@dataclass(slots=True)
class _Subscription:
    """A stream that may be taken up again."""

    prepared: PreparedRequest
    is_resumable: bool
    backoff: float
    response: OutboundResponse
    last_id: str = ""
    failed_reconnects: int = 0
    """Times in a row that it broke without an event."""

    def close(self) -> None:
        """Ends the connection."""
        self.response.close()

    def resume_request(self) -> PreparedRequest:
        """The request that goes on after the last event."""
        if not self.last_id:
            return self.prepared
        other_headers = [pair for pair in self.prepared.headers if pair[0].lower() != "last-event-id"]
        return self.prepared._replace(headers=[*other_headers, ("Last-Event-ID", self.last_id)])


class SseAdapter(HttpBasedAdapter):
    """Calls whose answer is an event stream."""

    name: ClassVar[str] = "sse"

    def prepare(self, template: Mapping[str, Any]) -> SseTarget:
        """Compile a template of `call_template_type` sse; raises InvalidInput."""
        sse = compile_template(template, SseTemplate)
        plain = {name: value for name, value in sse.headers.items() if name.lower() != "accept"}
        fields: dict[str, Any] = {
            "url": sse.url, "headers": plain, "header_fields": sse.header_fields, "body_field": None,
        }  # fmt: skip
        with_body = {**fields, "http_method": "POST", "body_field": sse.body_field}
        return SseTarget(
            get=compile_plan(fields),
            post=None if sse.body_field is None else compile_plan(with_body),
            body_field=sse.body_field,
            event_type=sse.event_type,
            reconnect=sse.reconnect,
            backoff=sse.retry_timeout / 1000,
        )

    def origin(self, target: SseTarget) -> str:
        """That of the URL."""
        return target.get.origin

    def is_safe(self, target: SseTarget) -> bool:
        """Whether every call is a GET."""
        return target.post is None

    def is_idempotent(self, target: SseTarget) -> bool:
        """As `is_safe`."""
        return target.post is None

    def request_identity(self, call: Call) -> None:  # noqa: ARG002 - the contract's.
        """Streams are not kept for other calls."""
        return

    def method(self, target: SseTarget) -> str:
        """The method."""
        return "GET" if target.post is None else "POST"

    async def discover(self, call: Call) -> Discovered:
        """The document at the URL, which a GET that does not ask for events gives."""
        target: SseTarget = call.target
        prepared = target.get.prepare({})
        return await self.fetch_document(prepared._replace(headers=[*prepared.headers, _DOCUMENTS]), call)

    async def call(self, call: Call) -> Result:
        """Subscribe. The answer has begun when the upstream has said that events will come."""
        target: SseTarget = call.target
        prepared = self._prepare(call)
        response = await self._subscribe(prepared, call)
        subscription = _Subscription(
            prepared, target.reconnect and prepared.body is None, target.backoff, response
        )
        events = self._events(subscription, call)
        result = await event_result(events, call, close=subscription.close)
        result.status, result.headers = response.status, self.response_headers(response)
        if call.stream_deadline is not None:
            result.media_type = SSE_MEDIA_TYPE
        return result

    def describe(self, call: Call) -> dict[str, Any]:
        """The request as JSON."""
        return self.describe_request(self._prepare(call), call)

    def _prepare(self, call: Call) -> PreparedRequest:
        target: SseTarget = call.target
        arguments = dict(call.arguments)
        plan = target.get
        if target.post is not None and target.body_field is not None:
            if arguments.get(target.body_field) is not None:
                plan = target.post
            else:
                arguments.pop(target.body_field, None)
        prepared: PreparedRequest = plan.prepare(arguments)
        return prepared._replace(headers=[*prepared.headers, _ACCEPT])

    async def _subscribe(self, prepared: PreparedRequest, call: Call) -> OutboundResponse:
        response = await self.send(prepared, call)
        if not 200 <= response.status < 300:
            raise await self.rejection(response, call)
        media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media != SSE_MEDIA_TYPE and response.status != 204:
            # 204 says that nothing more will come (WHATWG HTML section 9.2.3).
            response.close()
            raise UpstreamMalformed("The upstream did not answer with an event stream.")
        response.set_deadline(call.deadline if call.stream_deadline is None else call.stream_deadline)
        return response

    async def _events(self, subscription: _Subscription, call: Call) -> AsyncGenerator[StreamEvent, None]:
        """The events that count. A broken stream is taken up again; what then fails is raised."""
        event_type = call.target.event_type
        try:
            while True:
                try:
                    async with contextlib.aclosing(_parse(subscription, call)) as events:
                        async for event in events:
                            if event_type is None or (event.name or "message") == event_type:
                                yield event
                except (UpstreamUnreachable, UpstreamMalformed) as error:
                    if not subscription.is_resumable or not await self._reconnect(subscription, call, error):
                        raise
                else:
                    return
        finally:
            subscription.close()

    async def _reconnect(self, subscription: _Subscription, call: Call, last_error: UpstreamError) -> bool:
        """Whether there is a new connection. Raises what refused it, or the last loss."""
        loop = asyncio.get_running_loop()
        deadline = call.deadline if call.stream_deadline is None else call.stream_deadline
        while True:
            subscription.failed_reconnects += 1
            backoff = min(subscription.backoff, _MAX_BACKOFF)
            if subscription.failed_reconnects > _MAX_FAILED_RECONNECTS or loop.time() + backoff >= deadline:
                raise last_error
            await asyncio.sleep(backoff)
            reconnect_call = replace(call, deadline=min(deadline, loop.time() + call.limits.first_byte))
            try:
                response = await self._subscribe(subscription.resume_request(), reconnect_call)
            except (UpstreamUnreachable, UpstreamMalformed) as error:
                last_error = error
                continue
            response.set_deadline(deadline)
            subscription.response = response
            return True


async def _parse(subscription: _Subscription, call: Call) -> AsyncGenerator[StreamEvent, None]:
    """The events of one connection; what they say of resuming is remembered."""
    limits = call.limits
    max_bytes = limits.response_bytes if call.stream_deadline is None else limits.event_bytes
    parser = SseParser(max_bytes)
    async for piece in subscription.response.iterate(limits.response_bytes):
        for event in parser.feed(piece):
            subscription.failed_reconnects = 0
            if event.id is not None and event.id.isprintable():
                subscription.last_id = event.id if event.id.isascii() else ""
            if event.retry is not None:
                subscription.backoff = event.retry / 1000
            yield event
