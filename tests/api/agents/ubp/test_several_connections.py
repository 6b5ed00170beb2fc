"""Connections of one executor that register different tools, as two releases side by side do."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from sqlalchemy import func, select

from app.storage.models import (
    TENANT,
    ChangeRow,
    Event,
    Revision,
    SourceRow,
    Tool,
    ToolHistoryEntry,
)
from tests.api.agents.ubp.conftest import defined, executor_of, until

_TABLES = (ChangeRow, Revision, SourceRow, Tool, ToolHistoryEntry)


@pytest.fixture(scope="module")
async def admin(pair):
    """A client of the first gateway."""
    return await pair[0].client("admin")


async def tools_of(client, provider):
    found = (await client.get("/tools", params={"provider": provider})).json()["items"]
    return [one["name"].partition(".")[2] for one in found]


async def connections(application, executor, number):
    """Whether an executor has so many connections, at all workers."""
    found = await application.services.commands.executors(TENANT)
    return [one.executor for one in found].count(executor) == number


async def stored_rows(application):
    """How many rows there are of each kind that a registration writes; of events, those of providers: those
    of connections are written in the background.
    """
    counted = [select(func.count()).select_from(one) for one in _TABLES]
    counted.append(select(func.count()).where(Event.object_type == "provider"))
    async with application.services.database.read_session() as session:
        return [(await session.execute(statement)).scalar_one() for statement in counted]


async def test_the_tools_are_those_of_all_connections_at_all_workers(pair, admin):
    async with executor_of(pair[0]) as old, executor_of(pair[1]) as new:
        await old.register("orders", defined("status"), defined("cancel"))
        await new.register("orders", defined("status"), defined("refund"))
        assert await tools_of(admin, "orders") == ["cancel", "refund", "status"]
        for tool, peer in (("cancel", old), ("refund", new)):
            response = await admin.post(f"/tools/orders.{tool}/call", json={})
            assert (response.status_code, response.json()) == (200, "Shipped")
            assert sum(peer.executed.values()) == 1


async def test_registrations_of_each_connection_by_turns_change_nothing(pair, admin):
    async with executor_of(pair[0]) as old, executor_of(pair[1]) as new:
        lists = {old: (defined("status"), defined("cancel")), new: (defined("status"), defined("refund"))}
        for peer, tools in lists.items():
            await peer.register("turns", *tools)
        before = await stored_rows(pair[0])
        for peer in (old, new, old):
            assert (await peer.register("turns", *lists[peer]))["changed"] is False
        assert await stored_rows(pair[0]) == before
        assert (await admin.get("/providers/turns")).json()["version"] == 2


async def test_a_disconnect_removes_nothing_and_the_next_registration_removes_what_nobody_has(pair, admin):
    async with executor_of(pair[0]) as new:
        async with executor_of(pair[1]) as old:
            await old.register("shop", defined("buy"), defined("barter"))
            await new.register("shop", defined("buy"), defined("pay"))
        await until(lambda: connections(pair[0], "shop", 1))
        assert await tools_of(admin, "shop") == ["barter", "buy", "pay"]
        assert (await new.register("shop", defined("buy"), defined("pay")))["changed"] is True
        assert await tools_of(admin, "shop") == ["buy", "pay"]


async def test_the_newest_definition_of_a_tool_is_taken(pair, admin):
    async with executor_of(pair[0]) as old, executor_of(pair[1]) as new:
        await old.register("news", defined("read", "Read it."), defined("print", "Print it."))
        await new.register("news", defined("read", "Read it aloud."))
        found = (await admin.get("/tools", params={"provider": "news"})).json()["items"]
        assert [one["description"] for one in found] == ["Print it.", "Read it aloud."]


async def test_named_commands_that_are_deregistered_remove_the_tools_that_no_other_connection_has(
    pair, admin
):
    async with executor_of(pair[0]) as old, executor_of(pair[1]) as new:
        await old.register("depot", defined("open"), defined("close"), defined("lock"))
        await new.register("depot", defined("open"))
        response = await old.request("agent.deregister_tools", {"names": ["open", "close", "absent"]})
        assert response["result"]["value"] == {"commands": ["lock"], "removed": ["close"]}
        assert await tools_of(admin, "depot") == ["lock", "open"]
        response = await new.request("agent.deregister_tools", {"names": ["open"]})
        assert response["result"]["value"] == {"commands": [], "removed": ["open"]}
        response = await old.request("agent.deregister_tools", {"names": ["lock"]})
        assert response["result"]["value"] == {"commands": [], "removed": ["lock"]}
        assert await tools_of(admin, "depot") == []
        assert (await old.register("depot", defined("open")))["changed"] is True
        assert await tools_of(admin, "depot") == ["open"]


async def test_an_executor_that_deregisters_all_commands_is_away(pair, admin):
    """So does one that stops: its tools are still there when it comes back."""
    async with executor_of(pair[0]) as executor:
        await executor.register("stopping", defined("run"))
        before = await stored_rows(pair[0])
        response = await executor.request("agent.deregister_tools")
        assert response["result"]["value"] == {"commands": [], "removed": []}
        tool = (await admin.get("/tools/stopping.run")).json()
        assert (tool["available"], await stored_rows(pair[0])) == (False, before)


async def test_connections_that_register_at_once_lose_no_tool(pair, admin):
    names = [f"task_{number}" for number in range(6)]
    async with AsyncExitStack() as stack:
        peers = [
            await stack.enter_async_context(executor_of(pair[number % 2])) for number in range(len(names))
        ]
        await asyncio.gather(
            *(peer.register("crew", defined(name)) for peer, name in zip(peers, names, strict=True))
        )
        assert await tools_of(admin, "crew") == names


async def test_a_registration_that_fails_leaves_the_connection_as_it_was(pair, admin):
    """The tools of a first registration are rejected as a whole, and those of a second one are not."""
    async with executor_of(pair[0]) as executor:
        await executor.register("steady", defined("run"))
        tools = [{**defined("walk"), "jsonSchema": "{"}]
        response = await executor.request(
            "agent.register_tools", {"tools": tools}, role="executor", executor="steady"
        )
        assert response["status"] == "INVALID_ARGUMENT"
        assert await tools_of(admin, "steady") == ["run"]
        assert (await admin.get("/tools/steady.run")).json()["available"] is True
