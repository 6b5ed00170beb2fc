"""Real servers for the tests: uvicorn for ASGI applications, and a WebSocket server in the role of a gateway."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
import uvicorn
from google.protobuf import json_format
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from utcp_gateway_client.serving.ubp_v1 import core_pb2

Json = dict[str, Any]


@asynccontextmanager
async def http_server(app: Any, **options: Any) -> AsyncIterator[str]:
    """Serve an ASGI application on a free port; the value is its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", lifespan="on", **options))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await running


@dataclass
class Connected:
    """A connection of an executor, as the gateway sees it."""

    socket: "ServerConnection | GrpcSocket"
    registration: Json
    messages: "asyncio.Queue[Json]" = field(default_factory=asyncio.Queue)
    replies: dict[str, Json] = field(default_factory=dict)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, payload: Json, message_id: str | None = None) -> str:
        message_id = message_id or uuid4().hex
        await self.socket.send(json.dumps({"messageId": message_id, **payload}))
        return message_id

    async def command(self, name: str, arguments: Any = None, command_id: str | None = None) -> str:
        """Send a command in an envelope of its own, whose id is returned."""
        request: Json = {"commandId": command_id or uuid4().hex, "commandName": name}
        if arguments is not None:
            request["arguments"] = arguments
        return await self.send({"commandRequest": request})

    async def reply(self, message_id: str) -> Json:
        """Return the response to an envelope; those to others are kept for later."""
        while message_id not in self.replies:
            message = await self.messages.get()
            if "commandResponse" in message:
                self.replies[message["metadata"]["reply_to"]] = message["commandResponse"]
        return self.replies.pop(message_id)

    async def call(self, name: str, arguments: Any = None, command_id: str | None = None) -> Json:
        return await self.reply(await self.command(name, arguments, command_id))

    async def request(self) -> Json:
        """Return the next command of the executor, with its envelope's id as `messageId`."""
        while True:
            message = await self.messages.get()
            if "commandRequest" in message:
                return {"messageId": message["messageId"], **message["commandRequest"]}

    async def confirm(self, request: Json, status: str = "SUCCESS", problem: Json | None = None) -> None:
        """Respond to a command of the executor, with a problem document as the result if there is one."""
        result = {"result": {"@type": "type.googleapis.com/google.protobuf.Struct", "value": problem}}
        await self.send(
            {
                "commandResponse": {
                    "commandId": request["commandId"],
                    "status": status,
                    **(result if problem else {}),
                },
                "metadata": {"reply_to": request["messageId"]},
            }
        )


class GatewayPeer:
    """The WebSocket `/ubp` of a gateway. `statuses` are those of the next registrations, "" for no response, then SUCCESS.
    With `location` it redirects to there.

    Where it does not confirm deregistrations, the test does so.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.url = ""
        self.statuses: list[str] = []
        self.problem: Json | None = None
        self.confirms = True
        self.silent = asyncio.Event()
        self.attempts = 0
        self.location = ""
        self.connections: asyncio.Queue[Connected] = asyncio.Queue()
        self._server: Any = None

    async def start(self, port: int = 0) -> int:
        self._server = await serve(self._serve, "127.0.0.1", port, process_request=self._check, max_size=None)
        found: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{found}"
        return found

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    def _check(self, socket: ServerConnection, request: Any) -> Any:
        self.attempts += 1
        if self.location:
            response = socket.respond(HTTPStatus.TEMPORARY_REDIRECT, "")
            response.headers["Location"] = self.location
            return response
        if request.path != "/ubp":
            return socket.respond(HTTPStatus.NOT_FOUND, "There is no such path.")
        if request.headers.get("Authorization") != f"Bearer {self.key}":
            return socket.respond(HTTPStatus.UNAUTHORIZED, "The key is not known.")
        return None

    async def _serve(self, socket: "ServerConnection | GrpcSocket") -> None:
        with contextlib.suppress(ConnectionClosed):
            first = json.loads(await socket.recv())
            request = first["commandRequest"]
            connected = Connected(socket, request)
            status = self.statuses.pop(0) if self.statuses else "SUCCESS"
            if status:
                await connected.confirm({"messageId": first["messageId"], **request}, status, self.problem)
            else:
                self.silent.set()
            if status == "SUCCESS":
                self.connections.put_nowait(connected)
            try:
                async for text in socket:
                    message = json.loads(text)
                    connected.messages.put_nowait(message)
                    request = message.get("commandRequest", {})
                    if self.confirms and request.get("commandName") == "agent.deregister_tools":
                        await connected.confirm({"messageId": message["messageId"], **request})
            finally:
                connected.closed.set()


class GrpcSocket:
    """A stream in the form of a WebSocket: texts in proto3's JSON mapping."""

    def __init__(self, context: Any) -> None:
        self.context = context

    async def send(self, text: str | bytes) -> None:
        """Send a message, whose payload without a type is a Struct, or what is none as it is."""
        with contextlib.suppress(ValueError, AttributeError, json_format.ParseError):
            message = json.loads(text)
            for command, member in (
                ("commandRequest", "arguments"),
                ("command_request", "arguments"),
                ("commandResponse", "result"),
            ):
                payload = message.get(command, {}).get(member)
                if payload is not None and "@type" not in payload:
                    kind = "type.googleapis.com/google.protobuf.Struct"
                    message[command][member] = {"@type": kind, "value": payload}
            text = json_format.ParseDict(message, core_pb2.UbpMessage()).SerializeToString()
        text = text.encode() if isinstance(text, str) else text
        await self.context.write(text)

    async def recv(self) -> str:
        data = await self.context.read()
        if data is grpc.aio.EOF:
            raise ConnectionClosed(None, None)
        text: str = json_format.MessageToJson(core_pb2.UbpMessage.FromString(data))
        return text

    async def close(self) -> None:
        self.context.cancel()

    def __aiter__(self) -> "GrpcSocket":
        return self

    async def __anext__(self) -> str:
        try:
            return await self.recv()
        except ConnectionClosed:
            raise StopAsyncIteration from None


class GrpcGatewayPeer(GatewayPeer):
    """The same over gRPC."""

    async def start(self, port: int = 0) -> int:
        self._server = grpc.aio.server()
        method = grpc.stream_stream_rpc_method_handler(self._connect)
        handler = grpc.method_handlers_generic_handler("ubp.v1.Orchestrator", {"Connect": method})
        self._server.add_generic_rpc_handlers((handler,))
        found: int = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()
        self.url = f"grpc://127.0.0.1:{found}"
        return found

    async def stop(self) -> None:
        await self._server.stop(0)

    async def _connect(self, _requests: Any, context: Any) -> None:
        self.attempts += 1
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {self.key}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "The key is not known.")
        await context.send_initial_metadata(())
        await self._serve(GrpcSocket(context))
