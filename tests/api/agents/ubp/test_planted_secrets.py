"""Secrets are planted wherever a connection of UBP has one, then searched for in frames, errors, logs and stores."""

import asyncio
import json

import asyncpg
import grpc
import grpc.aio
import pytest
import redis
import websockets

from app.formats.ubp.v1 import core_pb2
from app.storage.database import asyncpg_dsn
from tests.harness.canaries import LeakSearch, canary
from tests.harness.cases import for_each
from tests.harness.gateway import serve
from tests.harness.upstream import upstream
from tests.protocols.kits.base import free_port

VALUE = "type.googleapis.com/google.protobuf.Value"
METHOD = "/ubp.v1.Orchestrator/Connect"
OPEN_DOOR = {
    "name": "open_door",
    "description": "Opens a door.",
    "jsonSchema": json.dumps(
        {
            "type": "object",
            "properties": {
                "door": {"type": "string"},
                "pin": {"type": "string", "format": "password"},
                "code": {"type": "string", "writeOnly": True},
            },
        }
    ),
}


class Peer:
    """One connection in JSON; `seen` collects all that the gateway sends, as it arrived."""

    def __init__(self, socket):
        self.socket = socket
        self.seen = []

    async def message(self):
        text = await self.socket.recv()
        self.seen.append(text.encode() if isinstance(text, str) else text)
        return json.loads(text)

    async def command(self, name, arguments=None, command_id="", **metadata):
        request = {
            "commandId": command_id,
            "commandName": name,
            "arguments": arguments or {},
            "metadata": metadata,
        }
        await self.socket.send(json.dumps({"messageId": "m", "commandRequest": request}))

    async def response(self):
        while True:
            found = await self.message()
            if "commandResponse" in found:
                return found["commandResponse"]


async def repeat_arguments(executor):
    """Execute commands as an executor that repeats what it was sent: in its progress, results and errors."""
    while True:
        message = await executor.message()
        request = message.get("commandRequest")
        if request is None:
            continue
        arguments = request["arguments"].get("value", request["arguments"])
        metadata = {"reply_to": message["messageId"]}
        event = {
            "eventName": "command.progress",
            "payload": {"@type": VALUE, "value": {"progress": 1, "message": json.dumps(arguments)}},
        }
        await executor.socket.send(json.dumps({"event": event, "metadata": metadata}))
        failed = arguments.get("door") == "locked"
        response = {
            "commandId": request["commandId"],
            "status": "ERROR" if failed else "SUCCESS",
            "result": {"@type": VALUE, "value": arguments},
            "error": f"cannot open with {json.dumps(arguments)}" if failed else "",
        }
        await executor.socket.send(json.dumps({"commandResponse": response, "metadata": metadata}))


def websocket(gateway, key, path="/ubp"):
    url = gateway.url.replace("http", "ws", 1) + path
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return websockets.connect(url, additional_headers=headers, proxy=None)


