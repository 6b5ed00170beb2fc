"""gRPC: a message made of JSON, an answer as JSON; methods are described by the server's reflection.

All kinds of methods are served. One that takes a stream of messages gets them as the argument `messages`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final

import orjson

from app.errors import (
    FieldError,
    InvalidInput,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
)
from app.protocols.base import AdapterContext, Call, Discovered, Result, StreamEvent
from app.protocols.grpc.channels import Channels, Lease
from app.protocols.grpc.descriptors import Rpc, rpc_of
from app.protocols.grpc.errors import error_of, upstream_answer
from app.protocols.grpc.manual import made_manual
from app.protocols.grpc.messages import decoded
from app.protocols.grpc.metadata import Pairs, metadata_of
from app.protocols.grpc.reflection import Reflected, pool_without_holes, talk
from app.protocols.grpc.rpc import RpcFailed, RpcStream, unary
from app.protocols.grpc.target import GrpcTarget, compiled_target, messages_of
from app.protocols.shared.results import JSON, body_result, check_size, event_result, timed

_MAX_MESSAGE_BYTES: Final = 4 << 20
"""Bytes of a message that is received, at most: gRPC's own default everywhere."""
# A message of this many bytes takes up to 0.1 s to become JSON, and back.
_IN_THREAD: Final = 16 << 10
_MAX_LOOKUPS: Final = 256
_LOOKED_UP_SECONDS: Final = 600.0


