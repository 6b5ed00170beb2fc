"""WebRTC: requests and responses are JSON messages on a data channel, matched by their ids.

A request is `{"id", "type": "call", "tool", "arguments"}`; its response is `{"id", "result"}` or
`{"id", "error"}`, of a stream `{"id", "event"}` any number of times, then `{"id", "done": true}` or an error.
A discovery is `{"id", "type": "utcp"}`, the cancellation of a call `{"id", "type": "cancel"}`.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final

from app.protocols.extension import (
    JSON,
    AdapterContext,
    Call,
    Discovered,
    FieldError,
    InvalidInput,
    Result,
    StreamEvent,
    UnknownEffects,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamUnauthorized,
    attach,
    check_size,
    compile_template,
    describe_headers,
    event_result,
    exact_json,
    map_encoding_errors,
    sanitize_error_body,
    value_result,
)

from utcp_gateway_webrtc.channel_pool import ChannelPool, PeerChannel, PendingCall
from utcp_gateway_webrtc.connection import Peer
from utcp_gateway_webrtc.record import origin_of
from utcp_gateway_webrtc.signalling import Signalling, signalling_url
from utcp_gateway_webrtc.template import WebrtcTarget, WebrtcTemplate

_ERROR_BODY: Final = 64 << 10


class WebrtcAdapter(UnknownEffects):
    """The adapter for calls over data channels."""

    name: ClassVar[str] = "webrtc"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker
        self._signalling = Signalling(context)
        self._pool = ChannelPool()

    def prepare(self, template: Mapping[str, Any]) -> WebrtcTarget:
        """Compile a template of `call_template_type` webrtc; raise InvalidInput."""
        model = compile_template(template, WebrtcTemplate)
        origin = origin_of(template)
        return WebrtcTarget(model, origin, signalling_url(model), list(model.headers.items()))

    def origin(self, target: WebrtcTarget) -> str:
        """Return the origin of the signalling server, which gets the credentials and names the peer."""
        return target.origin

    def method(self, target: WebrtcTarget) -> str:  # noqa: ARG002 - all are the same.
        """Return `SEND`."""
        return "SEND"

    async def call(self, call: Call[WebrtcTarget]) -> Result:
        """Call the peer's tool and return its result; a stream is returned as events, or as a JSON list.

        Raise UpstreamRejected and UpstreamUnauthorized for an error of the peer, and what connecting raises.
        """
        name = call.target.model.tool_name
        if name is None:
            field_error = FieldError("/tool_name", "Give the name that the peer has for the tool.")
            raise InvalidInput("The template names no tool.", errors=[field_error])
        deadline = self._first_response_deadline(call)
        pending = await self._send(
            call, _request(name, call), exclusive=call.stream_deadline is not None, deadline=deadline
        )
        streams = False
        try:
            first, size = await pending.receive(deadline=deadline)
            if "event" in first or first.get("done") is True:
                streams = True
                events = self._events(pending, first, size, call)
                return await event_result(events, call, close=pending.close)
            check_size(size, call.limits.response_bytes)
            return value_result(self._result_value(first, call), call)
        finally:
            if not streams:
                pending.close()

    async def discover(self, call: Call[WebrtcTarget]) -> Discovered:
        """Return the peer's manual; raise what `call` raises."""
        deadline = self._first_response_deadline(call)
        pending = await self._send(call, {"type": "utcp"}, exclusive=False, deadline=deadline)
        try:
            message, size = await pending.receive(deadline=deadline)
        finally:
            pending.close()
        check_size(size, call.limits.response_bytes)
        raw = exact_json.dumps(self._result_value(message, call))
        return Discovered(raw=raw, media_type=JSON, url=call.target.origin)

    def describe(self, call: Call[WebrtcTarget]) -> dict[str, Any]:
        """Return the URL and headers of the signalling request, secrets masked, and the peer's message."""
        target = call.target
        url, headers = attach(target.url, target.headers, call.credentials, masked=True, signs=True)
        body = _request(target.model.tool_name or "", call)
        return {"method": "SEND", "url": url, "headers": describe_headers(headers), "body": body}

    async def aclose(self) -> None:
        """Close the channels."""
        await self._pool.aclose()

    def _first_response_deadline(self, call: Call[WebrtcTarget]) -> float:
        """Return the `loop.time()` by which the first message of the response must arrive."""
        now = asyncio.get_running_loop().time()
        model: WebrtcTemplate = call.target.model
        return min(call.deadline, now + call.limits.first_byte, now + model.timeout / 1000)

    async def _send(
        self, call: Call[WebrtcTarget], message: dict[str, Any], *, exclusive: bool, deadline: float
    ) -> PendingCall:
        async def connect(channel: PeerChannel) -> None:
            await self._connect(channel, call, deadline=deadline)

        with map_encoding_errors():
            return await self._pool.send(
                _channel_key(call), message, connect=connect, exclusive=exclusive, deadline=deadline
            )

    async def _connect(self, channel: PeerChannel, call: Call[WebrtcTarget], *, deadline: float) -> None:
        """Exchange offer and answer, and wait until the channel is open."""
        target = call.target
        if call.egress is not None and call.egress.proxy_url is not None:
            raise InvalidInput("WebRTC's datagrams do not go through an HTTP proxy: remove proxy_url.")
        peer = Peer(
            self._network,
            label=target.model.data_channel_name,
            on_message=channel.on_message,
            on_lost=channel.on_lost,
        )
        try:
            offer = await peer.offer()
            signalled = replace(call, arguments={}, deadline=deadline)
            answer, session_url = await self._signalling.exchange(
                offer, target.url, target.headers, signalled
            )
            if session_url is not None:
                channel.on_close = partial(self._signalling.delete, session_url, target.headers, signalled)
            await peer.accept(answer, deadline=deadline)
        except BaseException:
            self._pool.abandon(channel, peer)
            raise
        channel.peer = peer

    async def _events(
        self, pending: PendingCall, message: dict[str, Any], size: int, call: Call[WebrtcTarget]
    ) -> AsyncGenerator[StreamEvent, None]:
        loop = asyncio.get_running_loop()
        deadline = call.stream_deadline or call.deadline
        max_bytes = (
            call.limits.event_bytes if call.stream_deadline is not None else call.limits.response_bytes
        )
        try:
            while "event" in message:
                check_size(size, max_bytes)
                yield StreamEvent(exact_json.dumps(message["event"]), "json")
                message, size = await pending.receive(deadline=min(deadline, loop.time() + call.limits.idle))
            if message.get("done") is not True:
                self._result_value(message, call)
                raise UpstreamMalformed("The peer ended its stream with a result.")
        finally:
            pending.close()

    def _result_value(self, message: dict[str, Any], call: Call[WebrtcTarget]) -> Any:
        """Return the result; raise UpstreamRejected, UpstreamUnauthorized and UpstreamMalformed."""
        if "error" in message:
            raise self._peer_error(message["error"], call)
        if "result" not in message:
            raise UpstreamMalformed("The peer's response has neither a result nor an error.")
        return message["result"]

    def _peer_error(self, error: Any, call: Call[WebrtcTarget]) -> UpstreamError:
        status = error.get("status") if isinstance(error, dict) else None
        status = status if isinstance(status, int) and 400 <= status < 600 else 422
        raw = exact_json.dumps(error)
        body = sanitize_error_body(raw, JSON, masker=self._masker, limit=_ERROR_BODY, complete=True)
        response = UpstreamErrorResponse(status=status, body=body)
        if status == 401:
            sent = "the stored credential" if call.credentials else "a call without a credential"
            return UpstreamUnauthorized(f"The peer rejected {sent}.", response=response)
        return UpstreamRejected("The peer responded with an error.", response=response)


def _request(name: str, call: Call[WebrtcTarget]) -> dict[str, Any]:
    return {"type": "call", "tool": name, "arguments": call.arguments}


def _channel_key(call: Call[WebrtcTarget]) -> bytes:
    """Return the key of the pool: calls with equal target, credentials, egress and scope share channels."""
    target = call.target
    parts = [
        target.url,
        target.model.peer_id,
        target.model.data_channel_name,
        *(text for pair in target.headers for text in pair),
        *(text for wire in call.credentials for text in (wire.location, wire.name, wire.value.reveal())),
    ]
    digest = hashlib.sha256(call.egress.key if call.egress is not None else b"")
    digest.update(call.scope)
    for part in parts:
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big") + raw)
    return digest.digest()
