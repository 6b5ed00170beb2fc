"""gRPC: the six steps of UBP's chapter on tool calling, and how streams are admitted and ended."""

import asyncio
import subprocess
import sys
import time
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest
from google.protobuf import struct_pb2

from app.formats.ubp.v1 import core_pb2, tools_pb2
from tests.harness.certificates import certificate
from tests.harness.gateway import run_command, serve
from tests.protocols.kits.base import free_port

STATUS = core_pb2.CommandResponse


class Stream:
    """One end of `ubp.v1.Orchestrator/Connect`, by the classes that protoc makes of the .proto files."""

    def __init__(self, call):
        self.call = call
        self.number = 0

    async def send(self, message):
        self.number += 1
        message.message_id = f"m{self.number}"
        await self.call.write(message)
        return message.message_id

    async def read(self):
        message = await self.call.read()
        assert message is not grpc.aio.EOF, (await self.call.code(), await self.call.details())
        return message

    async def request(self, name, arguments=None, command_id="", **metadata):
        message = core_pb2.UbpMessage()
        request = message.command_request
        request.command_id, request.command_name = command_id, name
        request.metadata.update(metadata)
        if arguments is not None:
            request.arguments.Pack(arguments)
        sent = await self.send(message)
        while True:
            received = await self.read()
            if received.metadata.get("reply_to") == sent and received.HasField("command_response"):
                return received.command_response

    async def respond(self, message, value):
        response = core_pb2.UbpMessage(metadata={"reply_to": message.message_id})
        response.command_response.command_id = message.command_request.command_id
        response.command_response.status = STATUS.SUCCESS
        response.command_response.result.Pack(struct_pb2.Value(string_value=value))
        await self.send(response)

    async def ended(self):
        """Read to the end of the stream, and return its status."""
        while True:
            try:
                if await self.call.read() is grpc.aio.EOF:
                    break
            except grpc.aio.AioRpcError:
                break
        return await self.call.code(), await self.call.details()


@asynccontextmanager
async def connected(port, key, *, credentials=None):
    address = f"127.0.0.1:{port}"
    # A connection of its own each: the workers share the port.
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.aio.insecure_channel(address, options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options)
    )
    async with channel:
        connect = channel.stream_stream(
            "/ubp.v1.Orchestrator/Connect",
            request_serializer=lambda sent: sent if isinstance(sent, bytes) else sent.SerializeToString(),
            response_deserializer=core_pb2.UbpMessage.FromString,
        )
        metadata = (("authorization", f"Bearer {key}"),) if key else ()
        yield Stream(connect(metadata=metadata, wait_for_ready=True))


def definitions():
    parameter = tools_pb2.ToolParameter(
        name="order_id", type="integer", description="The number of the order.", required=True
    )
    tool = tools_pb2.ToolDefinition(
        name="get_order_status", description="Return the status of an order.", parameters=[parameter]
    )
    return tools_pb2.RegisterToolsArguments(tools=[tool])


def order(number):
    arguments = struct_pb2.Struct()
    arguments.update({"order_id": number})
    return arguments


async def register(executor, **metadata):
    answer = await executor.request(
        "agent.register_tools", definitions(), role="executor", executor="orders", reply_to="true", **metadata
    )
    assert answer.status == STATUS.SUCCESS, answer


async def call_once(executor, agent, command_id):
    """Let the agent ask for order 123; return what the executor has received, and the agent's response."""
    asked = asyncio.create_task(agent.request("get_order_status", order(123), command_id))
    received = await executor.read()
    await executor.respond(received, "Shipped")
    return received, await asked


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    port = free_port()
    with serve(servers, tmp_path_factory.mktemp("gateway"), UBP_GRPC_PORT=str(port)) as running:
        yield running, port