@pytest.fixture(scope="module")
def own(servers, tmp_path_factory):
    """A gateway of its own, so that its log and its databases hold this module only."""
    settings = {"LOG_LEVEL": "debug", "CALL_LOG_BODIES": "all", "UBP_GRPC_PORT": str(free_port())}
    with serve(servers, tmp_path_factory.mktemp("ubp"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def grpc_port(own):
    return int(own.environment["UBP_GRPC_PORT"])


@pytest.fixture(scope="module")
def reflecting():
    """An upstream that sends back whatever it got."""
    with upstream() as running:
        yield running


async def stored(gateway):
    """Return what is readable of the gateway: its log, its databases, its metrics and records."""
    connection = await asyncpg.connect(asyncpg_dsn(gateway.database_url))
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = []
    for table in tables:
        for row in await connection.fetch(f'SELECT * FROM "{table["tablename"]}"'):
            rows.append(str(tuple(row.values())).encode())
            rows += [value for value in row.values() if isinstance(value, bytes)]
    await connection.close()
    client = redis.Redis.from_url(gateway.redis_url)
    cached = [name + b"=" + (client.dump(name) or b"") for name in client.scan_iter()]
    client.close()
    found = {
        "the log": gateway.log.read_bytes(),
        "PostgreSQL": b"\n".join(rows),
        "Redis": b"\n".join(cached),
    }
    with gateway.client() as client:
        for path in ("/metrics", "/calls", "/calls.csv", "/events", "/executors", "/providers", "/tools"):
            found[path] = client.get(path).content
    return found


def leaks(planted, outputs):
    search = LeakSearch(planted)
    return [leak for where, text in outputs.items() for leak in search.leaks_in(where, text)]


def new_key(gateway, name, *scopes, **limits):
    with gateway.client() as client:
        made = client.post("/keys", json={"name": name, "scopes": list(scopes), **limits})
        assert made.status_code == 201, made.text
        return made.json()["key"]


async def test_secrets_of_calls_are_in_no_frame_and_no_store(own, reflecting):
    planted = {
        "agent-key": new_key(own, "agent", "tools:call", "tools:read"),
        "executor-key": new_key(own, "executor", "executors:connect"),
        "upstream-key": canary("upstream-key"),
        "preset": canary("preset"),
        "pin": canary("pin"),
        "code": canary("code"),
    }
    with own.client() as client:
        source = {"document": reflecting.openapi()}
        credentials = {"key": {"kind": "api_key", "value": planted["upstream-key"]}}
        made = client.post("/providers", json={"name": "spec", "source": source, "credentials": credentials})
        assert made.status_code == 201, made.text
    async with (
        websocket(own, planted["executor-key"]) as first,
        websocket(own, planted["agent-key"]) as second,
    ):
        executor, agent = Peer(first), Peer(second)
        await executor.command(
            "agent.register_tools", {"tools": [OPEN_DOOR]}, role="executor", executor="doors", reply_to="true"
        )
        assert (await executor.response())["status"] == "SUCCESS"
        running = asyncio.create_task(repeat_arguments(executor))
        # The agent's own secrets, which the executor needs, are in no store and no log.
        for number, door in enumerate(("front", "locked")):
            arguments = {"door": door, "pin": planted["pin"], "code": planted["code"]}
            await agent.command("open_door", arguments, f"c-{number}", client_id="bot")
            status = (await agent.response())["status"]
            assert status == ("SUCCESS" if door == "front" else "ERROR")
        agent.seen.clear()
        # The credential, which the upstream repeats in its error.
        for name in ("spec.failing", "spec.withKey"):
            await agent.command(name, {}, f"c-{name}")
            assert (await agent.response())["status"] in ("ERROR", "SUCCESS", "INVALID_ARGUMENT")
        await agent.command("agent.list_tools", {"limit": 50})
        assert (await agent.response())["status"] == "SUCCESS"
        # Secrets that a toolset presets: its clients see none of what the executor repeats.
        changes = {"doors.open_door": {"presets": {"pin": planted["preset"]}}}
        seen = await asyncio.to_thread(_call_in_toolset, own, changes)
        running.cancel()
    assert LeakSearch({"upstream-key": planted["upstream-key"]}).leaks_in("", reflecting.wire())
    # The executor was sent what it has to know, and nothing else.
    search = LeakSearch({name: planted[name] for name in ("agent-key", "executor-key", "upstream-key")})
    assert search.leaks_in("frames to the executor", b"\n".join(executor.seen)) == []
    assert LeakSearch({"pin": planted["pin"]}).leaks_in("", b"\n".join(executor.seen))
    assert leaks(planted, {"frames to the agent": b"\n".join(agent.seen), **seen}) == []
    # Operators read presets in the definition of the toolset.
    del planted["preset"]
    assert leaks(planted, await stored(own)) == []


def _call_in_toolset(gateway, changes):
    """Call the tool with a preset secret, and return what its client has seen."""
    found = {}
    with gateway.client() as client:
        definition = {"providers": ["doors"], "changes": changes}
        made = client.put("/toolsets/lobby", json={"definition": definition})
        assert made.status_code == 201, made.text
    key = new_key(gateway, "lobby", "tools:call", "tools:read", toolsets=["lobby"])
    with gateway.client(key) as client:
        for door, status in (("front", 200), ("locked", 502)):
            response = client.post("/toolsets/lobby/tools/doors_open_door/call", json={"door": door})
            assert response.status_code == status, response.text
            assert door == "locked" or response.json()["door"] == "front"
            found[f"the call with {door}"] = response.content
    return found


BROKEN_FRAMES = {
    "JSON that is cut": '{"commandRequest": {"commandName": "x", "arguments": {"pin": "CANARY"',
    "a text in place of an object": '{"commandRequest": "CANARY"}',
    "a text in place of arguments": '{"commandRequest": {"arguments": "CANARY"}}',
    "a text in place of a time": '{"sentAt": "CANARY"}',
    "a text in place of metadata": '{"metadata": "CANARY"}',
    "bytes": b"\xffCANARY",
}


@for_each("frame", BROKEN_FRAMES.values(), ids=BROKEN_FRAMES)
async def test_a_malformed_frame_is_repeated_in_no_closing_frame_and_no_log(own, frame):
    planted = {"frame": canary("frame")}
    content = json.dumps(planted["frame"])[1:-1]
    if isinstance(frame, bytes):
        frame = frame.replace(b"CANARY", content.encode())
    else:
        frame = frame.replace("CANARY", content)
    async with websocket(own, own.key) as socket:
        await socket.send(frame)
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await socket.recv()
    close = closed.value.rcvd
    assert close.code in (1007, 1008)
    outputs = {"the closing frame": close.reason.encode(), "the log": own.log.read_bytes()}
    assert leaks(planted, outputs) == []


async def test_a_rejected_key_is_repeated_in_no_response_and_no_log(own, grpc_port):
    planted = {"websocket": canary("ws-key"), "query": canary("query"), "grpc": canary("grpc-key")}
    outputs = {}
    with pytest.raises(websockets.InvalidStatus) as rejected:
        async with websocket(own, planted["websocket"], f"/ubp?key={planted['query'].replace('+', '-')}"):
            pass
    response = rejected.value.response
    assert response.status_code == 401
    outputs["the denial"] = repr(response.headers).encode() + response.body
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        call = channel.stream_stream(METHOD)(metadata=(("authorization", f"Bearer {planted['grpc']}"),))
        assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
        outputs["the status"] = f"{await call.details()} {await call.trailing_metadata()}".encode()
    planted["query"] = planted["query"].replace("+", "-")
    assert leaks(planted, outputs | await stored(own)) == []


async def test_secrets_of_a_stream_of_grpc_are_in_no_message_and_no_store(own, grpc_port, reflecting):
    planted = {"key": new_key(own, "stream", "tools:call"), "credential": canary("stream-credential")}
    with own.client() as client:
        credentials = {"key": {"kind": "api_key", "value": planted["credential"]}}
        body = {"name": "streamed", "source": {"document": reflecting.openapi()}, "credentials": credentials}
        assert client.post("/providers", json=body).status_code == 201
    received = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
        call = channel.stream_stream(METHOD)(metadata=(("authorization", f"Bearer {planted['key']}"),))
        message = core_pb2.UbpMessage(message_id="m")
        message.command_request.command_id = "c"
        message.command_request.command_name = "streamed.failing"
        await call.write(message.SerializeToString())
        received.append(await call.read())
        await call.write(b"\xff\xff" + planted["credential"].encode())
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        outputs = {"the status": f"{await call.details()} {await call.trailing_metadata()}".encode()}
    response = core_pb2.UbpMessage.FromString(received[0]).command_response
    assert response.status not in (core_pb2.CommandResponse.SUCCESS, 0), response
    assert b"no: /fail/key" in received[0], response
    outputs["messages"] = b"\n".join(received)
    assert leaks(planted, outputs | await stored(own)) == []
