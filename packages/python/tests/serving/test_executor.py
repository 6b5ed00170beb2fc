"""The executor at a real WebSocket server: registration, commands, cancellation, progress, reconnection, stop."""

import asyncio
import base64
import json
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
from serving_peers import GatewayPeer, GrpcGatewayPeer

from utcp_gateway_client.serving import Executor, GatewayRejected, serve
from utcp_gateway_client.serving.executor import reconnect_delay
from utcp_gateway_client.serving.ubp_v1 import core_pb2
from utcp_gateway_client.tools import ToolCollection, ToolError, current_trace, report_progress, tool

KEY = "ugw_key-for-tests"
GOOGLE = "type.googleapis.com/google.protobuf."
FAST = (0.01, 0.05)


@tool
def get_order_status(order_id: int) -> str:
    """Return the status of an order.

    :param order_id: The number of the order
    """
    return "Shipped" if order_id == 123 else "Unknown"


@tool
async def add(a: int, b: int = 1) -> int:
    return a + b


@tool
def picture() -> bytes:
    return b"\x00\xff"


@tool
def closed() -> None:
    raise ToolError("The shop is closed.")


@tool
def broken() -> None:
    raise ValueError("password=hunter2")


class Gates:
    """Tools that start, and end when they are told to."""

    def __init__(self) -> None:
        self.started: asyncio.Queue[int] = asyncio.Queue()
        self.open = asyncio.Event()
        self.thread_open = threading.Event()
        self.cancelled = 0
        self.was_cancelled = asyncio.Event()

    def tools(self) -> ToolCollection:
        loop = asyncio.get_running_loop()

        async def wait(number: int = 0) -> str:
            self.started.put_nowait(number)
            report_progress(1, 2, "started")
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                self.was_cancelled.set()
                raise
            return "done"

        def wait_in_thread(number: int = 0) -> str:
            report_progress(0.5)
            loop.call_soon_threadsafe(self.started.put_nowait, number)
            self.thread_open.wait()
            return "done"

        return ToolCollection([wait, wait_in_thread, add])


@pytest.fixture(params=[GatewayPeer, GrpcGatewayPeer], ids=["websocket", "grpc"])
async def peer(request):
    gateway = request.param(KEY)
    await gateway.start()
    yield gateway
    await gateway.stop()


def executor(peer: GatewayPeer, tools: Any, **options: Any) -> Executor:
    return Executor(tools, gateway=peer.url, key=KEY, **{"reconnect_seconds": FAST, **options})


def struct(**arguments: Any) -> dict[str, Any]:
    return {"@type": f"{GOOGLE}Struct", "value": arguments}


async def test_tools_are_registered_with_flat_and_whole_definitions(peer):
    async with executor(
        peer, ToolCollection([get_order_status, add]), name="orders", max_commands=3
    ) as running:
        connected = await peer.connections.get()
        await running.wait_registered()
    registration = connected.registration
    assert registration["commandName"] == "agent.register_tools"
    assert registration["metadata"] == {
        "role": "executor",
        "executor": "orders",
        "max_commands": "3",
        "reply_to": "true",
    }
    payload = registration["arguments"]
    assert payload["@type"] == "type.googleapis.com/ubp.v1.RegisterToolsArguments"
    assert [each["name"] for each in payload["tools"]] == ["get_order_status", "add"]
    (definition, _) = payload["tools"]
    assert definition["description"] == "Return the status of an order."
    schema = json.loads(definition["jsonSchema"])
    assert schema == get_order_status.argument_schema
    assert [{**each, "jsonSchema": json.loads(each["jsonSchema"])} for each in definition["parameters"]] == [
        {
            "name": "order_id",
            "type": "integer",
            "description": "The number of the order",
            "required": True,
            "jsonSchema": schema["properties"]["order_id"],
        }
    ]


async def test_commands_are_executed_and_named_in_the_response(peer):
    async with executor(peer, ToolCollection([get_order_status, add, picture])):
        connected = await peer.connections.get()
        answer = await connected.call("get_order_status", struct(order_id=123), command_id="c-1")
        assert answer == {
            "commandId": "c-1",
            "status": "SUCCESS",
            "result": {"@type": f"{GOOGLE}StringValue", "value": "Shipped"},
        }
        # A payload without @type is a Struct.
        assert (await connected.call("add", {"a": 1, "b": 2}))["result"] == {
            "@type": f"{GOOGLE}Value",
            "value": 3,
        }
        image = await connected.call("picture")
        assert image["result"] == {
            "@type": f"{GOOGLE}BytesValue",
            "value": base64.b64encode(b"\x00\xff").decode(),
        }
        assert (await connected.call("agent.ping"))["status"] == "SUCCESS"


