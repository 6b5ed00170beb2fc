"""WebRTC: requests and answers as JSON messages on a data channel, matched by their ids.

A request is `{"id", "type": "call", "tool", "arguments"}`; its answer is `{"id", "result"}` or
`{"id", "error"}`, of a stream `{"id", "event"}` any number of times, then `{"id", "done": true}` or an error.
A discovery is `{"id", "type": "utcp"}`, a call that nobody waits for any more `{"id", "type": "cancel"}`.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final

import orjson

from app.errors import (
    FieldError,
    InvalidInput,
    UpstreamError,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamUnauthorized,
)
from app.outbound.attach import Headers, attach
from app.outbound.error_bodies import sanitize_error_body
from app.protocols.base import AdapterContext, Call, Discovered, Result, StreamEvent
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.messages import writable
from app.protocols.shared.results import JSON, check_size, event_result, value_result
from app.protocols.webrtc.channel_pool import ChannelPool, PeerChannel, PendingCall
from app.protocols.webrtc.connection import Peer
from app.protocols.webrtc.record import origin_of
from app.protocols.webrtc.signalling import Signalling, signalling_url
from app.protocols.webrtc.template import WebrtcTemplate
from app.utcp.call_template import compile_template

_ERROR_BODY: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class WebrtcTarget:
    """A template of `call_template_type` webrtc; `url` is where its offer goes."""

    model: WebrtcTemplate
    origin: str
    url: str
    headers: Headers = field(repr=False)


class WebrtcAdapter(UnknownEffects):
    """Calls over data channels."""

    name: ClassVar[str] = "webrtc"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker
        self._signalling = Signalling(context)
        self._pool = ChannelPool()

    def prepare(self, template: Mapping[str, Any]) -> WebrtcTarget:
        """Compile a template; raises InvalidInput."""
        model = compile_template(template, WebrtcTemplate)
        origin = origin_of(template)
        return WebrtcTarget(model, origin, signalling_url(model), list(model.headers.items()))

    def origin(self, target: WebrtcTarget) -> str:
        """That of the signalling server, which gets the credentials and names the peer."""
        return target.origin

    def method(self, target: WebrtcTarget) -> str:  # noqa: ARG002 - all are the same.
        """SEND."""
        return "SEND"

    async def call(self, call: Call) -> Result:
        """Call the peer's tool. A stream of answers is given as events, or as a JSON list."""
        name = call.target.model.tool_name
        if name is None:
            fault = FieldError("/tool_name", "Give the name that the peer has for the tool.")
            raise InvalidInput("The template names no tool.", errors=[fault])
        by = self._by(call)
        asked = await self._ask(call, _request(name, call), exclusive=call.stream_deadline is not None, by=by)
        streams = False
        try:
            first, size = await asked.next(by=by)
            if "event" in first or first.get("done") is True:
                streams = True
                events = self._events(asked, first, size, call)
                return await event_result(events, call, close=asked.close)
            check_size(size, call.limits.response_bytes)
            return value_result(self._value(first, call), call)
        finally:
            if not streams:
                asked.close()

    async def discover(self, call: Call) -> Discovered:
        """The peer's manual."""
        by = self._by(call)
        asked = await self._ask(call, {"type": "utcp"}, exclusive=False, by=by)
        try:
            answer, size = await asked.next(by=by)
        finally:
            asked.close()
        check_size(size, call.limits.response_bytes)
        raw = orjson.dumps(self._value(answer, call))
        return Discovered(raw=raw, media_type=JSON, url=call.target.origin)

    def describe(self, call: Call) -> dict[str, Any]:
        """The signalling's URL and headers, and the message on the channel."""
        target: WebrtcTarget = call.target
        url, headers = attach(target.url, target.headers, call.credentials, masked=True)
        body = _request(target.model.tool_name or "", call)
        return {"method": "SEND", "url": url, "headers": dict(headers), "body": body}

    async def aclose(self) -> None:
        """Close the channels."""
        await self._pool.aclose()

    def _by(self, call: Call) -> float:
        """When the first answer must be there."""
        now = asyncio.get_running_loop().time()
        model: WebrtcTemplate = call.target.model
        return min(call.deadline, now + call.limits.first_byte, now + model.timeout / 1000)

    async def _ask(self, call: Call, message: dict[str, Any], *, exclusive: bool, by: float) -> PendingCall:
        async def connect(channel: PeerChannel) -> None:
            await self._connect(channel, call, by=by)

        with writable():
            return await self._pool.ask(_key(call), message, connect=connect, exclusive=exclusive, by=by)

    async def _connect(self, channel: PeerChannel, call: Call, *, by: float) -> None:
        """An offer, its answer, and an open channel."""
        target: WebrtcTarget = call.target
        if call.egress is not None and call.egress.proxy_url is not None:
            raise InvalidInput("WebRTC's datagrams do not go through an HTTP proxy: take proxy_url out.")
        peer = Peer(
            self._network, label=target.model.data_channel_name, heard=channel.heard, lost=channel.lost
        )
        try:
            offer = await peer.offer()
            signalled = replace(call, arguments={}, deadline=by)
            answer, place = await self._signalling.exchange(offer, target.url, target.headers, signalled)
            if place is not None:
                channel.farewell = partial(self._signalling.delete, place, target.headers, signalled)
            await peer.accept(answer, by=by)
        except BaseException:
            self._pool.abandon(channel, peer)
            raise
        channel.peer = peer

    async def _events(
        self, asked: PendingCall, message: dict[str, Any], size: int, call: Call
    ) -> AsyncGenerator[StreamEvent, None]:
        loop = asyncio.get_running_loop()
        ends = call.stream_deadline or call.deadline
        most = call.limits.event_bytes if call.stream_deadline is not None else call.limits.response_bytes
        try:
            while "event" in message:
                check_size(size, most)
                yield StreamEvent(orjson.dumps(message["event"]), "json")
                message, size = await asked.next(by=min(ends, loop.time() + call.limits.idle))
            if message.get("done") is not True:
                self._value(message, call)
                raise UpstreamMalformed("The peer ended its stream with a result.")
        finally:
            asked.close()

    def _value(self, message: dict[str, Any], call: Call) -> Any:
        """The result; raises UpstreamRejected, UpstreamUnauthorized and UpstreamMalformed."""
        if "error" in message:
            raise self._refused(message["error"], call)
        if "result" not in message:
            raise UpstreamMalformed("The peer's answer has neither a result nor an error.")
        return message["result"]

    def _refused(self, error: Any, call: Call) -> UpstreamError:
        status = error.get("status") if isinstance(error, dict) else None
        status = status if isinstance(status, int) and 400 <= status < 600 else 422
        raw = orjson.dumps(error)
        body = sanitize_error_body(raw, JSON, masker=self._masker, limit=_ERROR_BODY, complete=True)
        answer = UpstreamErrorResponse(status=status, body=body)
        if status == 401:
            sent = "the stored credential" if call.credentials else "a call without a credential"
            return UpstreamUnauthorized(f"The peer refused {sent}.", response=answer)
        return UpstreamRejected("The peer answered with an error.", response=answer)


def _request(name: str, call: Call) -> dict[str, Any]:
    return {"type": "call", "tool": name, "arguments": call.arguments}


def _key(call: Call) -> bytes:
    """Calls with the same target, credentials and egress may share a channel."""
    target: WebrtcTarget = call.target
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
