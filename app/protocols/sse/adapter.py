"""Server-sent events (WHATWG HTML section 9.2): UTCP's `sse`.

A call with an argument for `body_field` is a POST, any other a GET. The response is the whole stream; one
that breaks is resumed after its last event (`Last-Event-ID`), unless the call had a body or `reconnect` is
false.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from app.core.errors import UpstreamError, UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from app.core.media_types import parse_essence
from app.formats.utcp.call_template import compile_template
from app.outbound.framing import SSE_MEDIA_TYPE, SseParser, StreamEvent
from app.outbound.response import OutboundResponse
from app.protocols.base import Call, Discovered, Result
from app.protocols.requests.plan_compiler import ArgumentPlan, PreparedRequest, compile_plan
from app.protocols.shared.http_based import HttpBasedAdapter
from app.protocols.shared.results import event_result
from app.protocols.sse.template import SseTemplate

_ACCEPT: Final = ("Accept", SSE_MEDIA_TYPE)
_DOCUMENTS: Final = ("Accept", "application/json, application/yaml;q=0.9, */*;q=0.5")
_MAX_BACKOFF: Final = 60.0
_MAX_FAILED_RECONNECTS: Final = 5


@dataclass(frozen=True, slots=True)
class SseTarget:
    """A compiled template.

    `post` is for calls with a body; `event_type` None stands for all types; `backoff` is in seconds.
    """

    get: ArgumentPlan
    post: ArgumentPlan | None
    body_field: str | None
    event_type: str | None
    reconnect: bool
    backoff: float


@dataclass(slots=True)
class _EventSubscription:
    """A stream that may be resumed; `backoff` is in seconds."""

    prepared: PreparedRequest
    is_resumable: bool
    backoff: float
    response: OutboundResponse
    last_id: str = ""
    failed_reconnects: int = 0
    """Consecutive connections that failed, or broke without an event after the last one."""
    has_events: bool = False

    def close(self) -> None:
        """Close the connection."""
        self.response.close()

    def resume_request(self) -> PreparedRequest:
        """Return the request that resumes the stream after the last event."""
        if not self.last_id:
            return self.prepared
        other_headers = [pair for pair in self.prepared.headers if pair[0].lower() != "last-event-id"]
        return self.prepared._replace(headers=[*other_headers, ("Last-Event-ID", self.last_id)])


class SseAdapter(HttpBasedAdapter):
    """The adapter for calls whose response is an event stream."""

    name: ClassVar[str] = "sse"
    keeps_digits: ClassVar[bool] = True

    def prepare(self, template: Mapping[str, Any]) -> SseTarget:
        """Compile a template of `call_template_type` sse; raise InvalidInput."""
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
        """Return the origin of the URL."""
        return target.get.origin

    def is_safe(self, target: SseTarget) -> bool:
        """Return whether every call is a GET."""
        return target.post is None

    def is_idempotent(self, target: SseTarget) -> bool:
        """Return whether every call is a GET."""
        return target.post is None

    def request_identity(self, call: Call[SseTarget]) -> None:  # noqa: ARG002 - the contract's.
        """Return None: streams are not cached."""
        return

    def method(self, target: SseTarget) -> str:
        """Return POST where a call may have a body, else GET."""
        return "GET" if target.post is None else "POST"

    async def discover(self, call: Call[SseTarget]) -> Discovered:
        """Return the document at the URL, by a GET that does not accept events."""
        target = call.target
        prepared = target.get.prepare({})
        return await self.fetch_document(prepared._replace(headers=[*prepared.headers, _DOCUMENTS]), call)

    async def call(self, call: Call[SseTarget]) -> Result:
        """Subscribe, and return once the upstream has responded with an event stream.

        Raise UpstreamMalformed for another media type, and what `HttpAdapter.call` raises.
        """
        target = call.target
        prepared = self._prepare(call)
        response = await self._subscribe(prepared, call)
        subscription = _EventSubscription(
            prepared, target.reconnect and prepared.body is None, target.backoff, response
        )
        events = self._events(subscription, call)
        result = await event_result(events, call, close=subscription.close)
        result.status, result.headers = response.status, self.response_headers(response)
        if call.stream_deadline is not None:
            result.media_type = SSE_MEDIA_TYPE
        return result

    def describe(self, call: Call[SseTarget]) -> dict[str, Any]:
        """Return the request as JSON, secrets masked as `***`."""
        return self.describe_request(self._prepare(call), call)

    def _prepare(self, call: Call[SseTarget]) -> PreparedRequest:
        target = call.target
        arguments = dict(call.arguments)
        plan = target.get
        if target.post is not None and target.body_field is not None:
            if arguments.get(target.body_field) is not None:
                plan = target.post
            else:
                arguments.pop(target.body_field, None)
        prepared: PreparedRequest = plan.prepare(arguments)
        return prepared._replace(headers=[*prepared.headers, _ACCEPT])

    async def _subscribe(self, prepared: PreparedRequest, call: Call[SseTarget]) -> OutboundResponse:
        response = await self.send(prepared, call)
        if not 200 <= response.status < 300:
            raise await self.rejection(response, call)
        media = parse_essence(response.headers.get("Content-Type", ""))
        if media != SSE_MEDIA_TYPE and response.status != 204:
            # 204 means that the client is not to reconnect (WHATWG HTML section 9.2.3).
            response.close()
            raise UpstreamMalformed("The upstream did not respond with an event stream.")
        response.set_deadline(call.deadline if call.stream_deadline is None else call.stream_deadline)
        return response

    async def _events(
        self, subscription: _EventSubscription, call: Call[SseTarget]
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the template's `event_type`; resume a broken stream, else raise its error."""
        event_type = call.target.event_type
        try:
            while True:
                try:
                    async with contextlib.aclosing(_parse(subscription, call)) as events:
                        async for event in events:
                            if event_type is None or (event.name or "message") == event_type:
                                yield event
                except (UpstreamUnreachable, UpstreamMalformed) as error:
                    if not subscription.is_resumable:
                        raise
                    await self._reconnect(subscription, call, error)
                else:
                    return
        except UpstreamError as error:
            error.response_begun = subscription.has_events
            raise
        finally:
            subscription.close()

    async def _reconnect(
        self, subscription: _EventSubscription, call: Call[SseTarget], last_error: UpstreamError
    ) -> None:
        """Connect again; raise the last error after 5 failed attempts or at the deadline.

        A server that restarts refuses connections or responds with 5xx: such attempts have failed, too.
        """
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
            except UpstreamError as error:
                if not _is_temporary(error):
                    raise
                last_error = error
                continue
            response.set_deadline(deadline)
            subscription.response = response
            return


def _is_temporary(error: UpstreamError) -> bool:
    """Return whether a connection that failed like this may succeed later."""
    if error.response is not None:
        return error.response.status >= 500 or error.response.status in (408, 429)
    return isinstance(error, (UpstreamUnreachable, UpstreamMalformed, UpstreamTimeout))


async def _parse(
    subscription: _EventSubscription, call: Call[SseTarget]
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of one connection; store their `id` and `retry` for resuming."""
    limits = call.limits
    max_bytes = limits.response_bytes if call.stream_deadline is None else limits.event_bytes
    parser = SseParser(max_bytes)
    async for piece in subscription.response.iterate(limits.response_bytes):
        for event in parser.feed(piece):
            subscription.has_events = True
            if event.id is None or event.id != subscription.last_id:
                # A server that sends the same event on each connection is not one that resumes.
                subscription.failed_reconnects = 0
            if event.id is not None and event.id.isprintable():
                subscription.last_id = event.id if event.id.isascii() else ""
            if event.retry is not None:
                subscription.backoff = event.retry / 1000
            yield event