async def test_long_integers_are_text_with_a_warning(peer):
    @tool
    def numbers() -> dict[str, Any]:
        return {"small": 2**53, "long": [2**53 + 1]}

    async with executor(peer, ToolCollection([numbers, add])):
        connected = await peer.connections.get()
        answer = await connected.call("numbers")
        assert answer["result"]["value"] == {"small": 2**53, "long": [str(2**53 + 1)]}
        assert answer["metadata"] == {"warning": "Integers beyond 2^53 are sent as text: /long/0"}
        # As they are sent, they are accepted.
        assert (await connected.call("add", struct(a=str(2**53 + 1), b=0)))["result"]["value"] == str(
            2**53 + 1
        )


async def test_errors_have_a_status_and_a_message(peer):
    async with executor(peer, ToolCollection([get_order_status, closed, broken])):
        connected = await peer.connections.get()
        invalid = await connected.call("get_order_status", struct(order_id="many"))
        assert (invalid["status"], invalid["error"]) == ("INVALID_ARGUMENT", "The arguments are not valid.")
        assert [each["pointer"] for each in invalid["result"]["value"]["errors"]] == ["/order_id"]
        said = await connected.call("closed")
        assert (said["status"], said["error"]) == ("ERROR", "The shop is closed.")
        failed = await connected.call("broken")
        assert (failed["status"], failed["error"]) == ("ERROR", "The tool has failed (ValueError).")
        unknown = await connected.call("absent")
        assert (unknown["status"], unknown["error"]) == ("NOT_FOUND", "This executor has no tool absent.")
        not_arguments = await connected.call("get_order_status", {"@type": f"{GOOGLE}Value", "value": [1]})
        assert not_arguments["status"] == "INVALID_ARGUMENT"


async def test_malformed_messages_are_left_out(peer):
    async with executor(peer, ToolCollection([add])):
        connected = await peer.connections.get()
        for text in (
            "nothing",
            "[]",
            '{"commandRequest": 1}',
            '{"commandRequest": {"commandId": 1}}',
            "{}",
            b"\xff",
        ):
            await connected.socket.send(text)
        await connected.socket.send(
            '{"message_id": "m", "command_request": {"command_id": "c", "command_name": "add", "arguments": {"a": 1}}}'
        )
        assert (await connected.reply("m"))["commandId"] == "c"


async def test_equal_command_ids_are_told_apart_by_their_envelopes(peer):
    async with executor(peer, ToolCollection([add])):
        connected = await peer.connections.get()
        envelopes = [
            await connected.command("add", struct(a=number), command_id="same") for number in range(5)
        ]
        for number, envelope in enumerate(envelopes):
            answer = await connected.reply(envelope)
            assert (answer["commandId"], answer["result"]["value"]) == ("same", number + 1)


async def test_no_more_commands_than_permitted_run_at_once(peer):
    gates = Gates()
    async with executor(peer, gates.tools(), max_commands=2):
        connected = await peer.connections.get()
        envelopes = [await connected.command("wait", struct(number=number)) for number in range(4)]
        assert [await gates.started.get() for _ in range(2)] == [0, 1]
        # The executor has read all commands once it has responded to this one, which needs no permit.
        await connected.call("agent.ping")
        assert gates.started.empty()
        gates.open.set()
        for envelope in envelopes:
            assert (await connected.reply(envelope))["status"] == "SUCCESS"


async def test_sync_functions_run_at_the_same_time(peer):
    gates = Gates()
    async with executor(peer, gates.tools(), max_commands=12):
        connected = await peer.connections.get()
        envelopes = [await connected.command("wait_in_thread", struct(number=number)) for number in range(12)]
        assert sorted([await gates.started.get() for _ in range(12)]) == list(range(12))
        gates.thread_open.set()
        for envelope in envelopes:
            assert (await connected.reply(envelope))["result"]["value"] == "done"


@pytest.mark.parametrize("by", ["message_id", "command_id"])
async def test_command_is_cancelled(peer, by):
    gates = Gates()
    async with executor(peer, gates.tools(), max_commands=1):
        connected = await peer.connections.get()
        envelope = await connected.command("wait", struct(number=1), command_id="c-1")
        waiting = await connected.command("wait", struct(number=2), command_id="c-2")
        assert await gates.started.get() == 1
        # The second one waits for a permit.
        for identity in ((waiting, "c-2"), (envelope, "c-1")):
            named = dict(zip(("message_id", "command_id"), identity, strict=True))
            cancelling = await connected.command("command.cancel", {by: named[by]})
            answers = {}
            while len(answers) < 2:
                message = await connected.messages.get()
                if "commandResponse" in message:
                    answers[message["metadata"]["reply_to"]] = message["commandResponse"]["status"]
            assert answers == {cancelling: "SUCCESS", identity[0]: "CANCELLED"}
        assert gates.cancelled == 1
        unknown = await connected.call("command.cancel", {by: "absent"})
        assert unknown["status"] == "NOT_FOUND"
        assert (await connected.call("add", struct(a=1)))["status"] == "SUCCESS"


