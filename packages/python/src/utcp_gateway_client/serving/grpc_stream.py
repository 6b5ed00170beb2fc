"""The stream `ubp.v1.Orchestrator/Connect` of a gateway; this module needs the extra `grpc`.

The executor speaks proto3's JSON mapping, which protobuf's own `json_format` converts.
"""

import asyncio
import base64
import contextlib
import json
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
import grpc.aio

# Imported for their messages, which payloads may have: `json_format` finds them by name.
from google.protobuf import (  # noqa: F401
    duration_pb2,
    empty_pb2,
    json_format,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.message import DecodeError

from utcp_gateway_client.serving.connection import MAX_MESSAGE_BYTES, GatewayRejected
from utcp_gateway_client.serving.ubp_json import MalformedMessage
from utcp_gateway_client.serving.ubp_v1 import core_pb2, tools_pb2  # noqa: F401

_METHOD: Final = "/ubp.v1.Orchestrator/Connect"
_CLOSE_SECONDS: Final = 5.0
_MAX_EXACT_INTEGER: Final = 2**53
_OPTIONS: Final = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
]
_REJECTED: Final = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})


class GrpcStream:
    """A `Connection` by a stream of a channel of its own."""

    def __init__(self, channel: grpc.aio.Channel, call: Any) -> None:
        self._channel = channel
        self._call = call
        # grpcio cancels a stream whose reader or writer is cancelled, and with it what has been written.
        self._reading: asyncio.Future[Any] | None = None
        self._writing: asyncio.Future[Any] | None = None

    async def admitted(self) -> None:
        """Return once the gateway has accepted the key; raise GatewayRejected or ConnectionError."""
        # A gateway sends its metadata first. A stream that ends before has none, and a status.
        with contextlib.suppress(grpc.RpcError):
            await self._call.initial_metadata()
        if self._call.done():
            await self._raise_end()

    async def send(self, text: str) -> None:
        """See `Connection`."""
        try:
            message = json_format.Parse(text, core_pb2.UbpMessage())
        except json_format.ParseError:
            message = json_format.ParseDict(_as_error(text), core_pb2.UbpMessage())
        self._writing = asyncio.ensure_future(self._call.write(message.SerializeToString()))
        try:
            await asyncio.shield(self._writing)
        except (grpc.RpcError, asyncio.InvalidStateError):
            await self._raise_end()

    async def receive(self) -> str:
        """See `Connection`."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
        try:
            data = await asyncio.shield(self._reading)
        except grpc.RpcError:
            data = grpc.aio.EOF
        self._reading = None
        if data is grpc.aio.EOF:
            await self._raise_end()
        try:
            return _as_json(core_pb2.UbpMessage.FromString(data))
        except DecodeError:
            raise MalformedMessage("The message is no ubp.v1.UbpMessage.") from None

    async def close(self) -> None:
        """See `Connection`: half-close, and wait up to five seconds for the end of the other side."""
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._writing is not None:
                    await asyncio.shield(self._writing)
                await self._call.done_writing()
                data = None
                while data is not grpc.aio.EOF:
                    data = await (self._reading or self._call.read())
                    self._reading = None
        self._call.cancel()
        await self._channel.close()

    async def _raise_end(self) -> None:
        code, details = await self._call.code(), await self._call.details()
        if code in _REJECTED:
            raise GatewayRejected(f"The gateway rejects the key: {details}")
        raise ConnectionError(f"the gateway has ended the stream: {code.name} {details or ''}".rstrip())


async def open_grpc(address: str, key: str | None) -> GrpcStream:
    """Return a connection to a URL `grpc://HOST:PORT` (or `grpcs://`, with TLS); raise what `Opener` says."""
    parts = urlsplit(address)
    if parts.scheme == "grpcs":
        channel = grpc.aio.secure_channel(parts.netloc, grpc.ssl_channel_credentials(), options=_OPTIONS)
    else:
        channel = grpc.aio.insecure_channel(parts.netloc, options=_OPTIONS)
    try:
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        stream = GrpcStream(channel, channel.stream_stream(_METHOD)(metadata=metadata))
        await stream.admitted()
    except BaseException:
        await channel.close()
        raise
    return stream


def _as_json(message: Any) -> str:
    """Return a message in the JSON mapping; arguments of a message that is not known here are its bytes."""
    try:
        members = json_format.MessageToDict(message)
    except (TypeError, json_format.Error):
        unknown = message.command_request.arguments
        payload = {"@type": unknown.type_url, "value": base64.b64encode(unknown.value).decode()}
        message.command_request.ClearField("arguments")
        members = json_format.MessageToDict(message)
        members["commandRequest"]["arguments"] = payload
    return json.dumps(_with_integers(members))


def _with_integers(value: Any) -> Any:
    """Return a JSON value whose whole numbers are integers: those of a Struct are doubles, as 123.0."""
    if isinstance(value, dict):
        return {name: _with_integers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT_INTEGER:
        return int(value)
    return value


def _as_error(text: str) -> dict[str, Any]:
    """Return an error in place of a response whose result has no such form, as one of a hundred levels."""
    members: dict[str, Any] = json.loads(text)
    found = members["commandResponse"]
    error = "The result is nested too deeply for gRPC."
    members["commandResponse"] = {"commandId": found["commandId"], "status": "ERROR", "error": error}
    return members
