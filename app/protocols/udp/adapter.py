"""UTCP's `udp`: one datagram is the request, and the template's number of datagrams the response.

Lost datagrams are not sent again. Where one is missing, the error has the number and content of the others.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from app.core.errors import FieldError, InvalidArguments, UpstreamTimeout, UpstreamUnreachable
from app.formats.utcp.call_template import compile_template
from app.outbound.error_bodies import sanitize_error_body
from app.outbound.framing import StreamEvent
from app.outbound.network import Address, Datagrams
from app.protocols.base import AdapterContext, Call, Discovered, Result
from app.protocols.shared.effects import UnknownEffects
from app.protocols.shared.messages import DISCOVERY
from app.protocols.shared.origins import socket_origin
from app.protocols.shared.results import BYTES, TEXT, check_size, time_limit
from app.protocols.shared.sockets import (
    check_codec,
    decode_manual,
    decode_response,
    describe_request,
    encode_request,
    parse_address,
    reject_tls,
    text_event,
)
from app.protocols.udp.template import UdpTemplate
from app.security.masking import Masker

MAX_DATAGRAM_BYTES: Final = 65_507
"""Bytes that a datagram carries (RFC 768 over IPv4)."""

_MAX_SHOWN_BYTES: Final = 16 << 10


@dataclass(frozen=True, slots=True)
class UdpTarget:
    """A compiled template."""

    model: UdpTemplate
    origin: str
    address: Address


class UdpAdapter(UnknownEffects):
    """The adapter for calls over UDP."""

    name: ClassVar[str] = "udp"

    def __init__(self, context: AdapterContext) -> None:
        self._network = context.network
        self._masker = context.masker

    async def aclose(self) -> None:
        """Do nothing: a socket ends with its call."""

    def prepare(self, template: Mapping[str, Any]) -> UdpTarget:
        """Compile a template of `call_template_type` udp; raise InvalidInput."""
        model = compile_template(template, UdpTemplate)
        check_codec(model.response_byte_format)
        origin = socket_origin("udp", template)
        return UdpTarget(model, origin, parse_address(origin))

    def origin(self, target: UdpTarget) -> str:
        """Return `udp://host:port`."""
        return target.origin

    def method(self, target: UdpTarget) -> str:  # noqa: ARG002 - all are the same.
        """Return `SEND`."""
        return "SEND"

    async def call(self, call: Call[UdpTarget]) -> Result:
        """Send the datagram and return the response: its datagrams joined, or an event for each.

        Where the template expects no datagrams, return an empty response at once. Raise InvalidArguments,
        BlockedAddress, UpstreamTimeout, UpstreamUnreachable and ResponseTooLarge.
        """
        target = call.target
        codec, count = target.model.response_byte_format, target.model.number_of_response_datagrams
        request = encode_request(target.model, call)
        if len(request) > MAX_DATAGRAM_BYTES:
            field_error = FieldError("", f"Too long: a datagram carries {MAX_DATAGRAM_BYTES} bytes.")
            raise InvalidArguments("The arguments make the datagram too long.", errors=[field_error])
        responses = await self._send(target, request, call, count)
        if call.stream_deadline is not None and count > 1:
            return await _stream(responses, codec, call)
        return await decode_response(await responses.join(), codec, call)

    async def discover(self, call: Call[UdpTarget]) -> Discovered:
        """Return the manual, requested by `{"type": "utcp"}`: at least one datagram."""
        target = call.target
        reject_tls(call, self.name)
        count = max(1, target.model.number_of_response_datagrams)
        responses = await self._send(target, DISCOVERY, call, count)
        raw = await decode_manual(await responses.join(), target.model.response_byte_format)
        return Discovered(raw=raw, media_type="application/json", url=target.origin)

    def describe(self, call: Call[UdpTarget]) -> dict[str, Any]:
        """Return the datagram as JSON, secrets masked as `***`."""
        return describe_request(call.target.model, call.target.origin, call, verb="SEND")

    async def _send(
        self, target: UdpTarget, request: bytes, call: Call[UdpTarget], count: int
    ) -> "_ResponseDatagrams":
        """Send the request and return the datagrams of its response."""
        now = asyncio.get_running_loop().time()
        deadline = min(call.deadline, now + target.model.timeout / 1000)
        first_byte_deadline = min(deadline, now + call.limits.first_byte)
        datagrams = await self._network.open_datagrams(
            target.address, egress=call.egress, deadline=min(first_byte_deadline, now + call.limits.connect)
        )
        try:
            datagrams.send(request)
        except BaseException:
            datagrams.close()
            raise
        return _ResponseDatagrams(
            datagrams, call, count, self._masker, first_byte_deadline=first_byte_deadline, deadline=deadline
        )


class _ResponseDatagrams:
    """The datagrams of one response."""

    def __init__(
        self,
        datagrams: Datagrams,
        call: Call[UdpTarget],
        count: int,
        masker: Masker,
        *,
        first_byte_deadline: float,
        deadline: float,
    ) -> None:
        self._datagrams = datagrams
        self._max_bytes = call.limits.response_bytes
        self._count = count
        self._masker = masker
        self._deadline = first_byte_deadline
        self._last_deadline = deadline
        self._received: list[bytes] = []

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._datagrams.close()

    async def join(self) -> bytes:
        """Return all datagrams joined; raise UpstreamTimeout, UpstreamUnreachable and ResponseTooLarge."""
        async for _ in self.iterate():
            pass
        return b"".join(self._received)

    async def iterate(self, *, retain: bool = True) -> AsyncGenerator[bytes, None]:
        """Yield each datagram; without `retain` they are not retained for the text of an error."""
        size = count_received = 0
        try:
            while count_received < self._count:
                datagram = await self._next(count_received)
                count_received += 1
                self._deadline = self._last_deadline
                size += len(datagram)
                check_size(size, self._max_bytes)
                if retain:
                    self._received.append(datagram)
                yield datagram
        finally:
            self.close()

    async def _next(self, count_received: int) -> bytes:
        try:
            with time_limit(self._deadline):
                return await self._datagrams.receive()
        except UpstreamUnreachable as error:
            # The request reached a closed port (ICMP): no program has read it.
            raise UpstreamUnreachable(error.detail, request_sent=count_received > 0) from None
        except UpstreamTimeout:
            raise self._missing_error(count_received) from None

    def _missing_error(self, count_received: int) -> UpstreamTimeout:
        error = UpstreamTimeout(f"{count_received} of {self._count} datagrams arrived in time.")
        error.extra |= {"datagrams": count_received, "expected_datagrams": self._count}
        raw = b"".join(self._received)[: _MAX_SHOWN_BYTES * 2]
        if raw:
            text = sanitize_error_body(
                raw, "text/plain", masker=self._masker, limit=_MAX_SHOWN_BYTES, complete=False
            )
            error.extra["upstream_body"] = text
        return error


async def _stream(responses: _ResponseDatagrams, codec: str | None, call: Call[UdpTarget]) -> Result:
    """Return a result with an event for each datagram, once the first has arrived."""
    each = responses.iterate(retain=False)
    first = await anext(each)
    result = Result(
        status=200,
        headers=[],
        media_type=BYTES if codec is None else TEXT,
        body=None,
    )
    result.events = _events(first, each, codec, call, result)
    result.close_with(responses.close)
    return result


async def _events(
    first: bytes, rest: AsyncGenerator[bytes, None], codec: str | None, call: Call[UdpTarget], result: Result
) -> AsyncGenerator[StreamEvent, None]:
    try:
        event, masked = text_event(first, codec, call)
        result.is_masked = result.is_masked or masked
        yield event
        async for datagram in rest:
            event, masked = text_event(datagram, codec, call)
            result.is_masked = result.is_masked or masked
            yield event
    finally:
        await rest.aclose()