async def test_cancelled_thread_is_waited_for_by_nobody(peer):
    gates = Gates()
    async with executor(peer, gates.tools(), max_commands=1):
        connected = await peer.connections.get()
        envelope = await connected.command("wait_in_thread")
        await gates.started.get()
        await connected.command("command.cancel", {"message_id": envelope})
        assert (await connected.reply(envelope))["status"] == "CANCELLED"
        gates.thread_open.set()
        assert (await connected.call("wait_in_thread"))["status"] == "SUCCESS"


@pytest.mark.parametrize("name", ["trace", "trace_in_thread"])
async def test_functions_know_the_trace_of_their_command(peer, name):
    async def trace() -> dict[str, str] | None:
        found = current_trace()
        return found and found.headers

    def trace_in_thread() -> dict[str, str] | None:
        found = current_trace()
        return found and found.headers

    of_agent = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    of_call = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-53995c3f42cd8ad8-01", "tracestate": "a=b"}
    async with executor(peer, ToolCollection([trace, trace_in_thread])):
        connected = await peer.connections.get()

        async def seen(of_command: dict[str, str] | None, of_envelope: dict[str, str] | None) -> Any:
            command: dict[str, Any] = {"commandId": "c-1", "commandName": name}
            if of_command is not None:
                command["metadata"] = of_command
            envelope = {} if of_envelope is None else {"metadata": of_envelope}
            message_id = await connected.send({"commandRequest": command, **envelope})
            return (await connected.reply(message_id))["result"]["value"]

        assert await seen(of_agent, of_call) == of_call
        assert await seen(of_agent, None) == of_agent
        assert await seen(of_agent, {"reply_to": "m"}) == of_agent
        assert await seen(None, None) is None


async def test_progress_is_sent_before_the_response(peer):
    gates = Gates()
    gates.open.set()
    gates.thread_open.set()
    async with executor(peer, gates.tools()):
        connected = await peer.connections.get()
        for name, value in (
            ("wait", {"progress": 1, "total": 2, "message": "started"}),
            ("wait_in_thread", {"progress": 0.5}),
        ):
            envelope = await connected.command(name, command_id="c-9")
            event, answer = await connected.messages.get(), await connected.messages.get()
            assert event["event"] == {
                "eventName": "command.progress",
                "payload": struct(**value),
                "metadata": {"command_id": "c-9"},
            }
            assert event["metadata"]["reply_to"] == answer["metadata"]["reply_to"] == envelope
            assert answer["commandResponse"]["status"] == "SUCCESS"


async def test_tools_are_registered_again_after_the_gateway_was_gone(peer):
    gates = Gates()
    async with executor(peer, gates.tools()) as running:
        first = await peer.connections.get()
        await first.command("wait")
        await gates.started.get()
        port = int(peer.url.rpartition(":")[2])
        await peer.stop()
        await first.closed.wait()
        # Nobody can be told the result.
        await gates.was_cancelled.wait()
        assert not running.is_registered
        await peer.start(port)
        second = await peer.connections.get()
        assert second.registration["arguments"] == first.registration["arguments"]
        assert (await second.call("add", struct(a=1)))["result"]["value"] == 2
        assert running.is_registered


async def test_executor_waits_for_a_gateway_that_is_not_there_yet(peer):
    port = int(peer.url.rpartition(":")[2])
    await peer.stop()
    async with executor(peer, ToolCollection([add])) as running:
        await asyncio.sleep(0.1)
        assert not running.is_registered
        await peer.start(port)
        connected = await peer.connections.get()
        assert (await connected.call("add", struct(a=1)))["status"] == "SUCCESS"


@pytest.mark.parametrize(("failed", "most"), [(0, 0.5), (1, 1), (3, 4), (6, 30), (10_000, 30)])
def test_delay_doubles_with_each_attempt_up_to_the_longest(failed, most):
    delays = [reconnect_delay(failed, (0.5, 30)) for _ in range(200)]
    assert most / 2 <= min(delays) < max(delays) <= most


