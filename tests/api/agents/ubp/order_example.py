"""The order example of UBP's chapter on tool calling: its two agents with their texts, and a model for the first.

`LlmReasoningAgent` and `DatabaseQueryAgent` have the structure of the chapter's code. Where that leaves something
open, they do this: payloads are packed, the second call of the model is made, and the agent registers
`handle_user_prompt` as an executor, so that the prompt of the user is routed to it.

As a program it is a Database Query Bot in a process of its own:
`python -m tests.api.agents.ubp.order_example TRANSPORT ADDRESS DATABASE`, with the API key in `UBP_KEY`.
"""

import json
import os
import queue
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import grpc
import httpx2
from google.protobuf import json_format
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.struct_pb2 import Struct, Value
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

import app.formats.ubp.v1.core_pb2 as ubp_v1
import app.formats.ubp.v1.tools_pb2 as ubp_tools_v1
from tests.interop.model_providers import Rejected, check_functions, require

PROMPT = "What is the status of order #123?"
ANSWER = "The status of order #123 is: Shipped."
BOT = "database_query_bot"
"""The executor of the orders."""
LLM_AGENT = "llm_agent"
"""The executor of prompts."""
TRANSPORTS = ("grpc", "json", "binary")

_ROOT = Path(__file__).parents[4]
_ORDER_STATUS = {
    "name": "get_order_status",
    "description": "Return the status of an order.",
    "parameters": [
        {"name": "order_id", "type": "integer", "description": "The number of the order.", "required": True}
    ],
}
_USER_PROMPT = {
    "name": "handle_user_prompt",
    "description": "Answer the prompt of a user about orders.",
    "parameters": [
        {"name": "prompt", "type": "string", "description": "What the user asks.", "required": True}
    ],
}
_Request: TypeAlias = ubp_v1.CommandRequest
_Response: TypeAlias = ubp_v1.CommandResponse


class UbpConnection(Protocol):
    """A connection to the orchestrator."""

    def send(self, payload: _Request | _Response) -> None:
        """Send a command or a response in an envelope."""

    def receive(self) -> Any:
        """Return the next command or response; raise EOFError at the end of the connection."""

    def close(self) -> None:
        """End the connection."""


class GrpcConnection:
    """`ubp.v1.Orchestrator/Connect` by the classes that protoc makes of the .proto files."""

    def __init__(self, address: str, key: str) -> None:
        # A connection of its own, so that its end is that of the stream.
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._sent: queue.SimpleQueue[ubp_v1.UbpMessage | None] = queue.SimpleQueue()
        call = self._channel.stream_stream(
            "/ubp.v1.Orchestrator/Connect",
            request_serializer=ubp_v1.UbpMessage.SerializeToString,
            response_deserializer=ubp_v1.UbpMessage.FromString,
        )
        metadata = (("authorization", f"Bearer {key}"),)
        self._stream = call(iter(self._sent.get, None), metadata=metadata, wait_for_ready=True)

    def send(self, payload: _Request | _Response) -> None:
        """See `UbpConnection`."""
        self._sent.put(_enveloped(payload))

    def receive(self) -> Any:
        """See `UbpConnection`."""
        try:
            return _payload(next(self._stream))
        except (StopIteration, grpc.RpcError):
            raise EOFError from None

    def close(self) -> None:
        """See `UbpConnection`."""
        self._sent.put(None)
        self._stream.cancel()
        self._channel.close()


class WebSocketConnection:
    """`/ubp`, in JSON or in protocol buffers."""

    def __init__(self, socket: ClientConnection, *, is_binary: bool) -> None:
        self._socket = socket
        self._is_binary = is_binary

    def send(self, payload: _Request | _Response) -> None:
        """See `UbpConnection`."""
        message = _enveloped(payload)
        self._socket.send(
            message.SerializeToString() if self._is_binary else json_format.MessageToJson(message)
        )

    def receive(self) -> Any:
        """See `UbpConnection`."""
        try:
            data = self._socket.recv()
        except ConnectionClosed:
            raise EOFError from None
        if isinstance(data, bytes):
            return _payload(ubp_v1.UbpMessage.FromString(data))
        return _payload(json_format.Parse(data, ubp_v1.UbpMessage()))

    def close(self) -> None:
        """See `UbpConnection`."""
        self._socket.close()


@contextmanager
def connection(transport: str, address: str, key: str) -> Iterator[UbpConnection]:
    """Yield a connection by one of `TRANSPORTS`; `address` is host:port of gRPC, else the gateway's base URL."""
    if transport == "grpc":
        with closing(GrpcConnection(address, key)) as opened:
            yield opened
        return
    url = address.replace("http", "ws", 1) + "/ubp"
    with connect(url, additional_headers={"Authorization": f"Bearer {key}"}, proxy=None) as socket:
        yield WebSocketConnection(socket, is_binary=transport == "binary")