class GrpcAdapter:
    """Calls over gRPC."""

    name: ClassVar[str] = "grpc"

    def __init__(self, context: AdapterContext) -> None:
        self._channels = Channels(context.network)
        self._masker = context.masker
        self._looked_up: OrderedDict[tuple[object, ...], tuple[float, Rpc]] = OrderedDict()

    def prepare(self, template: Mapping[str, Any]) -> GrpcTarget:
        """Compile a template; raises InvalidInput for names, metadata and descriptors that cannot be used."""
        return compiled_target(template)

    def origin(self, target: GrpcTarget) -> str:
        """`grpc://host:port`, with TLS `grpcs://host:port`."""
        return target.origin

    def is_safe(self, target: GrpcTarget) -> bool:
        """Whether the method's idempotency_level is NO_SIDE_EFFECTS."""
        return target.rpc is not None and target.rpc.safe

    def is_idempotent(self, target: GrpcTarget) -> bool:
        """Whether its idempotency_level is IDEMPOTENT or NO_SIDE_EFFECTS."""
        return target.rpc is not None and target.rpc.idempotent

    def request_identity(self, call: Call) -> bytes | None:
        """The path and the message of a method without side effects and streams."""
        rpc: Rpc | None = call.target.rpc
        if rpc is None or not rpc.safe or rpc.kind != "unary":
            return None
        return rpc.path.encode() + b"\n" + messages_of(rpc, call)[0]

    def method(self, target: GrpcTarget) -> str:
        """The kind of the method, `rpc` where it is not known yet."""
        return target.rpc.kind if target.rpc is not None else "rpc"

    async def call(self, call: Call) -> Result:
        """Call the method; a stream of answers is given as events, or as a JSON list."""
        target: GrpcTarget = call.target
        if target.service is None or target.method is None:
            missing = "service_name" if target.service is None else "method_name"
            raise InvalidInput("The tool names no method.", errors=[FieldError(f"/{missing}", "Name it.")])
        metadata = metadata_of(target.metadata, call)
        rpc = target.rpc or await self._look_up(call, metadata)
        messages = await _encoded(rpc, call)
        if rpc.kind == "unary":
            return await self._unary(rpc, messages[0], metadata, call)
        stream = await self._stream(call, rpc.path, messages, metadata, most=_most(call, rpc))
        try:
            with timed(call.deadline):
                await stream.begin(by=_first_by(call))
            if rpc.answers_many:
                events = self._events(rpc, stream, call)
                return await event_result(events, call, close=stream.close)
            return await self._only(rpc, stream, call)
        except RpcFailed as failed:
            raise error_of(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            if not (rpc.answers_many and call.stream_deadline is not None):
                stream.close()

    async def discover(self, call: Call) -> Discovered:
        """A manual of the methods that the server's reflection tells of."""
        target: GrpcTarget = call.target
        most = call.limits.response_bytes
        found = await self._reflect(call, metadata_of(target.metadata, call), most=most)
        raw = await asyncio.to_thread(made_manual, found, target.method, most=most)
        return Discovered(raw=raw, media_type=JSON, url=target.origin, is_generated=True)

    def describe(self, call: Call) -> dict[str, Any]:
        """The request as JSON: the path as part of the URL, metadata as headers."""
        target: GrpcTarget = call.target
        if target.rpc is not None:
            messages_of(target.rpc, call)
        return {
            "method": "POST",
            "url": f"{target.origin}/{target.service}/{target.method}",
            "headers": dict(metadata_of(target.metadata, call, masked=True)),
            "body": call.arguments,
        }

    async def aclose(self) -> None:
        """Close the channels."""
        await self._channels.aclose()

    async def _unary(self, rpc: Rpc, message: bytes, metadata: Pairs, call: Call) -> Result:
        lease = await self._lease(call, most=_most(call, rpc))
        try:
            raw = await unary(lease, rpc.path, message, metadata=metadata, by=_first_by(call))
        except RpcFailed as failed:
            raise error_of(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            lease.release()
        return body_result(await _json(rpc, raw, call.limits.response_bytes), JSON, call)

    async def _only(self, rpc: Rpc, stream: RpcStream, call: Call) -> Result:
        """The one answer to many messages."""
        with timed(call.deadline):
            raw = await stream.read()
            if raw is None or await stream.read() is not None:
                raise UpstreamMalformed("The upstream did not answer with one message.")
        return body_result(await _json(rpc, raw, call.limits.response_bytes), JSON, call)

    async def _events(self, rpc: Rpc, stream: RpcStream, call: Call) -> AsyncGenerator[StreamEvent, None]:
        loop = asyncio.get_running_loop()
        ends = call.stream_deadline or call.deadline
        most = _most(call, rpc)
        try:
            while True:
                with timed(min(ends, loop.time() + call.limits.idle), "The upstream's stream stands still."):
                    raw = await stream.read()
                if raw is None:
                    return
                yield StreamEvent(await _json(rpc, raw, most), "json")
        except RpcFailed as failed:
            raise error_of(failed, masker=self._masker, pool=rpc.pool) from None
        finally:
            stream.close()

    async def _stream(
        self, call: Call, path: str, messages: list[bytes], metadata: Pairs, *, most: int
    ) -> RpcStream:
        lease = await self._lease(call, most=most)
        return RpcStream(lease, path, messages, metadata=metadata, ends=call.stream_deadline or call.deadline)

    async def _lease(self, call: Call, *, most: int) -> Lease:
        target: GrpcTarget = call.target
        by = min(call.deadline, asyncio.get_running_loop().time() + call.limits.connect)
        scope = call.scope if call.reuse else b""
        return await self._channels.lease(
            target.place, tls=target.tls, egress=call.egress, scope=scope, most=most, by=by
        )

    async def _reflect(self, call: Call, metadata: Pairs, *, most: int) -> Reflected:
        target: GrpcTarget = call.target
        asked = replace(call, stream_deadline=None)

        async def ask(path: str, question: bytes) -> bytes:
            stream = await self._stream(asked, path, [question], metadata, most=_MAX_MESSAGE_BYTES)
            try:
                answer = await stream.read()
                # To the end: servers count calls that are cut off.
                while answer is not None and await stream.read() is not None:
                    pass
            finally:
                stream.close()
            if answer is None:
                raise UpstreamMalformed("The server's reflection does not answer.")
            return answer

        try:
            with timed(call.deadline):
                return await talk(ask, target.service, most=most)
        except RpcFailed as failed:
            raise error_of(failed, masker=self._masker) from None

    async def _look_up(self, call: Call, metadata: Pairs) -> Rpc:
        """The method as the server describes it, remembered for ten minutes."""
        target: GrpcTarget = call.target
        egress = call.egress.key if call.egress else b""
        key = (target.origin, egress, call.scope, target.service, target.method)
        now = asyncio.get_running_loop().time()
        known = self._looked_up.get(key)
        if known is not None and known[0] > now:
            return known[1]
        try:
            found = await self._reflect(call, metadata, most=call.limits.response_bytes)
        except UpstreamError as error:
            # A question about the method is nothing of the call.
            error.request_sent = False
            raise
        pool = await asyncio.to_thread(pool_without_holes, found.files)
        rpc = rpc_of(pool, found.services[0], str(target.method)) if found.services else None
        if rpc is None:
            detail = "The server has no such method."
            raise UpstreamRejected(detail, response=upstream_answer(12, "UNIMPLEMENTED", detail))
        self._looked_up[key] = (now + _LOOKED_UP_SECONDS, rpc)
        self._looked_up.move_to_end(key)
        while len(self._looked_up) > _MAX_LOOKUPS:
            self._looked_up.popitem(last=False)
        return rpc


async def _encoded(rpc: Rpc, call: Call) -> list[bytes]:
    if not _large(call.arguments):
        return messages_of(rpc, call)
    return await asyncio.to_thread(messages_of, rpc, call)


def _large(arguments: dict[str, Any]) -> bool:
    try:
        return len(orjson.dumps(arguments)) > _IN_THREAD
    except TypeError:
        # A number that no message can hold, either.
        return False


async def _json(rpc: Rpc, raw: bytes, most: int) -> bytes:
    check_size(len(raw), most)
    if len(raw) <= _IN_THREAD:
        return decoded(raw, rpc.response, rpc.pool, most=most)
    return await asyncio.to_thread(decoded, raw, rpc.response, rpc.pool, most=most)


def _most(call: Call, rpc: Rpc) -> int:
    """The bytes that one message of the answer may have."""
    allowed = (
        call.limits.event_bytes
        if rpc.answers_many and call.stream_deadline is not None
        else call.limits.response_bytes
    )
    return max(1, min(allowed, _MAX_MESSAGE_BYTES))


def _first_by(call: Call) -> float:
    return min(call.deadline, asyncio.get_running_loop().time() + call.limits.first_byte)