async def test_registration_is_tried_again_while_the_gateway_is_unavailable(peer):
    peer.statuses = ["UNAVAILABLE", "RATE_LIMITED"]
    async with executor(peer, ToolCollection([add])) as running:
        await running.wait_registered()
    assert peer.attempts == 3


@pytest.mark.parametrize("status", ["INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED"])
async def test_rejected_tools_end_it(peer, status):
    peer.statuses = [status]
    with pytest.raises(GatewayRejected, match="rejects the tools"):
        await executor(peer, ToolCollection([add])).run_async()
    assert peer.attempts == 1


async def test_rejected_key_ends_it_and_is_not_told(peer):
    rejected = Executor(ToolCollection([add]), gateway=peer.url, key="wrong-key")
    with pytest.raises(GatewayRejected, match="The key is not known") as caught:
        await rejected.run_async()
    assert "wrong-key" not in str(caught.value)
    assert peer.attempts == 1
    running = Executor(ToolCollection([add]), gateway=peer.url)
    with pytest.raises(GatewayRejected):
        async with running:
            await running.wait_registered()


@pytest.mark.parametrize(
    ("status", "problem", "told"),
    [
        ("ERROR", {"status": 409, "retryable": False}, "ERROR"),
        (
            "INVALID_ARGUMENT",
            {
                "status": 422,
                "retryable": False,
                "errors": [{"pointer": "/metadata/executor", "detail": "Shorter."}],
            },
            "/metadata/executor: Shorter.",
        ),
    ],
)
async def test_a_registration_that_no_attempt_changes_ends_it_and_says_where(peer, status, problem, told):
    peer.statuses, peer.problem = [status], problem
    with pytest.raises(GatewayRejected, match=told):
        await executor(peer, ToolCollection([add])).run_async()
    assert peer.attempts == 1


@pytest.mark.parametrize("problem", [{"status": 409, "retryable": True}, {"status": 500, "retryable": False}])
async def test_a_registration_that_another_attempt_may_change_is_tried_again(peer, problem):
    peer.statuses, peer.problem = ["ERROR"], problem
    async with executor(peer, ToolCollection([add])) as running:
        await running.wait_registered()
    assert peer.attempts == 2


@pytest.mark.parametrize("key", ["ugw_canary\n", "ugw canary", "ugw_c\u00e4nary"])
def test_a_key_that_no_header_has_is_an_error_that_does_not_show_it(key):
    with pytest.raises(ValueError, match="characters that no key has") as caught:
        Executor(ToolCollection([add]), gateway="http://127.0.0.1", key=key)
    assert "nary" not in str(caught.value)


@pytest.mark.parametrize("peer", [GatewayPeer], indirect=True, ids=["websocket"])
async def test_redirect_is_not_followed(peer):
    elsewhere = GatewayPeer(KEY)
    await elsewhere.start()
    peer.location = f"{elsewhere.url}/ubp".replace("http", "ws", 1)
    try:
        running = executor(peer, ToolCollection([add]))
        task = asyncio.create_task(running.run_async())
        while peer.attempts < 2:  # noqa: ASYNC110 - the peer has no event for it
            await asyncio.sleep(0.01)
        running.stop()
        await task
        assert elsewhere.attempts == 0
    finally:
        await elsewhere.stop()


def test_user_in_the_url_is_rejected_and_not_told():
    with pytest.raises(ValueError, match="has no user") as caught:
        Executor(ToolCollection([add]), gateway="https://user:hidden-secret@gateway.example", key=KEY)
    assert "hidden-secret" not in str(caught.value)


async def stopped(gates: Gates, peer: GatewayPeer, **options: Any) -> tuple[Any, str, "asyncio.Task[None]"]:
    """Return a connection with an open command of an executor that was told to stop, and its task."""
    peer.confirms = False
    running = executor(peer, gates.tools(), **options)
    task = asyncio.create_task(running.run_async())
    connected = await peer.connections.get()
    envelope = await connected.command("wait")
    await gates.started.get()
    running.stop()
    return connected, envelope, task


async def test_open_commands_finish_at_a_stop(peer):
    gates = Gates()
    connected, envelope, task = await stopped(gates, peer)
    request = await connected.request()
    assert request["commandName"] == "agent.deregister_tools"
    # Until the gateway has confirmed it, commands may be on their way.
    late = await connected.command("add", struct(a=1))
    assert (await connected.reply(late))["status"] == "SUCCESS"
    await connected.confirm(request)
    assert not task.done()
    gates.open.set()
    assert (await connected.reply(envelope))["result"]["value"] == "done"
    await task
    await connected.closed.wait()
    assert gates.cancelled == 0
    assert peer.attempts == 1


