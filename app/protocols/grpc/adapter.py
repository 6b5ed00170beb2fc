"""gRPC: arguments and responses are messages in JSON; methods are described by the server's reflection.

All kinds of methods are supported. One with client streaming has the argument `messages`, a list.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

from app.core import exact_json
from app.core.errors import (
    FieldError,
    InvalidInput,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
)
from app.protocols.base import AdapterContext, Call, ChecksUpstream, Discovered, Result, StreamEvent
from app.protocols.grpc.channels import Channels, Lease
from app.protocols.grpc.descriptors import Rpc, find_rpc
from app.protocols.grpc.errors import status_error, upstream_response
from app.protocols.grpc.manual import build_manual
from app.protocols.grpc.messages import decode_message
from app.protocols.grpc.metadata import Pairs, build_metadata
from app.protocols.grpc.reflection import ReflectedServices, reflect, tolerant_pool
from app.protocols.grpc.rpc import RpcFailed, RpcStream, unary
from app.protocols.grpc.target import GrpcTarget, compile_target, encode_messages
from app.protocols.shared.described import describe_headers
from app.protocols.shared.results import JSON, body_result, check_size, event_result, time_limit

_MAX_MESSAGE_BYTES: Final = 4 << 20
"""Bytes of a message that is received, at most: the default of all gRPC libraries."""
# Converting a message of this many bytes to JSON, or back, takes up to 0.1 s.
_THREAD_BYTES: Final = 16 << 10
_MAX_CACHED_RPCS: Final = 256
_RPC_CACHE_SECONDS: Final = 600.0


class GrpcAdapter(ChecksUpstream):
    """The adapter for calls over gRPC."""

    name: ClassVar[str] = "grpc"

    def __init__(self, context: AdapterContext) -> None:
        self._channels = Channels(context.network)
        self._masker = context.masker
        self._cached_rpcs: OrderedDict[tuple[object, ...], tuple[float, Rpc]] = OrderedDict()

    def prepare(self, template: Mapping[str, Any]) -> GrpcTarget:
        """Compile a template of `call_template_type` grpc.

        Raise InvalidInput for names, metadata and descriptors that cannot be used.
        """
        return compile_target(template)

    def origin(self, target: GrpcTarget) -> str:
        """Return `grpc://host:port`, or `grpcs://host:port` over TLS."""
        return target.origin

    def is_safe(self, target: GrpcTarget) -> bool:
        """Return whether the method's idempotency_level is NO_SIDE_EFFECTS."""
        return target.rpc is not None and target.rpc.safe

    def is_idempotent(self, target: GrpcTarget) -> bool:
        """Return whether its idempotency_level is IDEMPOTENT or NO_SIDE_EFFECTS."""
        return target.rpc is not None and target.rpc.idempotent

    def request_identity(self, call: Call[GrpcTarget]) -> bytes | None:
        """Return the path and the message of a unary method without side effects; None for any other."""
        rpc: Rpc | None = call.target.rpc
        if rpc is None or not rpc.safe or rpc.kind != "unary":
            return None
        return rpc.path.encode() + b"\n" + encode_messages(rpc, call)[0]

    def method(self, target: GrpcTarget) -> str:
        """Return the kind of the method, `rpc` where it is not known yet."""
        return target.rpc.kind if target.rpc is not None else "rpc"

    async def call(self, call: Call[GrpcTarget]) -> Result:
        """Call the method and return its response; a stream is returned as events, or as a JSON list.

        Raise what `status_error` returns for a status other than OK, InvalidArguments for arguments that are
        not those of the method, and what connecting raises.
        """
        target = call.target
        if target.service is None or target.method is None:
            missing = "service_name" if target.service is None else "method_name"
            raise InvalidInput("The tool names no method.", errors=[FieldError(f"/{missing}", "Name it.")])
        metadata = build_metadata(target.metadata, call)
        rpc = target.rpc or await self._look_up(call, metadata)
        messages = await _encode(rpc, call)
        if rpc.kind == "unary":
            return await self._unary(rpc, messages[0], metadata, call)
        stream = await self._stream(
            call, rpc.path, messages, metadata, max_bytes=_max_message_bytes(call, rpc)
        )
        try:
            with time_limit(call.deadline):
                await stream.start(deadline=_first_byte_deadline(call))
            if rpc.server_streaming:
                events = self._events(rpc, stream, call)
                return await event_result(events, call, close=stream.close)
            return await self._single_response(rpc, stream, call)
        except RpcFailed as failed:
            raise status_error(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            if not (rpc.server_streaming and call.stream_deadline is not None):
                stream.close()

    async def discover(self, call: Call[GrpcTarget]) -> Discovered:
        """Return a manual generated from the server's reflection: a tool for each method."""
        target = call.target
        max_bytes = call.limits.response_bytes
        found = await self._reflect(call, build_metadata(target.metadata, call), max_bytes=max_bytes)
        raw = await asyncio.to_thread(build_manual, found, target.method, max_bytes=max_bytes)
        return Discovered(raw=raw, media_type=JSON, url=target.origin, is_generated=True)

    async def check(self, call: Call[GrpcTarget]) -> None:
        """Connect a channel; no message is sent, so nothing is known of the credentials."""
        lease = await self._lease(call, max_bytes=call.limits.response_bytes)
        lease.release()

    def describe(self, call: Call[GrpcTarget]) -> dict[str, Any]:
        """Return the request as JSON: the path as part of the URL, metadata as headers."""
        target = call.target
        if target.rpc is not None:
            encode_messages(target.rpc, call)
        return {
            "method": "POST",
            "url": f"{target.origin}/{target.service}/{target.method}",
            "headers": describe_headers(build_metadata(target.metadata, call, masked=True)),
            "body": call.arguments,
        }

    async def aclose(self) -> None:
        """Close the channels."""
        await self._channels.aclose()

    async def _unary(self, rpc: Rpc, message: bytes, metadata: Pairs, call: Call[GrpcTarget]) -> Result:
        lease = await self._lease(call, max_bytes=_max_message_bytes(call, rpc))
        try:
            raw = await unary(
                lease, rpc.path, message, metadata=metadata, deadline=_first_byte_deadline(call)
            )
        except RpcFailed as failed:
            raise status_error(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            lease.release()
        return body_result(await _json(rpc, raw, call.limits.response_bytes), JSON, call)

    async def _single_response(self, rpc: Rpc, stream: RpcStream, call: Call[GrpcTarget]) -> Result:
        """Return the single response of a method with client streaming."""
        with time_limit(call.deadline):
            raw = await stream.read()
            if raw is None or await stream.read() is not None:
                raise UpstreamMalformed("The upstream did not respond with one message.")
        return body_result(await _json(rpc, raw, call.limits.response_bytes), JSON, call)

    async def _events(
        self, rpc: Rpc, stream: RpcStream, call: Call[GrpcTarget]
    ) -> AsyncGenerator[StreamEvent, None]:
        loop = asyncio.get_running_loop()
        deadline = call.stream_deadline or call.deadline
        max_bytes = _max_message_bytes(call, rpc)
        try:
            while True:
                with time_limit(
                    min(deadline, loop.time() + call.limits.idle),
                    "The upstream's stream was idle for too long.",
                ):
                    raw = await stream.read()
                if raw is None:
                    return
                yield StreamEvent(await _json(rpc, raw, max_bytes), "json")
        except RpcFailed as failed:
            raise status_error(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            stream.close()

    async def _stream(
        self, call: Call[GrpcTarget], path: str, messages: list[bytes], metadata: Pairs, *, max_bytes: int
    ) -> RpcStream:
        lease = await self._lease(call, max_bytes=max_bytes)
        return RpcStream(
            lease, path, messages, metadata=metadata, deadline=call.stream_deadline or call.deadline
        )

    async def _lease(self, call: Call[GrpcTarget], *, max_bytes: int) -> Lease:
        target = call.target
        deadline = min(call.deadline, asyncio.get_running_loop().time() + call.limits.connect)
        scope = call.scope if call.reuse else b""
        return await self._channels.lease(
            target.address,
            tls=target.tls,
            egress=call.egress,
            scope=scope,
            max_bytes=max_bytes,
            deadline=deadline,
        )

    async def _reflect(self, call: Call[GrpcTarget], metadata: Pairs, *, max_bytes: int) -> ReflectedServices:
        target = call.target
        reflection_call = replace(call, stream_deadline=None)

        async def send(path: str, request: bytes) -> bytes:
            stream = await self._stream(
                reflection_call, path, [request], metadata, max_bytes=_MAX_MESSAGE_BYTES
            )
            try:
                response = await stream.read()
                # Read to the end: servers count cancelled calls as errors.
                while response is not None and await stream.read() is not None:
                    pass
            finally:
                stream.close()
            if response is None:
                raise UpstreamMalformed("The server's reflection does not respond.")
            return response

        try:
            with time_limit(call.deadline):
                return await reflect(send, target.service, max_bytes=max_bytes)
        except RpcFailed as failed:
            raise status_error(failed, masker=self._masker) from None

    async def _look_up(self, call: Call[GrpcTarget], metadata: Pairs) -> Rpc:
        """Return the method as the server's reflection describes it, cached for ten minutes."""
        target = call.target
        egress = call.egress.key if call.egress else b""
        key = (target.origin, egress, call.scope, target.service, target.method)
        now = asyncio.get_running_loop().time()
        cached = self._cached_rpcs.get(key)
        if cached is not None and cached[0] > now:
            return cached[1]
        try:
            found = await self._reflect(call, metadata, max_bytes=call.limits.response_bytes)
        except UpstreamError as error:
            # A request of reflection sends nothing of the call.
            error.request_sent = False
            raise
        pool = await asyncio.to_thread(tolerant_pool, found.files)
        rpc = find_rpc(pool, found.services[0], str(target.method)) if found.services else None
        if rpc is None:
            detail = "The server has no such method."
            raise UpstreamRejected(detail, response=upstream_response(12, "UNIMPLEMENTED", detail))
        self._cached_rpcs[key] = (now + _RPC_CACHE_SECONDS, rpc)
        self._cached_rpcs.move_to_end(key)
        while len(self._cached_rpcs) > _MAX_CACHED_RPCS:
            self._cached_rpcs.popitem(last=False)
        return rpc


async def _encode(rpc: Rpc, call: Call[GrpcTarget]) -> list[bytes]:
    if not _is_large(call.arguments):
        return encode_messages(rpc, call)
    return await asyncio.to_thread(encode_messages, rpc, call)


def _is_large(arguments: dict[str, Any]) -> bool:
    try:
        return len(exact_json.dumps(arguments)) > _THREAD_BYTES
    except TypeError:
        # An integer beyond 64 bits, which no message can hold, either: encoding reports it.
        return False


async def _json(rpc: Rpc, raw: bytes, max_bytes: int) -> bytes:
    check_size(len(raw), max_bytes)
    if len(raw) <= _THREAD_BYTES:
        return decode_message(raw, rpc.response, rpc.pool, max_bytes=max_bytes)
    return await asyncio.to_thread(decode_message, raw, rpc.response, rpc.pool, max_bytes=max_bytes)


def _max_message_bytes(call: Call[GrpcTarget], rpc: Rpc) -> int:
    """Return the maximum of bytes of one message of the response."""
    allowed = (
        call.limits.event_bytes
        if rpc.server_streaming and call.stream_deadline is not None
        else call.limits.response_bytes
    )
    return max(1, min(allowed, _MAX_MESSAGE_BYTES))


def _first_byte_deadline(call: Call[GrpcTarget]) -> float:
    return min(call.deadline, asyncio.get_running_loop().time() + call.limits.first_byte)
