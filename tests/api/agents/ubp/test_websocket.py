"""`/ubp` as a WebSocket: its handshake, malformed messages, repeated commands, and how it ends."""

import asyncio
import itertools
import json
import re
import socket
import time
from pathlib import Path

import pytest
import websockets
from google.protobuf import struct_pb2

from app.agents.ubp.session import MAX_ANSWER_BYTES, MAX_ID_CHARACTERS, MAX_OPEN
from app.formats.ubp.v1 import core_pb2
from tests.api.agents.ubp.ubp_connection import DEFINITION, connected
from tests.harness import ubp_peers
from tests.harness.cases import for_each
from tests.harness.gateway import serve

UPGRADE = (
    b"GET /ubp HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    with serve(servers, tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture
def stopping(servers, tmp_path):
    with serve(servers, tmp_path) as running:
        yield running


def url(gateway):
    return gateway.url.replace("http", "ws", 1) + "/ubp"


def key_header(gateway):
    return f"Authorization: Bearer {gateway.key}\r\n".encode()


def exchange(gateway, data):
    """Return what the gateway sends until it closes the connection, or for a moment."""
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=2) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except TimeoutError:
            pass
        return received


async def register(executor):
    answer = await executor.request(
        "agent.register_tools", {"tools": [DEFINITION]}, role="executor", executor="orders", reply_to="true"
    )
    assert answer["commandResponse"]["status"] == "SUCCESS", answer


async def respond(executor, message, value):
    response = {
        "commandId": message["commandRequest"]["commandId"],
        "status": "SUCCESS",
        "result": {"@type": "type.googleapis.com/google.protobuf.Value", "value": value},
    }
    await executor.send({"commandResponse": response}, reply_to=message["messageId"])


async def ask(agent, command_id, number=1, **metadata):
    request = {
        "commandId": command_id,
        "commandName": "get_order_status",
        "arguments": {"order_id": number},
        "metadata": metadata,
    }
    return await agent.send({"commandRequest": request})