async def test_the_order_example_and_the_exact_arguments(gateway):
    running, port = gateway
    async with connected(port, running.key) as executor, connected(port, running.key) as agent:
        await register(executor)
        declared = await agent.request("agent.register_tools", definitions(), role="reasoner")
        assert declared.status == STATUS.SUCCESS
        sent = order(123)
        received, answer = await call_once(executor, agent, "c-1")
        request = received.command_request
        assert (request.command_id, request.command_name) == ("c-1", "get_order_status")
        assert request.arguments.type_url == "type.googleapis.com/google.protobuf.Struct"
        assert request.arguments.value == sent.SerializeToString()
        result = struct_pb2.Value()
        assert answer.result.Unpack(result)
        assert (answer.command_id, answer.status, result.string_value) == ("c-1", STATUS.SUCCESS, "Shipped")


async def test_two_askers_with_the_same_id_each_get_their_response(gateway):
    running, port = gateway
    async with (
        connected(port, running.key) as executor,
        connected(port, running.key) as first,
        connected(port, running.key) as second,
    ):
        await register(executor)
        asked = [
            asyncio.create_task(agent.request("get_order_status", order(number), "same"))
            for number, agent in ((1, first), (2, second))
        ]
        received = [await executor.read(), await executor.read()]
        for message in reversed(received):
            arguments = struct_pb2.Struct()
            assert message.command_request.arguments.Unpack(arguments)
            await executor.respond(message, f"order {int(arguments['order_id'])}")
        for number, task in enumerate(asked, 1):
            result = struct_pb2.Value()
            assert (await task).result.Unpack(result)
            assert result.string_value == f"order {number}"


async def test_progress_reaches_the_asker_before_the_response(gateway):
    running, port = gateway
    async with connected(port, running.key) as executor, connected(port, running.key) as agent:
        await register(executor)
        message = core_pb2.UbpMessage()
        message.command_request.command_id, message.command_request.command_name = "p-1", "get_order_status"
        message.command_request.arguments.Pack(order(5))
        sent = await agent.send(message)
        received = await executor.read()
        event = core_pb2.UbpMessage(metadata={"reply_to": received.message_id})
        event.event.event_name = "command.progress"
        event.event.payload.Pack(struct_pb2.Value(number_value=0.5))
        await executor.send(event)
        first = await agent.read()
        assert first.HasField("event")
        assert (first.event.event_name, first.event.metadata["command_id"]) == ("command.progress", "p-1")
        assert first.metadata["reply_to"] == sent
        await executor.respond(received, "done")
        assert (await agent.read()).command_response.status == STATUS.SUCCESS


async def test_one_stream_may_have_both_roles(gateway):
    running, port = gateway
    async with connected(port, running.key) as both:
        await register(both)
        message = core_pb2.UbpMessage()
        message.command_request.command_id, message.command_request.command_name = "b-1", "get_order_status"
        message.command_request.arguments.Pack(order(7))
        await both.send(message)
        received = await both.read()
        assert received.HasField("command_request")
        await both.respond(received, "own")
        answer = await both.read()
        assert answer.command_response.command_id == "b-1"
        assert answer.command_response.status == STATUS.SUCCESS


async def test_an_unknown_command_is_not_found(gateway):
    running, port = gateway
    async with connected(port, running.key) as agent:
        answer = await agent.request("no_such_command", order(1), "u-1")
        assert (answer.command_id, answer.status) == ("u-1", STATUS.NOT_FOUND)


@pytest.mark.parametrize("key", ["", "ug_wrong"])
async def test_a_stream_without_a_valid_key_is_unauthenticated(gateway, key):
    async with connected(gateway[1], key) as stream:
        code, details = await stream.ended()
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert details


async def test_a_key_without_a_scope_is_denied(gateway):
    running, port = gateway
    with running.client() as client:
        made = client.post("/keys", json={"name": "reader", "scopes": ["tools:read"]}).json()
    async with connected(port, made["key"]) as stream:
        assert (await stream.ended())[0] is grpc.StatusCode.PERMISSION_DENIED


async def test_a_revoked_key_ends_its_streams(gateway):
    running, port = gateway
    with running.client() as client:
        made = client.post("/keys", json={"name": "bot", "scopes": ["tools:call"]}).json()
        async with connected(port, made["key"]) as stream:
            assert (await stream.request("agent.ping")).status == STATUS.SUCCESS
            began = time.monotonic()
            assert client.delete(f"/keys/{made['id']}").is_success
            assert (await stream.ended())[0] is grpc.StatusCode.UNAUTHENTICATED
            assert time.monotonic() - began < 10