class LlmReasoningAgent:
    """Reasons about the tools that it declares, and answers the prompts of users."""

    def __init__(self, ubp_connection: UbpConnection, my_llm_provider: "ChatModel") -> None:
        self.ubp_connection = ubp_connection
        self.my_llm_provider = my_llm_provider
        self.tools = [_ORDER_STATUS]
        self.sent: list[_Request] = []
        self.received: list[_Response] = []

    def register_tools_with_orchestrator(self) -> _Response:
        """Send the tool definitions to the orchestrator on startup; return the response."""
        return _register(self.ubp_connection, self.tools, role="reasoner")

    def listen_for_prompts(self) -> None:
        """Register as the executor of prompts, and answer them until the connection ends."""
        # One prompt at a time: while the agent waits for a response, it gets no command.
        metadata = {"executor": LLM_AGENT, "max_commands": "1"}
        _succeeded(_register(self.ubp_connection, [_USER_PROMPT], role="executor", **metadata))
        with suppress(EOFError):
            while True:
                command = self.ubp_connection.receive()
                if command.command_name == "handle_user_prompt":
                    text = self.handle_user_prompt(_arguments(command)["prompt"])
                    self.ubp_connection.send(_success(command, text))

    def handle_user_prompt(self, prompt: str) -> str:
        """Process a user's prompt: decide whether a tool is needed, and return the final text."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        llm_response = self.my_llm_provider.chat(messages, tools=self.tools)
        if not llm_response.get("tool_calls"):
            return str(llm_response["content"])
        messages.append(llm_response)
        for tool_call in llm_response["tool_calls"]:
            # Translate the LLM's decision into a UBP CommandRequest.
            function = tool_call["function"]
            tool_command = _Request(command_id=tool_call["id"], command_name=function["name"])
            tool_command.arguments.Pack(_struct(json.loads(function["arguments"])))
            self.ubp_connection.send(tool_command)
            self.sent.append(tool_command)
            response = self.ubp_connection.receive()
            self.received.append(response)
            content = (
                _result(response) if response.status == _Response.SUCCESS else f"Error: {response.error}"
            )
            messages.append({"role": "tool", "tool_call_id": response.command_id, "content": content})
        return str(self.my_llm_provider.chat(messages, tools=self.tools)["content"])


class DatabaseQueryAgent:
    """The Database Query Bot: it only knows how to query a database. `executed` are the commands it was sent."""

    def __init__(self, ubp_connection: UbpConnection, database: Path) -> None:
        self.ubp_connection = ubp_connection
        self.database = database
        self.executed: list[_Request] = []

    def register_tools_with_orchestrator(self) -> _Response:
        """Register what it executes; return the response."""
        return _register(self.ubp_connection, [_ORDER_STATUS], role="executor", executor=BOT)

    def listen_for_commands(self) -> None:
        """Listen for commands from the orchestrator until the connection ends."""
        with suppress(EOFError):
            while True:
                command = self.ubp_connection.receive()  # Blocking call
                if command.command_name == "get_order_status":
                    self.executed.append(command)
                    # Unpack arguments
                    order_id = _arguments(command)["order_id"]
                    # Execute the actual logic
                    status = self._query_database(command.command_id, int(order_id))
                    # Send the response back to the orchestrator
                    self.ubp_connection.send(_success(command, status))

    def _query_database(self, command_id: str, order_id: int) -> str:
        with closing(sqlite3.connect(self.database, timeout=60)) as database:
            # What is committed outlasts the process; without synchronous writes, not the machine.
            database.execute("PRAGMA synchronous = OFF")
            with database:
                database.execute("INSERT INTO executed VALUES (?)", (command_id,))
                row = database.execute(f"SELECT status FROM orders WHERE id = {order_id}").fetchone()
        return "" if row is None else str(row[0])


def create_database(path: Path) -> Path:
    """Create the database of the Database Query Bot: order 123 is shipped."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL)")
        database.execute("INSERT INTO orders VALUES (122, 'Cancelled'), (123, 'Shipped'), (124, 'Paid')")
        database.execute("CREATE TABLE executed (command_id TEXT NOT NULL)")
    return path


def executions(path: Path) -> dict[str, int]:
    """Return how often each command was executed, by command_id."""
    with closing(sqlite3.connect(path, timeout=60)) as database:
        rows = database.execute("SELECT command_id, count(*) FROM executed GROUP BY command_id")
        return dict(rows.fetchall())


@contextmanager
def bot_process(transport: str, address: str, key: str, database: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Database Query Bot in a process of its own until the block ends; it may be killed earlier."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.api.agents.ubp.order_example", transport, address, str(database)],
        cwd=_ROOT,
        env={**os.environ, "UBP_KEY": key},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def listening(listen: Callable[[], None], stop: Callable[[], None]) -> Iterator[None]:
    """Run the loop of an agent in a thread until the block ends; `stop` ends its connection."""
    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join()


