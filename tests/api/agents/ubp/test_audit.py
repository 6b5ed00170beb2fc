"""Audit events of executors in `GET /events`: who has connected from where, with which tools, and its end."""

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.api.agents.ubp.test_grpc import connected as grpc_connected
from tests.api.agents.ubp.test_grpc import definitions
from tests.harness.ubp_peers import ORDER_STATUS, connected
from tests.protocols.kits.base import free_port


@pytest.fixture(scope="module")
async def application(applications):
    port = free_port()
    return await applications.get(
        ubp_grpc_port=port,
        ubp_grpc_host="127.0.0.1",
    )


@pytest.fixture
async def admin(application):
    return await application.client("admin")


@pytest.fixture
async def key(application):
    """A key of an executor: its text, its id, and the URL of the gateway."""
    return await new_key(application, "executors:connect", "tools:call")


async def new_key(application, *scopes):
    client = await application.client(*scopes)
    text = client.headers["authorization"].removeprefix("Bearer ")
    return SimpleNamespace(url=application.url, key=text, id=(await client.get("/me")).json()["id"])


async def events_of(admin, executor, count):
    """Return the events of an executor, the oldest first, once there are `count`."""
    query = {"object_type": "executor", "object_name": executor, "sort": "at"}
    found = []
    while len(found) < count:
        await asyncio.sleep(0.01)
        found = (await admin.get("/events", params=query)).json()["items"]
    return found


async def test_a_connection_is_recorded_from_its_beginning_to_its_end(application, admin, key):
    refund = {**ORDER_STATUS, "name": "refund"}
    async with connected(key) as peer:
        await peer.register("orders", ORDER_STATUS)
        await peer.register("orders", ORDER_STATUS)
        connection_id = (await admin.get("/executors")).json()["items"][0]["id"]
        await peer.request("agent.deregister_tools", {"names": ["get_order_status"]})
    found = await events_of(admin, "orders", 4)
    assert [one["action"] for one in found] == ["connected", "registered", "deregistered", "disconnected"]
    common = {"transport": "websocket", "address": "127.0.0.1", "connection_id": connection_id}
    connected_, registered, deregistered, disconnected = (one["detail"] for one in found)
    assert connected_ == common
    counts = {"added": 1, "changed": 0, "removed": 0, "unchanged": 0}
    assert registered == {
        **common, "commands": ["get_order_status"], "command_count": 1,
        "tools": {name: counts.get(name, 0) for name in registered["tools"]},
    }  # fmt: skip
    assert deregistered == {**common, "commands": ["get_order_status"], "command_count": 1}
    assert disconnected == {**common, "reason": "by-peer", "seconds": disconnected["seconds"]}
    assert {one["actor"] for one in found} == {key.id}
    async with connected(key) as peer:
        await peer.register("orders", ORDER_STATUS, refund)
    found = await events_of(admin, "orders", 4)
    # Those of the same minute are written as one at its end.
    assert len(found) == 4
    assert key.key not in json.dumps(found)


async def test_agents_are_not_recorded(application, admin):
    key = await new_key(application, "tools:call", "tools:read")
    async with connected(key) as agent:
        await agent.request("agent.list_tools")
    query = {"object_type": "executor", "actor": key.id}
    assert (await admin.get("/events", params=query)).json()["items"] == []


async def test_each_end_has_its_reason(application, admin, key):
    async def ended(executor, end):
        async with connected(key) as peer:
            await peer.register(executor, {**ORDER_STATUS, "name": f"{executor}_status"})
            await end(peer)
        found = await events_of(admin, executor, 3)
        return found[-1]["detail"]["reason"]

    async def lost(peer):
        peer.abort()

    async def sent(peer, text):
        await peer.send_text(text)
        await peer.wait_closed()

    assert await ended("lost", lost) == "lost"
    assert await ended("malformed", lambda peer: sent(peer, "{")) == "bad-request"
    assert await ended("unknown_member", lambda peer: sent(peer, '{"nothing": 1}')) == "invalid-input"
    large = '"' + "a" * (application.services.settings.max_request_bytes + 1) + '"'
    assert await ended("large", lambda peer: sent(peer, large)) == "too-large"


async def test_a_revoked_key_is_the_reason(application, admin, key):
    async with connected(key) as peer:
        await peer.register("revoked", {**ORDER_STATUS, "name": "revoked_status"})
        assert (await admin.delete(f"/keys/{key.id}")).is_success
        await peer.wait_closed()
    found = await events_of(admin, "revoked", 3)
    assert found[-1]["detail"]["reason"] == "unauthenticated"
    assert found[-1]["actor"] == key.id


async def test_streams_of_grpc_are_recorded(application, admin, key):
    async with grpc_connected(application.services.settings.ubp_grpc_port, key.key) as stream:
        await stream.request(
            "agent.register_tools", definitions(), role="executor", executor="by_grpc", reply_to="true"
        )
        await stream.call.done_writing()
        await stream.ended()
    found = await events_of(admin, "by_grpc", 3)
    common = {"transport": "grpc", "address": "127.0.0.1"}
    for one in found:
        assert common.items() <= one["detail"].items()
    assert found[-1]["detail"]["reason"] == "by-peer"
    async with grpc_connected(application.services.settings.ubp_grpc_port, key.key) as stream:
        await stream.request(
            "agent.register_tools", definitions(), role="executor", executor="cancelled", reply_to="true"
        )
        stream.call.cancel()
    assert (await events_of(admin, "cancelled", 3))[-1]["detail"]["reason"] == "lost"


async def test_a_loop_of_connections_writes_a_bounded_number_of_events(application, admin, key):
    for _ in range(10):
        async with connected(key) as peer:
            await peer.register("looping", {**ORDER_STATUS, "name": "looping_status"})
    found = await events_of(admin, "looping", 3)
    assert [one["action"] for one in found] == ["connected", "registered", "disconnected"]