async def test_commands_after_the_deregistration_are_unavailable(peer):
    gates = Gates()
    connected, envelope, task = await stopped(gates, peer)
    await connected.confirm(await connected.request())
    # Its response is behind the confirmation.
    await connected.call("agent.ping")
    assert (await connected.call("add", struct(a=1)))["status"] == "UNAVAILABLE"
    gates.open.set()
    assert (await connected.reply(envelope))["status"] == "SUCCESS"
    await task


async def test_commands_that_take_too_long_are_cancelled_at_a_stop(peer):
    gates = Gates()
    connected, envelope, task = await stopped(gates, peer, grace_seconds=0.05)
    await connected.confirm(await connected.request())
    assert (await connected.reply(envelope))["status"] == "CANCELLED"
    await task
    assert gates.cancelled == 1


async def test_stop_ends_it_while_there_is_no_gateway(peer):
    await peer.stop()
    async with executor(peer, ToolCollection([add]), reconnect_seconds=(60, 60)):
        await asyncio.sleep(0.05)
    await peer.start()


async def test_stop_ends_it_while_the_gateway_does_not_respond(peer):
    peer.statuses = [""]
    running = executor(peer, ToolCollection([add]))
    task = asyncio.create_task(running.run_async())
    await peer.silent.wait()
    running.stop()
    await task


async def test_result_that_is_too_large_is_an_error(peer):
    @tool
    def huge() -> str:
        return "x" * (17 << 20)

    async with executor(peer, ToolCollection([huge])):
        connected = await peer.connections.get()
        assert "bytes" in (await connected.call("huge"))["error"]


PROGRAM = """
import sys
from utcp_gateway_client.serving import serve

def double(a: int) -> int:
    return 2 * a

serve([double], gateway=sys.argv[1], key=sys.argv[2], name="program").run()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_program_ends_at_a_signal(peer, number):
    peer.confirms = False
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, peer.url, KEY, stderr=asyncio.subprocess.PIPE
    )
    try:
        connected = await peer.connections.get()
        assert (await connected.call("double", struct(a=2)))["result"]["value"] == 4
        process.send_signal(number)
        await connected.confirm(await connected.request())
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize("peer", [GrpcGatewayPeer], indirect=True, ids=["grpc"])
async def test_what_gives_no_message_of_grpc_is_an_error(peer):
    def nested() -> Any:
        value: Any = 1
        for _ in range(200):
            value = [value]
        return value

    async with executor(peer, ToolCollection([add, tool(nested)])):
        connected = await peer.connections.get()
        deep = await connected.call("nested")
        assert (deep["status"], deep["error"]) == ("ERROR", "The result is nested too deeply for gRPC.")
        # A message that only the agent knows.
        request = core_pb2.UbpMessage(message_id="m")
        request.command_request.command_id = "c"
        request.command_request.command_name = "add"
        request.command_request.arguments.type_url = "type.googleapis.com/shop.Order"
        request.command_request.arguments.value = b"\x08\x01"
        await connected.socket.send(request.SerializeToString())
        assert (await connected.reply("m"))["status"] == "INVALID_ARGUMENT"
        assert (await connected.call("add", struct(a=1)))["result"]["value"] == 2


def test_grpc_without_its_extra_names_it():
    program = (
        "import sys\nsys.modules['grpc'] = None\nfrom utcp_gateway_client.serving import serve\n"
        "def work() -> int: return 1\nserve([work], gateway='grpc://127.0.0.1:1')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ImportError: gRPC needs the extra grpc: pip install 'utcp-gateway-client[grpc]'." in done.stderr


@pytest.mark.parametrize(
    ("gateway", "url"),
    [
        ("http://gw.example:8000", "ws://gw.example:8000/ubp"),
        ("https://gw.example/team/", "wss://gw.example/team/ubp"),
        ("wss://gw.example", "wss://gw.example/ubp"),
    ],
)
def test_url_of_the_web_socket(gateway, url):
    assert serve([add], gateway=gateway).url == url


@pytest.mark.parametrize(
    ("tools", "options"),
    [([add], {"gateway": "gw.example"}), ([add], {"gateway": "ftp://x"}), ([], {"gateway": "http://x"}),
     ([add], {"gateway": "grpc://x"}), ([add], {"gateway": "grpc://x:1/ubp"}),
     ([add], {"gateway": "http://x", "max_commands": 0})],
)  # fmt: skip
def test_what_cannot_be_served_is_a_value_error(tools, options):
    with pytest.raises(ValueError):
        serve(tools, **options)