REJECTED_UPGRADES = {
    "no key": (UPGRADE + b"\r\n", b"HTTP/1.1 401"),
    "HTTP/1.0": (UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0") + b"KEY\r\n", b"HTTP/1.1 426"),
    "another version": (UPGRADE.replace(b"Version: 13", b"Version: 8") + b"KEY\r\n", b"HTTP/1.1 4"),
    "no nonce": (UPGRADE.replace(b"Sec-WebSocket-Key", b"X-Key") + b"KEY\r\n", b"HTTP/1.1 4"),
    "another protocol": (
        UPGRADE.replace(b"Upgrade: websocket", b"Upgrade: h2c") + b"KEY\r\n",
        b"HTTP/1.1 426",
    ),
    "POST": (UPGRADE.replace(b"GET", b"POST") + b"Content-Length: 0\r\nKEY\r\n", None),
    "a body of two lengths": (
        UPGRADE + b"KEYContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 400",
    ),
    "another origin": (UPGRADE + b"Origin: https://evil.example\r\nKEY\r\n", b"HTTP/1.1 403"),
}


@for_each(("request_bytes", "status"), REJECTED_UPGRADES.values(), ids=REJECTED_UPGRADES)
def test_an_upgrade_that_is_not_valid_opens_no_connection(gateway, request_bytes, status):
    response = exchange(gateway, request_bytes.replace(b"KEY", key_header(gateway)))
    assert response.startswith(b"HTTP/1.1 4" if status is None else status), response[:200]
    assert b" 101 " not in response


def test_what_follows_a_rejected_upgrade_is_no_request(gateway):
    smuggled = b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    response = exchange(gateway, UPGRADE + b"\r\n" + smuggled)
    assert response.count(b"HTTP/1.1 ") <= 1
    assert b"HTTP/1.1 200" not in response


def test_a_request_without_upgrade_is_told_to_upgrade(gateway):
    with gateway.client() as client:
        response = client.get("/ubp")
        assert (response.status_code, response.headers["upgrade"]) == (426, "websocket")
        assert response.headers["connection"].lower() == "upgrade"
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"] == "urn:utcp-gateway:problem:upgrade-required"
        head = client.head("/ubp")
        assert (head.status_code, head.headers["upgrade"], head.content) == (426, "websocket", b"")
        other = client.post("/ubp")
        assert (other.status_code, other.headers["allow"]) == (405, "GET, HEAD")
    with gateway.client(key="") as anonymous:
        assert anonymous.get("/ubp").status_code == 401


async def test_an_executor_gets_the_response_to_its_registration_before_any_command(gateway):
    async with connected(gateway) as executor:
        await register(executor)
    async with ubp_peers.connected(gateway) as agent:
        stopped = asyncio.Event()

        async def ask_always(number):
            while not stopped.is_set():
                number += 8
                await agent.request("get_order_status", {"order_id": 1}, f"always-{number}")

        asking = [asyncio.ensure_future(ask_always(number)) for number in range(8)]
        for _ in range(10):
            async with connected(gateway) as executor:
                await register(executor)
                await executor.received("commandRequest")
        stopped.set()
        await asyncio.gather(*asking)


async def test_the_same_origin_is_accepted(gateway):
    headers = {"Authorization": f"Bearer {gateway.key}"}
    async with websockets.connect(url(gateway), additional_headers=headers, origin=gateway.url) as opened:
        assert opened.response.status_code == 101
        assert "Sec-WebSocket-Extensions" not in opened.response.headers


CLOSING = {
    "no JSON": ("{", 1007, "not valid JSON"),
    "no object": ("[]", 1008, "object"),
    "an unknown member": ('{"nothing": 1}', 1008, "/nothing"),
    "a malformed command without an id": ('{"commandRequest": {"commandName": 5}}', 1008, "/commandRequest"),
    "bytes that are no message": (b"\xff\xff\xff", 1007, "UbpMessage"),
    "too much": ('"' + "a" * (9 << 20) + '"', 1009, ""),
}


@for_each(("frame", "code", "text"), CLOSING.values(), ids=CLOSING)
async def test_a_malformed_message_ends_the_connection(gateway, frame, code, text):
    async with connected(gateway) as peer:
        with pytest.raises(websockets.ConnectionClosed) as closed:  # noqa: PT012 - either may raise it.
            await peer.socket.send(frame)
            await peer.socket.recv()
        assert closed.value.rcvd.code == code
        assert text in closed.value.rcvd.reason


async def test_a_malformed_command_with_an_id_gets_a_response(gateway):
    async with connected(gateway) as peer:
        await peer.send({"commandRequest": {"commandId": "m-1", "commandName": 5}})
        answer = await peer.received("commandResponse")
        assert answer["metadata"]["reply_to"] == "m1"
        response = answer["commandResponse"]
        assert (response["commandId"], response["status"]) == ("m-1", "INVALID_ARGUMENT")
        assert response["result"]["value"]["errors"][0]["pointer"] == "/commandRequest/commandName"
        # The connection goes on.
        assert (await peer.request("agent.ping", {}))["commandResponse"]["status"] == "SUCCESS"


MALFORMED_RESULTS = {
    "a status of a wrong type": {"status": {}},
    "an unknown member": {"nothing": 1},
    "an error that is no text": {"error": 5},
    "a result that is no object": {"result": "Shipped"},
    "bytes": b"B\xffD",
}


@for_each("response", MALFORMED_RESULTS.values(), ids=MALFORMED_RESULTS)
async def test_a_malformed_result_fails_its_command_alone(gateway, response):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        for command_id in ("failing", "other"):
            await ask(agent, command_id)
        received = [await executor.received("commandRequest") for _ in range(2)]
        requests = {one["commandRequest"]["commandId"]: one for one in received}
        failing, other = requests["failing"], requests["other"]
        if isinstance(response, bytes):
            message = core_pb2.UbpMessage(metadata={"reply_to": failing["messageId"]})
            message.command_response.command_id, message.command_response.error = "failing", "BAD"
            await executor.socket.send(message.SerializeToString().replace(b"BAD", response))
        else:
            await executor.send(
                {"commandResponse": {"commandId": "failing", "status": "SUCCESS", **response}},
                reply_to=failing["messageId"],
            )
        answer = (await agent.received("commandResponse"))["commandResponse"]
        assert (answer["commandId"], answer["status"]) == ("failing", "ERROR")
        assert "malformed" in json.dumps(answer)
        await respond(executor, other, "Shipped")
        answer = (await agent.received("commandResponse"))["commandResponse"]
        assert (answer["commandId"], answer["status"]) == ("other", "SUCCESS")


async def test_a_repeated_command_is_executed_once(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        await ask(agent, "again")
        first = await executor.received("commandRequest")
        await ask(agent, "again")
        await respond(executor, first, "Shipped")
        answers = [await agent.received("commandResponse") for _ in range(2)]
        assert [one["commandResponse"]["result"]["value"] for one in answers] == ["Shipped", "Shipped"]
        assert {one["metadata"]["reply_to"] for one in answers} == {"m1", "m2"}
        await ask(agent, "again", number=2)
        other = (await agent.received("commandResponse"))["commandResponse"]
        assert other["status"] == "INVALID_ARGUMENT"
        # The executor was asked once.
        assert (await executor.request("agent.ping", {}))["commandResponse"]["status"] == "SUCCESS"


async def test_a_repeated_command_whose_response_is_no_longer_stored_is_rejected(gateway):
    text = "x" * 900_000
    number = MAX_ANSWER_BYTES // len(text) + 2
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        for one in range(number):
            await ask(agent, f"e-{one}")
            await respond(executor, await executor.received("commandRequest"), text)
            response = (await agent.received("commandResponse"))["commandResponse"]
            assert response["status"] == "SUCCESS", response["error"]
        await ask(agent, "e-0")
        response = (await agent.received("commandResponse"))["commandResponse"]
        assert (response["commandId"], response["status"]) == ("e-0", "ERROR")
        assert response["error"] == "The command was executed before; its response is no longer stored."
        await ask(agent, f"e-{number - 1}")
        response = (await agent.received("commandResponse"))["commandResponse"]
        assert response["result"]["value"] == text
        # Neither was sent to the executor again.
        assert (await executor.request("agent.ping", {}))["commandResponse"]["status"] == "SUCCESS"


async def test_a_response_after_the_deadline_is_dropped(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent, connected(gateway) as other:
        await register(executor)
        await ask(agent, "late", timeout_ms="100")
        message = await executor.received("commandRequest")
        response = (await agent.received("commandResponse"))["commandResponse"]
        assert (response["commandId"], response["status"]) == ("late", "TIMEOUT")
        cancel = (await executor.received("commandRequest"))["commandRequest"]
        assert cancel["commandName"] == "command.cancel"
        # Another command of the same id is open when the late response comes.
        await ask(other, "late", number=2)
        following = await executor.received("commandRequest")
        await respond(executor, message, "too late")
        await respond(executor, following, "in time")
        response = (await other.received("commandResponse"))["commandResponse"]
        assert response["result"]["value"] == "in time"
        # The agent gets nothing more for its command, and the same response when it repeats it.
        await ask(agent, "late", timeout_ms="100")
        repeated = (await agent.received("commandResponse"))["commandResponse"]
        assert repeated["status"] == "TIMEOUT"
        pong = await agent.request("agent.ping", {})
        assert pong["commandResponse"]["status"] == "SUCCESS"


async def test_responses_in_another_order_belong_to_their_commands(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        sent = {await ask(agent, f"o-{number}", number): number for number in range(8)}
        messages = [await executor.received("commandRequest") for _ in sent]
        for message in reversed(messages):
            arguments = message["commandRequest"]["arguments"]
            await respond(executor, message, arguments["order_id"])
        responses = [await agent.received("commandResponse") for _ in sent]
        found = {one["metadata"]["reply_to"]: one["commandResponse"] for one in responses}
        assert {name: response["result"]["value"] for name, response in found.items()} == sent
        assert {name: response["commandId"] for name, response in found.items()} == {
            name: f"o-{number}" for name, number in sent.items()
        }


async def test_responses_that_belong_to_no_command_change_nothing(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        foreign = {"commandId": "nobody", "status": "SUCCESS"}
        await executor.send({"commandResponse": foreign}, reply_to="none")
        await ask(agent, "r-1")
        message = await executor.received("commandRequest")
        await respond(executor, message, "first")
        await respond(executor, message, "second")
        assert (await agent.received("commandResponse"))["commandResponse"]["result"]["value"] == "first"
        await ask(agent, "r-2")
        message = await executor.received("commandRequest")
        unknown = {"commandId": "r-2", "status": "LATER_VERSION", "error": "no"}
        await executor.send({"commandResponse": unknown}, reply_to=message["messageId"])
        response = (await agent.received("commandResponse"))["commandResponse"]
        assert (response["status"], response["error"]) == ("ERROR", "no")


async def test_a_cancelled_command_is_cancelled_at_the_executor(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        await ask(agent, "long")
        message = await executor.received("commandRequest")
        await agent.send(
            {"commandRequest": {"commandName": "command.cancel", "arguments": {"command_id": "long"}}}
        )
        answers = [(await agent.received("commandResponse"))["commandResponse"] for _ in range(2)]
        assert {one.get("commandId", ""): one["status"] for one in answers} == {
            "long": "CANCELLED",
            "": "SUCCESS",
        }
        cancel = (await executor.received("commandRequest"))["commandRequest"]
        assert cancel["commandName"] == "command.cancel"
        arguments = cancel["arguments"].get("value", cancel["arguments"])
        assert arguments["message_id"] == message["messageId"]


@pytest.mark.parametrize("arguments", [{}, {"command_id": 5}, {"command_id": ""}, {"id": "long"}])
async def test_a_cancellation_that_names_no_command_is_rejected(gateway, arguments):
    async with connected(gateway) as peer:
        response = (await peer.request("command.cancel", arguments))["commandResponse"]
        assert response["status"] == "INVALID_ARGUMENT"
        problem = response["result"]["value"]
        assert problem["errors"][0]["pointer"] == "/arguments/command_id"
        assert problem["documentation_url"] == f"{gateway.url}/problems/invalid-input"
        # One that names a command which has ended changes nothing.
        response = (await peer.request("command.cancel", {"command_id": "c"}))["commandResponse"]
        assert response["result"]["value"] == {"cancelled": False}


async def test_a_command_id_has_at_most_256_characters(gateway):
    async with connected(gateway) as peer:
        found = []
        for length in (MAX_ID_CHARACTERS, MAX_ID_CHARACTERS + 1):
            request = {"commandId": "x" * length, "commandName": "agent.ping"}
            await peer.send({"commandRequest": request})
            found.append((await peer.received("commandResponse"))["commandResponse"])
        assert [one["status"] for one in found] == ["SUCCESS", "INVALID_ARGUMENT"]
        assert found[1]["result"]["value"]["errors"][0]["pointer"] == "/command_id"


async def test_an_executor_of_protocol_buffers_serves_an_agent_of_json(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        ping = core_pb2.UbpMessage(message_id="binary")
        ping.command_request.command_name = "agent.ping"
        await executor.socket.send(ping.SerializeToString())
        pong = core_pb2.UbpMessage.FromString(await executor.socket.recv())
        assert pong.command_response.status == core_pb2.CommandResponse.SUCCESS
        await ask(agent, "j-1", number=123)
        message = core_pb2.UbpMessage.FromString(await executor.socket.recv())
        arguments = struct_pb2.Struct()
        assert message.command_request.arguments.Unpack(arguments)
        assert dict(arguments) == {"order_id": 123}
        response = core_pb2.UbpMessage(metadata={"reply_to": message.message_id})
        response.command_response.command_id = "j-1"
        response.command_response.status = core_pb2.CommandResponse.SUCCESS
        response.command_response.result.Pack(struct_pb2.Value(string_value="Shipped"))
        await executor.socket.send(response.SerializeToString())
        assert (await agent.received("commandResponse"))["commandResponse"]["result"]["value"] == "Shipped"


async def test_a_revoked_key_ends_its_connection(gateway):
    with gateway.client() as client:
        made = client.post("/keys", json={"name": "bot", "scopes": ["tools:call"]}).json()
        async with connected(gateway, made["key"]) as peer:
            assert client.delete(f"/keys/{made['id']}").is_success
            began = time.monotonic()
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await peer.socket.recv()
            assert closed.value.rcvd.code == 1008
            assert time.monotonic() - began < 10


async def test_open_commands_end_before_the_gateway_stops(stopping):
    async with connected(stopping) as executor, connected(stopping) as agent:
        await register(executor)
        await ask(agent, "open")
        message = await executor.received("commandRequest")
        stopping.process.terminate()
        for number in itertools.count():
            late = await agent.request("agent.list_tools", {}, f"late-{number}")
            if late["commandResponse"]["status"] == "UNAVAILABLE":
                break
        await respond(executor, message, "Shipped")
        assert (await agent.received("commandResponse"))["commandResponse"]["result"]["value"] == "Shipped"
        for peer in (agent, executor):
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await peer.socket.recv()
            assert closed.value.rcvd.code == 1001


async def test_more_open_commands_than_allowed_are_rejected(gateway):
    async with connected(gateway) as executor, connected(gateway) as agent:
        await register(executor)
        for number in range(MAX_OPEN + 1):
            await ask(agent, f"o-{number}")
        answer = (await agent.received("commandResponse"))["commandResponse"]
        assert (answer["commandId"], answer["status"]) == (f"o-{MAX_OPEN}", "RATE_LIMITED")


TRANSCRIPT = re.search(
    r"^```text\n(executor -> gateway.*?)^```$",
    (Path(__file__).parents[4] / "docs" / "ubp.md").read_text(),
    re.MULTILINE | re.DOTALL,
)[1]
"""The six steps in docs/ubp.md, one message in each line."""
LINE = re.compile(
    r"(?P<sender>\w+) +-> (?P<receiver>\w+) +"
    r"(?:agent\.register_tools \((?P<metadata>[^)]*)\): (?P<tool>\w+)\((?P<parameter>\w+)\)"
    r"|CommandRequest (?P<id>\S+) (?P<command>\w+) (?P<arguments>.*)"
    r"|CommandResponse (?P<answered>\S+) (?P<status>\w+) (?P<value>.*))"
)


async def test_the_transcript_of_the_documentation_is_what_happens(gateway):
    """Messages to the gateway are sent, and those from it are compared with what arrives."""
    commands = {}
    async with connected(gateway) as executor, connected(gateway) as agent:
        peers = {"executor": executor, "agent": agent}
        for text in TRANSCRIPT.splitlines():
            line = LINE.fullmatch(text)
            assert line is not None, text
            if line["tool"]:
                metadata = dict(pair.split("=") for pair in line["metadata"].split(", "))
                assert (line["tool"], line["parameter"]) == (
                    DEFINITION["name"],
                    DEFINITION["parameters"][0]["name"],
                )
                arguments = {"tools": [DEFINITION]}
                answer = await peers[line["sender"]].request("agent.register_tools", arguments, **metadata)
                assert answer["commandResponse"]["status"] == "SUCCESS", answer
            elif line["command"] and line["receiver"] == "gateway":
                request = {
                    "commandId": line["id"],
                    "commandName": line["command"],
                    "arguments": json.loads(line["arguments"]),
                }
                await peers[line["sender"]].send({"commandRequest": request})
            elif line["command"]:
                message = await peers[line["receiver"]].received("commandRequest")
                commands[line["id"]] = message
                request = message["commandRequest"]
                assert (request["commandId"], request["commandName"]) == (line["id"], line["command"])
                assert request["arguments"] == json.loads(line["arguments"])
            elif line["receiver"] == "gateway":
                assert line["status"] == "SUCCESS"
                await respond(peers[line["sender"]], commands[line["answered"]], json.loads(line["value"]))
            else:
                response = (await peers[line["receiver"]].received("commandResponse"))["commandResponse"]
                assert (response["commandId"], response["status"]) == (line["answered"], line["status"])
                assert response["result"]["value"] == json.loads(line["value"])