@dataclass
class ChatModel:
    """A server with the wire format of OpenAI's chat completions, and a client of it.

    Its model asks for `get_order_status` where a prompt names an order, and makes a sentence of the result. It
    rejects tools, calls and results that OpenAI rejects. `requests` are the bodies that came.
    """

    requests: list[dict[str, Any]] = field(default_factory=list)

    def chat(self, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the message of the model."""
        functions = [{"type": "function", "function": _function(tool)} for tool in tools]
        body = {"model": "gpt-4o", "temperature": 0, "messages": messages, "tools": functions}
        url = f"http://127.0.0.1:{self._server.server_port}/v1/chat/completions"
        response = httpx2.post(url, json=body, trust_env=False, timeout=60)
        assert response.status_code == 200, response.text
        return dict(response.json()["choices"][0]["message"])

    def __enter__(self) -> Self:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.requests.append(body)
                try:
                    status, answer = 200, _completion(body, len(model.requests))
                except Rejected as error:
                    status, answer = 400, {"error": {"message": str(error), "type": "invalid_request_error"}}
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _completion(body: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the response of the model to a request; raise Rejected."""
    check_functions("openai-chat", body)
    prompt, *turn = body["messages"]
    require(prompt["role"] == "user", "The conversation begins with the prompt.")
    order = re.search(r"order #(\d+)", prompt["content"])
    require(order is not None, "The model knows orders only.")
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if turn:
        asked, result = turn
        require(asked["role"] == "assistant", "The message with the call is missing.")
        [call] = asked["tool_calls"]
        require(result["role"] == "tool", "The result is missing.")
        require(result["tool_call_id"] == call["id"], "The result answers another call.")
        message["content"] = f"The status of order #{order[1]} is: {result['content']}."  # type: ignore[index]
    else:
        [tool] = body["tools"]
        [name] = tool["function"]["parameters"]["required"]
        arguments = json.dumps({name: int(order[1])})  # type: ignore[index]
        function = {"name": tool["function"]["name"], "arguments": arguments}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    finish = "stop" if turn else "tool_calls"
    return {
        "id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "finish_reason": finish, "message": message, "logprobs": None}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }  # fmt: skip


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool definition of UBP as a function of OpenAI."""
    properties = {
        one["name"]: {"type": one["type"], "description": one["description"]} for one in tool["parameters"]
    }
    required = [one["name"] for one in tool["parameters"] if one["required"]]
    schema = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {"name": tool["name"], "description": tool["description"], "parameters": schema}


def _register(
    ubp_connection: UbpConnection, tools: list[dict[str, Any]], **metadata: str
) -> ubp_v1.CommandResponse:
    tool_defs = []
    for tool in tools:
        params = [ubp_tools_v1.ToolParameter(**one) for one in tool["parameters"]]
        definition = ubp_tools_v1.ToolDefinition(
            name=tool["name"], description=tool["description"], parameters=params
        )
        tool_defs.append(definition)
    any_payload = AnyMessage()
    any_payload.Pack(ubp_tools_v1.RegisterToolsArguments(tools=tool_defs))
    register_command = _Request(command_name="agent.register_tools", arguments=any_payload, metadata=metadata)
    ubp_connection.send(register_command)
    response: _Response = ubp_connection.receive()
    return response


def _succeeded(response: _Response) -> None:
    assert response.status == _Response.SUCCESS, response


def _success(command: _Request, value: str) -> _Response:
    response = _Response(command_id=command.command_id, status=_Response.SUCCESS)
    response.result.Pack(Value(string_value=value))
    return response


def _result(response: _Response) -> str:
    result = Value()
    assert response.result.Unpack(result), response
    return str(result.string_value)


def _struct(arguments: dict[str, Any]) -> Struct:
    found = Struct()
    found.update(arguments)
    return found


def _arguments(command: _Request) -> Struct:
    arguments = Struct()
    assert command.arguments.Unpack(arguments), command
    return arguments


def _enveloped(payload: _Request | _Response) -> ubp_v1.UbpMessage:
    if isinstance(payload, _Request):
        return ubp_v1.UbpMessage(message_id=f"m-{payload.command_id}", command_request=payload)
    return ubp_v1.UbpMessage(message_id=f"r-{payload.command_id}", command_response=payload)


def _payload(message: ubp_v1.UbpMessage) -> Any:
    kind = message.WhichOneof("payload")
    assert kind is not None, message
    return getattr(message, kind)


def _main(transport: str, address: str, database: str) -> None:
    with connection(transport, address, os.environ["UBP_KEY"]) as opened:
        agent = DatabaseQueryAgent(opened, Path(database))
        _succeeded(agent.register_tools_with_orchestrator())
        agent.listen_for_commands()


if __name__ == "__main__":
    _main(*sys.argv[1:])
