"""UTCP's `websocket`: a connection for each call, one message as the request, messages as the response.

Connections are not shared: messages have no ids, so that responses could not be matched to calls.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from app.core import exact_json
from app.core.errors import (
    CredentialMissing,
    FieldError,
    InvalidInput,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
)
from app.core.text import pointer
from app.formats.utcp.call_template import compile_template
from app.formats.utcp.headers import HEADER_NAME
from app.formats.utcp.paths import compile_url
from app.outbound.attach import attach, sign_upgrade
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.framing import StreamEvent
from app.protocols.base import AdapterContext, Call, ChecksUpstream, Discovered, Result
from app.protocols.requests.plan_compiler import ArgumentPlan, compile_plan_without_body
from app.protocols.shared.described import describe_headers, describe_message
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.messages import DISCOVERY
from app.protocols.shared.origins import WEBSOCKET_SCHEMES
from app.protocols.shared.results import JSON, body_result, check_size, event_result
from app.protocols.shared.websocket_client import Upgrade, WebSocket
from app.protocols.websocket.messages import (
    build_message,
    message_event,
    message_value,
    object_members,
    single_response,
)
from app.protocols.websocket.record import origin_of
from app.protocols.websocket.template import WebsocketTemplate

_OWN_HEADER_PREFIX: Final = "sec-websocket-"
_ERROR_BODY: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class WebsocketTarget:
    """A compiled template. `placed` are the arguments that go into the URL and headers of the upgrade."""

    model: WebsocketTemplate
    origin: str
    plan: ArgumentPlan
    placed: frozenset[str]
    subprotocols: tuple[str, ...]


class WebsocketAdapter(UnknownEffects, ChecksUpstream):
    """The adapter for calls over WebSocket."""

    name: ClassVar[str] = "websocket"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker

    def is_sent_once(self, target: WebsocketTarget) -> bool:  # noqa: ARG002 - the contract's.
        """Return False: the upgrade, of which each call has one, has the headers of the call."""
        return False

    async def aclose(self) -> None:
        """Do nothing: a connection ends with its call."""

    def prepare(self, template: Mapping[str, Any]) -> WebsocketTarget:
        """Compile a template of `call_template_type` websocket; raise InvalidInput."""
        model = compile_template(template, WebsocketTemplate)
        _reject_own_headers(model)
        subprotocols = _subprotocols(model.protocol)
        url = compile_url(model.url, schemes=WEBSOCKET_SCHEMES)
        plan, placed = compile_plan_without_body(
            url, method="GET", headers=model.headers, header_fields=model.header_fields
        )
        return WebsocketTarget(model, origin_of(template), plan, placed, subprotocols)

    def origin(self, target: WebsocketTarget) -> str:
        """Return `wss://host[:port]`."""
        return target.origin

    def method(self, target: WebsocketTarget) -> str:  # noqa: ARG002 - all are the same.
        """Return `SEND`."""
        return "SEND"

    async def call(self, call: Call[WebsocketTarget]) -> Result:
        """Send the message and return the response.

        Where the call takes events, these are all messages until the peer closes the connection; else the
        response is the template's number of `responses`: one as it is, several as a list. Raise what
        `WebSocket` raises.
        """
        model: WebsocketTemplate = call.target.model
        message = build_message(model, call.target.placed, call)
        socket, deadline = await self._open_and_send(call, message)
        if call.stream_deadline is not None:
            return await event_result(
                self._events(socket, call, call.stream_deadline), call, close=socket.close
            )
        try:
            return await self._collect(socket, call, model, deadline)
        finally:
            socket.close()

    async def discover(self, call: Call[WebsocketTarget]) -> Discovered:
        """Return the manual, requested by `{"type": "utcp"}`: the first message that has `tools`."""
        socket, deadline = await self._open_and_send(call, DISCOVERY.decode())
        size = 0
        try:
            while True:
                message = await socket.receive(deadline=deadline, idle=call.limits.idle)
                if message is None:
                    raise UpstreamMalformed("The upstream closed the connection without a manual.")
                size += len(message)
                check_size(size, call.limits.response_bytes)
                raw = message.encode() if isinstance(message, str) else message
                if "tools" in object_members(raw):
                    return Discovered(raw=raw, media_type=JSON, url=call.target.origin)
        finally:
            socket.close()

    async def check(self, call: Call[WebsocketTarget]) -> None:
        """Open a connection (RFC 6455 section 4) and close it; send no message."""
        socket, _ = await self._open(call)
        socket.close()

    def describe(self, call: Call[WebsocketTarget]) -> dict[str, Any]:
        """Return the upgrade and the message as JSON, secrets masked as `***`."""
        url, headers = self._upgrade_head(call, masked=True)
        body = build_message(call.target.model, call.target.placed, call, masked=True)
        return {
            "method": "GET",
            "url": url,
            "headers": describe_headers(headers),
            "body": describe_message(body),
        }

    def _upgrade_head(
        self, call: Call[WebsocketTarget], *, masked: bool = False
    ) -> tuple[str, list[tuple[str, str]]]:
        """Return the URL and headers of the upgrade, credentials last."""
        target = call.target
        placed_arguments = {name: value for name, value in call.arguments.items() if name in target.placed}
        request = target.plan.prepare(placed_arguments)
        present = {name.lower() for name, _ in request.headers}
        # Accept has no meaning in an upgrade.
        more = [pair for pair in call.headers if pair[0].lower() not in present | {"accept"}]
        url, headers = attach(
            request.url, [*request.headers, *more], call.credentials, masked=masked, signs=True
        )
        if not masked:
            url, headers = sign_upgrade(url, headers, call.credentials)
        for name, _ in headers:
            if name.lower().startswith(_OWN_HEADER_PREFIX):
                raise CredentialMissing(f"A credential cannot be sent as the header {name} of an upgrade.")
        return url, headers

    async def _open_and_send(self, call: Call[WebsocketTarget], message: str) -> tuple["WebSocket", float]:
        """Open a connection and send the message; return the connection and the deadline of the response."""
        socket, deadline = await self._open(call)
        now = asyncio.get_running_loop().time()
        try:
            await socket.send(message, deadline=min(deadline, now + call.limits.first_byte))
        except BaseException:
            socket.close()
            raise
        return socket, deadline

    async def _open(self, call: Call[WebsocketTarget]) -> tuple["WebSocket", float]:
        """Open a connection; return it, and the deadline of a response."""
        target = call.target
        limits = call.limits
        now = asyncio.get_running_loop().time()
        deadline = min(call.deadline, now + target.model.timeout)
        url, headers = self._upgrade_head(call)
        first_byte_deadline = min(deadline, now + limits.first_byte)
        socket = await WebSocket.open(
            Upgrade(
                url=url,
                headers=headers,
                max_message_bytes=limits.response_bytes
                if call.stream_deadline is None
                else limits.event_bytes,
                subprotocols=target.subprotocols,
                keep_alive=target.model.keep_alive,
            ),
            network=self._network,
            egress=call.egress,
            masker=self._masker,
            connect_deadline=min(first_byte_deadline, now + limits.connect),
            deadline=first_byte_deadline,
        )
        return socket, deadline

    async def _collect(
        self, socket: "WebSocket", call: Call[WebsocketTarget], model: WebsocketTemplate, deadline: float
    ) -> Result:
        values: list[bytes] = []
        size = 0
        while len(values) < model.responses:
            message = await socket.receive(deadline=deadline, idle=call.limits.idle)
            if message is None:
                break
            if model.responses == 1:
                return single_response(message, model, call)
            values.append(message_value(message, model))
            size += len(values[-1]) + 1
            check_size(size, call.limits.response_bytes)
        if not values:
            raise UpstreamMalformed("The upstream closed the connection without a response.")
        return body_result(b"[" + b",".join(values) + b"]", JSON, call)

    async def _events(
        self, socket: "WebSocket", call: Call[WebsocketTarget], deadline: float
    ) -> AsyncGenerator[StreamEvent, None]:
        """Yield messages until the peer closes; unwrap those of UTCP's own stream protocol."""
        try:
            while True:
                message = await socket.receive(deadline=deadline, idle=call.limits.idle)
                if message is None:
                    return
                envelope = object_members(message) if isinstance(message, str) else {}
                match envelope.get("type") if not envelope.get("request_id") else None:
                    case "stream_end":
                        return
                    case "tool_response":
                        yield StreamEvent(exact_json.dumps(envelope.get("result")), "json")
                    case "tool_error":
                        raise self._stream_error(envelope.get("error"))
                    case _:
                        yield message_event(message, call.target.model)
        finally:
            socket.close()

    def _stream_error(self, error: Any) -> UpstreamRejected:
        raw = exact_json.dumps(error)
        body = sanitize_error_body(raw, JSON, masker=self._masker, limit=_ERROR_BODY, complete=True)
        error_response = UpstreamErrorResponse(status=422, body=body)
        return UpstreamRejected("The upstream ended its stream with an error.", response=error_response)


def _subprotocols(text: str | None) -> tuple[str, ...]:
    """Return the subprotocols (RFC 6455 section 1.9) of a comma-separated list; raise InvalidInput."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if not all(HEADER_NAME.fullmatch(name) for name in names):
        field_error = FieldError(
            "/protocol", "Give the name of a subprotocol: letters, digits, dots and dashes."
        )
        raise InvalidInput("The subprotocol cannot be requested.", errors=[field_error])
    return names


def _reject_own_headers(model: WebsocketTemplate) -> None:
    declared = [
        *((name, pointer("/headers", name)) for name in model.headers),
        *((name, pointer("/header_fields", index)) for index, name in enumerate(model.header_fields)),
    ]
    for name, at in declared:
        if name.lower().startswith(_OWN_HEADER_PREFIX):
            field_error = FieldError(
                at, "The upgrade sets this header itself; `protocol` names a subprotocol."
            )
            raise InvalidInput("A header of the call template cannot be sent.", errors=[field_error])