async def test_bytes_that_are_no_message_end_the_stream(gateway):
    running, port = gateway
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/ubp.v1.Orchestrator/Connect")(
            metadata=(("authorization", f"Bearer {running.key}"),)
        )
        await call.write(b"\xff\xff\xff")
        assert (await Stream(call).ended())[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_malformed_result_fails_its_command_alone(gateway):
    running, port = gateway
    async with connected(port, running.key) as executor, connected(port, running.key) as agent:
        await register(executor)
        asked = asyncio.create_task(agent.request("get_order_status", order(123), "failing"))
        received = await executor.read()
        response = core_pb2.UbpMessage(metadata={"reply_to": received.message_id})
        response.command_response.command_id, response.command_response.error = "failing", "BAD"
        # The generated classes write no such bytes.
        await executor.call.write(response.SerializeToString().replace(b"BAD", b"B\xffD"))
        answer = await asked
        assert (answer.command_id, answer.status) == ("failing", STATUS.ERROR)
        assert "malformed" in str(answer)
        _, answer = await call_once(executor, agent, "other")
        assert answer.status == STATUS.SUCCESS


async def test_a_message_beyond_the_limit_ends_the_stream(gateway):
    running, port = gateway
    async with connected(port, running.key) as stream:
        await stream.send(core_pb2.UbpMessage(metadata={"x": "a" * (9 << 20)}))
        assert (await stream.ended())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def two_workers(servers, tmp_path):
    port = free_port()
    with serve(servers, tmp_path, workers=2, UBP_GRPC_PORT=str(port)) as running:
        yield running, port


async def test_workers_share_the_port_and_open_commands_end_before_the_stop(two_workers):
    running, port = two_workers
    async with connected(port, running.key) as executor, connected(port, running.key) as agent:
        await register(executor)
        asked = asyncio.create_task(agent.request("get_order_status", order(1), "open"))
        received = await executor.read()
        running.process.terminate()
        # The gateway waits for the open command, and takes no other.
        await asyncio.sleep(2)
        await executor.respond(received, "Shipped")
        assert (await asked).status == STATUS.SUCCESS
        assert (await agent.ended())[0] is grpc.StatusCode.UNAVAILABLE
        assert (await executor.ended())[0] is grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def with_tls(servers, tmp_path):
    chain, private, _, _ = certificate("127.0.0.1")
    (tmp_path / "tls.pem").write_text(chain)
    (tmp_path / "tls.key").write_text(private)
    port = free_port()
    settings = {
        "UBP_GRPC_PORT": str(port),
        "UBP_GRPC_CERTIFICATE_FILE": str(tmp_path / "tls.pem"),
        "UBP_GRPC_KEY_FILE": str(tmp_path / "tls.key"),
    }
    with serve(servers, tmp_path, **settings) as running:
        yield running, port, chain


async def test_tls(with_tls):
    running, port, chain = with_tls
    credentials = grpc.ssl_channel_credentials(chain.encode())
    async with connected(port, running.key, credentials=credentials) as stream:
        assert (await stream.request("agent.ping")).status == STATUS.SUCCESS


async def test_a_port_in_use_is_an_error_of_the_start(gateway):
    running, port = gateway
    environment = {**running.environment, "UBP_GRPC_PORT": str(port)}
    done = await asyncio.to_thread(run_command, "serve", "--port", "0", environment=environment)
    assert done.returncode != 0
    assert f"cannot listen on 127.0.0.1:{port}" in done.stdout + done.stderr


WITHOUT_GRPC = """
import sys
sys.modules["grpc"] = None  # As if it were not installed.
from app.cli.root import app
app()
"""


def test_a_port_without_grpcio_is_an_error_of_the_start(gateway, tmp_path):
    running, _ = gateway
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_GRPC, "serve", "--port", "0"],
        env=dict(running.environment) | {"UBP_GRPC_PORT": str(free_port())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "UBP_GRPC_PORT needs grpcio: install utcp-gateway[grpc]." in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
