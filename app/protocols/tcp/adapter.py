"""One connection for each call: the request, then one message, or a stream until its end."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from app.formats.utcp.call_template import compile_template
from app.outbound.framing import StreamEvent
from app.outbound.network import Address, Stream
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.messages import DISCOVERY
from app.protocols.shared.origins import socket_origin
from app.protocols.shared.results import BYTES, TEXT, time_limit
from app.protocols.shared.sockets import (
    check_codec,
    decode_manual,
    decode_response,
    describe_request,
    encode_request,
    parse_address,
    reject_tls,
)
from app.protocols.tcp.framings import IncomingResponse, frame_request, read_delimiter
from app.protocols.tcp.template import TcpTemplate


@dataclass(frozen=True, slots=True)
class TcpTarget:
    """A compiled template."""

    model: TcpTemplate
    origin: str
    address: Address
    delimiter: bytes


class TcpAdapter(UnknownEffects):
    """The adapter for calls over TCP."""

    name: ClassVar[str] = "tcp"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network

    async def aclose(self) -> None:
        """Do nothing: a connection ends with its call."""

    def prepare(self, template: Mapping[str, Any]) -> TcpTarget:
        """Compile a template of `call_template_type` tcp; raise InvalidInput."""
        model = compile_template(template, TcpTemplate)
        check_codec(model.response_byte_format)
        origin = socket_origin("tcp", template)
        return TcpTarget(model, origin, parse_address(origin), read_delimiter(model))

    def origin(self, target: TcpTarget) -> str:
        """Return `tcp://host:port`."""
        return target.origin

    def method(self, target: TcpTarget) -> str:  # noqa: ARG002 - all are the same.
        """Return `SEND`."""
        return "SEND"

    async def call(self, call: Call[TcpTarget]) -> Result:
        """Send the message and return the response.

        One in the framing `stream` is returned as events where the call takes them. Raise UpstreamTimeout,
        UpstreamUnreachable, BlockedAddress, ResponseTooLarge and InvalidArguments.
        """
        target = call.target
        request = frame_request(
            target.model, encode_request(target.model, call, delimiter=target.delimiter), target.delimiter
        )
        stream, incoming = await self._open_and_send(target, request, call)
        if call.stream_deadline is not None and target.model.framing_strategy == "stream":
            return await _stream(stream, incoming, target.model.response_byte_format, call)
        async with stream:
            raw = await incoming.message(target.delimiter)
        return await decode_response(raw, target.model.response_byte_format, call)

    async def discover(self, call: Call[TcpTarget]) -> Discovered:
        """Return the manual, requested by `{"type": "utcp"}`; `max_response_size` does not limit it."""
        target = call.target
        reject_tls(call, self.name)
        request = frame_request(target.model, DISCOVERY, target.delimiter)
        stream, incoming = await self._open_and_send(target, request, call)
        async with stream:
            if target.model.framing_strategy == "stream":
                max_bytes = call.limits.response_bytes + 1
                raw = b"".join([piece async for piece in incoming.pieces(max_bytes=max_bytes)])
            else:
                raw = await incoming.message(target.delimiter)
        raw = await decode_manual(raw, target.model.response_byte_format)
        return Discovered(raw=raw, media_type="application/json", url=target.origin)

    def describe(self, call: Call[TcpTarget]) -> dict[str, Any]:
        """Return the message as JSON, secrets masked as `***`."""
        target = call.target
        return describe_request(target.model, target.origin, call, verb="SEND", delimiter=target.delimiter)

    async def _open_and_send(
        self, target: TcpTarget, request: bytes, call: Call[TcpTarget]
    ) -> tuple[Stream, IncomingResponse]:
        """Open a connection and send the request; return the connection and its response."""
        now = asyncio.get_running_loop().time()
        limits = call.limits
        first_byte_deadline = min(call.deadline, now + target.model.timeout / 1000, now + limits.first_byte)
        stream = await self._network.open_stream(
            target.address, egress=call.egress, deadline=min(first_byte_deadline, now + limits.connect)
        )
        try:
            with time_limit(first_byte_deadline):
                await stream.write(request)
        except BaseException:
            stream.abort()
            raise
        return stream, IncomingResponse(
            stream, target.model, limits, first_byte_deadline=first_byte_deadline, deadline=call.deadline
        )


async def _stream(
    stream: Stream, incoming: IncomingResponse, codec: str | None, call: Call[TcpTarget]
) -> Result:
    """Return the response as events, once its first piece has arrived."""
    pieces = incoming.pieces()
    try:
        first = await anext(pieces, b"")
    except BaseException:
        stream.abort()
        raise
    incoming.deadline = call.stream_deadline or call.deadline
    result = Result(
        status=200,
        headers=[],
        media_type=BYTES if codec is None else TEXT,
        body=None,
        events=_events(stream, first, pieces, codec),
        has_text_pieces=True,
    )
    result.close_with(stream.abort)
    return result


async def _events(
    stream: Stream, first: bytes, pieces: AsyncGenerator[bytes, None], codec: str | None
) -> AsyncGenerator[StreamEvent, None]:
    """Yield each piece as text, without a codec as bytes.

    A character that is split between two pieces is part of the second event.
    """
    decoder = None if codec is None else codecs.getincrementaldecoder(codec)("replace")
    try:
        if first:
            yield _piece_event(first, decoder)
        async for piece in pieces:
            event = _piece_event(piece, decoder)
            if event.data:
                yield event
        if decoder is not None and (rest := decoder.decode(b"", final=True)):
            yield StreamEvent(rest.encode("utf-8", "replace"), "text")
    finally:
        stream.abort()
        await pieces.aclose()


def _piece_event(piece: bytes, decoder: codecs.IncrementalDecoder | None) -> StreamEvent:
    """Return a piece as one event, which is empty where the piece is only the beginning of a character."""
    if decoder is None:
        return StreamEvent(piece, "bytes")
    return StreamEvent(decoder.decode(piece).encode("utf-8", "replace"), "text")
