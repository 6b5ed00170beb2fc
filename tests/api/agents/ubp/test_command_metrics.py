"""Metrics of executors and commands at `/metrics`, after real commands."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.agents.ubp.session import MAX_OPEN
from tests.api.agents.ubp.test_grpc import connected as grpc_connected
from tests.api.agents.ubp.test_grpc import definitions
from tests.harness.ubp_peers import ORDER_STATUS, connected
from tests.protocols.kits.base import free_port

COMMANDS = "utcp_gateway_commands_total"
REJECTED = "utcp_gateway_ubp_messages_rejected_total"


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get(
        ubp_grpc_port=free_port(),
        ubp_grpc_host="127.0.0.1",
    )


@pytest.fixture
async def admin(application):
    return await application.client("admin")


@pytest.fixture
def gateway(application, admin):
    """Where peers connect, with which key."""
    return SimpleNamespace(url=application.url, key=admin.headers["authorization"].removeprefix("Bearer "))


async def series(admin):
    """Return the values of all series by their name and label values."""
    text = (await admin.get("/metrics")).text
    return Counter(
        {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )


async def until(admin, condition):
    """Return the series once they meet a condition."""
    found = await series(admin)
    while not condition(found):
        await asyncio.sleep(0.01)
        found = await series(admin)
    return found


def defined(name):
    return {**ORDER_STATUS, "name": name}


def call(admin, tool):
    return admin.post(f"/tools/{tool}/call", json={"order_id": 1})


async def test_each_end_of_a_command_is_counted_as_its_outcome(admin, gateway):
    begun, forever = asyncio.Event(), asyncio.Event()

    async def handle(request):
        name = request["commandName"]
        if name == "leave":
            executor.abort()
        if name != "answer":
            begun.set()
            await forever.wait()
        return "Shipped"

    async with connected(gateway, handler=handle) as executor, connected(gateway) as agent:
        names = ("answer", "leave", "wait")
        await executor.register("counted", *(defined(name) for name in names))
        assert (await series(admin))["utcp_gateway_executors", "websocket"] == 1
        timeout_ms = 50
        while not begun.is_set():
            before = await series(admin)
            late = await agent.request(
                "wait", {"order_id": 1}, f"late-{timeout_ms}", timeout_ms=str(timeout_ms)
            )
            assert late["status"] == "TIMEOUT"
            timeout_ms *= 2
        assert (await call(admin, "counted.answer")).status_code == 200
        begun.clear()
        waiting = asyncio.ensure_future(agent.request("wait", {"order_id": 1}, "unwanted"))
        await begun.wait()
        assert (await series(admin))["utcp_gateway_commands_open", "running"] == 1
        await agent.request("command.cancel", {"command_id": "unwanted"})
        assert (await waiting)["status"] == "CANCELLED"
        assert (await agent.request("leave", {"order_id": 1}, "left"))["status"] == "UNAVAILABLE"
    await until(admin, lambda found: not found["utcp_gateway_executors", "websocket"])
    assert (await call(admin, "counted.answer")).status_code == 502
    after = await series(admin)
    for outcome in ("success", "timeout", "cancelled", "disconnected"):
        assert after[COMMANDS, outcome] - before[COMMANDS, outcome] == 1, outcome
    assert after[COMMANDS, "not-connected"] > before[COMMANDS, "not-connected"]
    assert after[COMMANDS, "error"] == before[COMMANDS, "error"]
    assert after["utcp_gateway_commands_relayed_total",] == 0


async def test_another_status_of_the_executor_is_an_error(application, admin, gateway):
    before = await series(admin)
    port = application.services.settings.ubp_grpc_port
    async with grpc_connected(port, gateway.key) as executor, connected(gateway) as agent:
        await executor.request(
            "agent.register_tools", definitions(), role="executor", executor="failing", reply_to="true"
        )
        assert (await series(admin))["utcp_gateway_executors", "grpc"] == 1
        asked = asyncio.ensure_future(agent.request("failing.get_order_status", {"order_id": 1}, "c-1"))
        message = await executor.read()
        response = type(message)(metadata={"reply_to": message.message_id})
        response.command_response.command_id = message.command_request.command_id
        response.command_response.status = response.command_response.NOT_FOUND
        await executor.send(response)
        assert (await asked)["status"] == "NOT_FOUND"
        # Once more: nothing waits for it any more.
        await executor.send(response)
        name = (REJECTED, "unexpected")
        after = await until(admin, lambda found: found[name] > before[name])
    assert after[COMMANDS, "error"] - before[COMMANDS, "error"] == 1


async def test_commands_that_wait_for_a_busy_executor_are_shown(admin, gateway):
    forever = asyncio.Event()

    async def never(request):
        await forever.wait()

    async with connected(gateway, handler=never) as executor, connected(gateway) as agent:
        await executor.register("busy", defined("busy_status"), max_commands="2")
        sent = [
            asyncio.ensure_future(agent.request("busy_status", {"order_id": 1}, f"b-{number}"))
            for number in range(5)
        ]
        states = ("running", 2), ("waiting", 3)
        await until(
            admin, lambda found: all(found["utcp_gateway_commands_open", state] == n for state, n in states)
        )
    await asyncio.gather(*sent, return_exceptions=True)
    await until(
        admin, lambda found: not any(found["utcp_gateway_commands_open", state] for state, _ in states)
    )


async def test_messages_that_are_rejected_are_counted_by_reason(application, admin, gateway):
    async def rejected(frame, reason):
        before = await series(admin)
        async with connected(gateway) as peer:
            await peer.send_text(frame)
            found = await until(admin, lambda found: found[REJECTED, reason] > before[REJECTED, reason])
        assert found[REJECTED, reason] - before[REJECTED, reason] == 1

    await rejected("{", "malformed")
    await rejected('{"nothing": 1}', "malformed")
    await rejected('{"commandRequest": {"commandId": "m-1", "commandName": 5}}', "malformed")
    size = application.services.settings.max_request_bytes + 1
    await rejected('"' + "a" * size + '"', "too-large")
    await rejected('{"commandResponse": {"commandId": "nobody", "status": "SUCCESS"}}', "unexpected")


async def test_commands_beyond_the_limit_of_a_connection_are_counted(admin, gateway):
    forever = asyncio.Event()

    async def never(request):
        await forever.wait()

    before = await series(admin)
    async with connected(gateway, handler=never) as executor, connected(gateway) as agent:
        await executor.register("limited", defined("limited_status"))
        sent = [
            asyncio.ensure_future(agent.request("limited_status", {"order_id": 1}, f"l-{number}"))
            for number in range(MAX_OPEN + 3)
        ]
        name = (REJECTED, "too-many-commands")
        after = await until(admin, lambda found: found[name] - before[name] >= 3)
        assert after[name] - before[name] == 3
    await asyncio.gather(*sent, return_exceptions=True)
