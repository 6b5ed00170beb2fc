"""UTCP's `websocket`: a connection for each call, one message to ask, and messages that answer.

Connections are not shared: messages have no ids, so that nobody could tell whose answer one is.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson

from app.errors import (
    CredentialMissing,
    FieldError,
    InvalidInput,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
)
from app.http_requests.plan_compiler import ArgumentPlan, compile_plan_without_body
from app.outbound.attach import attach
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.framing import StreamEvent
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.messages import DISCOVERY
from app.protocols.shared.origins import WEBSOCKET_SCHEMES
from app.protocols.shared.results import JSON, body_result, check_size, event_result
from app.protocols.shared.websocket_client import Upgrade, WebSocket
from app.protocols.websocket.messages import event_of, members, message_of, parsed, single_answer, value_of
from app.protocols.websocket.record import origin_of
from app.protocols.websocket.template import WebsocketTemplate
from app.text import pointer
from app.utcp.call_template import compile_template
from app.utcp.headers import HEADER_NAME
from app.utcp.paths import compile_url

_OURS: Final = "sec-websocket-"
_ERROR_BODY: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class WebsocketTarget:
    """A compiled template: the upgrade, the arguments that it takes, and the subprotocols."""

    model: WebsocketTemplate
    origin: str
    plan: ArgumentPlan
    placed: frozenset[str]
    subprotocols: tuple[str, ...]


class WebsocketAdapter(UnknownEffects):
    """Calls over WebSocket."""

    name: ClassVar[str] = "websocket"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker

    async def aclose(self) -> None:
        """Nothing is held: a connection ends with its call."""

    def prepare(self, template: Mapping[str, Any]) -> WebsocketTarget:
        """Compile a template of `call_template_type` websocket; raises InvalidInput."""
        model = compile_template(template, WebsocketTemplate)
        _refuse_ours(model)
        subprotocols = _subprotocols(model.protocol)
        url = compile_url(model.url, schemes=WEBSOCKET_SCHEMES)
        plan, placed = compile_plan_without_body(
            url, method="GET", headers=model.headers, header_fields=model.header_fields
        )
        return WebsocketTarget(model, origin_of(template), plan, placed, subprotocols)

    def origin(self, target: WebsocketTarget) -> str:
        """`wss://host[:port]`."""
        return target.origin

    def method(self, target: WebsocketTarget) -> str:  # noqa: ARG002 - all are the same.
        """SEND."""
        return "SEND"

    async def call(self, call: Call) -> Result:
        """Send the message. All messages until the peer closes come as events where the call takes them;
        else as many as the template's `responses`: one as itself, several as a list.
        """
        model: WebsocketTemplate = call.target.model
        message = message_of(model, call.target.placed, call)
        socket, by = await self._asked(call, message)
        if call.stream_deadline is not None:
            return await event_result(
                self._events(socket, call, call.stream_deadline), call, close=socket.close
            )
        try:
            return await self._collected(socket, call, model, by)
        finally:
            socket.close()

    async def discover(self, call: Call) -> Discovered:
        """The manual, asked for with `{"type": "utcp"}`: the first message that is one."""
        socket, by = await self._asked(call, DISCOVERY.decode())
        size = 0
        try:
            while True:
                message = await socket.receive(by=by, idle=call.limits.idle)
                if message is None:
                    raise UpstreamMalformed("The upstream closed the connection without a manual.")
                size += len(message)
                check_size(size, call.limits.response_bytes)
                raw = message.encode() if isinstance(message, str) else message
                if "tools" in members(raw):
                    return Discovered(raw=raw, media_type=JSON, url=call.target.origin)
        finally:
            socket.close()

    def describe(self, call: Call) -> dict[str, Any]:
        """The upgrade and the message as JSON."""
        url, headers = self._head(call, masked=True)
        body = message_of(call.target.model, call.target.placed, call, masked=True)
        return {"method": "GET", "url": url, "headers": dict(headers), "body": parsed(body)}

    def _head(self, call: Call, *, masked: bool = False) -> tuple[str, list[tuple[str, str]]]:
        """The URL and headers of the upgrade, credentials last."""
        target: WebsocketTarget = call.target
        given = {name: value for name, value in call.arguments.items() if name in target.placed}
        request = target.plan.prepare(given)
        present = {name.lower() for name, _ in request.headers}
        # What an Accept header asks for, an upgrade cannot give.
        more = [pair for pair in call.headers if pair[0].lower() not in present | {"accept"}]
        url, headers = attach(request.url, [*request.headers, *more], call.credentials, masked=masked)
        for name, _ in headers:
            if name.lower().startswith(_OURS):
                raise CredentialMissing(f"A credential cannot be sent as the header {name} of an upgrade.")
        return url, headers

    async def _asked(self, call: Call, message: str) -> tuple["WebSocket", float]:
        """A connection on which the message was sent, and the time by which the answer must be there."""
        target: WebsocketTarget = call.target
        limits = call.limits
        now = asyncio.get_running_loop().time()
        by = min(call.deadline, now + target.model.timeout)
        url, headers = self._head(call)
        first_by = min(by, now + limits.first_byte)
        socket = await WebSocket.open(
            Upgrade(
                url=url,
                headers=headers,
                most=limits.response_bytes if call.stream_deadline is None else limits.event_bytes,
                subprotocols=target.subprotocols,
                keep_alive=target.model.keep_alive,
            ),
            network=self._network,
            egress=call.egress,
            masker=self._masker,
            connect_by=min(first_by, now + limits.connect),
            by=first_by,
        )
        try:
            await socket.send(message, by=first_by)
        except BaseException:
            socket.close()
            raise
        return socket, by

    async def _collected(
        self, socket: "WebSocket", call: Call, model: WebsocketTemplate, by: float
    ) -> Result:
        values: list[bytes] = []
        size = 0
        while len(values) < model.responses:
            message = await socket.receive(by=by, idle=call.limits.idle)
            if message is None:
                break
            if model.responses == 1:
                return single_answer(message, model, call)
            values.append(value_of(message, model))
            size += len(values[-1]) + 1
            check_size(size, call.limits.response_bytes)
        if not values:
            raise UpstreamMalformed("The upstream closed the connection without an answer.")
        return body_result(b"[" + b",".join(values) + b"]", JSON, call)

    async def _events(
        self, socket: "WebSocket", call: Call, ends: float
    ) -> AsyncGenerator[StreamEvent, None]:
        """Messages until the peer closes. Those of UTCP's own streams are taken out of their envelopes."""
        try:
            while True:
                message = await socket.receive(by=ends, idle=call.limits.idle)
                if message is None:
                    return
                envelope = members(message) if isinstance(message, str) else {}
                match envelope.get("type") if not envelope.get("request_id") else None:
                    case "stream_end":
                        return
                    case "tool_response":
                        yield StreamEvent(orjson.dumps(envelope.get("result")), "json")
                    case "tool_error":
                        raise self._failed(envelope.get("error"))
                    case _:
                        yield event_of(message, call.target.model)
        finally:
            socket.close()

    def _failed(self, error: Any) -> UpstreamRejected:
        raw = orjson.dumps(error)
        body = sanitize_error_body(raw, JSON, masker=self._masker, limit=_ERROR_BODY, complete=True)
        answer = UpstreamErrorResponse(status=422, body=body)
        return UpstreamRejected("The upstream ended its stream with an error.", response=answer)


def _subprotocols(text: str | None) -> tuple[str, ...]:
    """RFC 6455 section 1.9; several have commas between them."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if not all(HEADER_NAME.fullmatch(name) for name in names):
        fault = FieldError("/protocol", "Give the name of a subprotocol: letters, digits, dots and dashes.")
        raise InvalidInput("The subprotocol cannot be asked for.", errors=[fault])
    return names


def _refuse_ours(model: WebsocketTemplate) -> None:
    places = [
        *((name, pointer("/headers", name)) for name in model.headers),
        *((name, pointer("/header_fields", index)) for index, name in enumerate(model.header_fields)),
    ]
    for name, at in places:
        if name.lower().startswith(_OURS):
            fault = FieldError(at, "The upgrade sets this header itself; `protocol` names a subprotocol.")
            raise InvalidInput("A header of the call template cannot be sent.", errors=[fault])
