"""`GET /executors`: the connected executors, in pages, of the providers that the key may see."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple
from uuid import uuid4

import pytest
import websockets
from sqlalchemy import update

from app.catalog.tools import visible_providers
from app.storage.models import TENANT, Provider
from tests.api.agents.ubp.conftest import executor_key

COMMANDS = {"billing": ["make_invoice"], "orders": ["get_status", "cancel_order"], "stock": ["count_stock"]}


class Viewer(NamedTuple):
    """The limits of a key."""

    providers: frozenset[str] | None
    tags: frozenset[str] | None


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get()


@asynccontextmanager
async def executor(application, name, *, max_commands=32):
    """A connected executor, as its socket."""
    url = application.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": f"Bearer {await executor_key(application)}"}
    tools = [{"name": one, "description": "A command.", "parameters": []} for one in COMMANDS[name]]
    metadata = {"role": "executor", "executor": name, "max_commands": str(max_commands)}
    registration = {
        "commandName": "agent.register_tools",
        "arguments": {"tools": tools},
        "metadata": metadata,
    }
    async with websockets.connect(url, additional_headers=headers) as socket:
        await socket.send(json.dumps({"messageId": "m", "commandRequest": registration}))
        response = json.loads(await socket.recv())["commandResponse"]
        assert response["status"] == "SUCCESS", response
        yield socket


@pytest.fixture
async def admin(application):
    """A client, while three executors are connected; `orders` twice."""
    async with AsyncExitStack() as stack:
        for name in ("orders", "billing", "stock", "orders"):
            await stack.enter_async_context(executor(application, name))
        yield await application.client("admin")


async def names(client, **query):
    response = await client.get("/executors", params=query)
    assert response.status_code == 200, response.text
    page = response.json()
    assert page["total"] == len(page["items"])
    return [one["executor"] for one in page["items"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, ["billing", "orders", "orders", "stock"]),
        ({"sort": "-executor"}, ["stock", "orders", "orders", "billing"]),
        ({"sort": "connected_at"}, ["orders", "billing", "stock", "orders"]),
        ({"sort": "-connected_at"}, ["orders", "stock", "billing", "orders"]),
        ({"executor": "orders"}, ["orders", "orders"]),
        ({"q": "STOCK"}, ["stock"]),
        ({"q": "invoice"}, ["billing"]),
        ({"q": "%"}, []),
        ({"state": "idle", "q": "o"}, ["billing", "orders", "orders", "stock"]),
        ({"state": "full"}, []),
    ],
)
async def test_executors_are_sorted_searched_and_counted(admin, query, expected):
    assert await names(admin, **query) == expected


@pytest.mark.parametrize("sort", ["executor", "-executor", "connected_at", "-connected_at"])
async def test_pages_of_one_hold_each_connection_once(admin, sort):
    whole = (await admin.get("/executors", params={"sort": sort})).json()["items"]
    response = await admin.get("/executors", params={"sort": sort, "limit": 1})
    found = response.json()["items"]
    while "next" in response.links:
        response = await admin.get(response.links["next"]["url"])
        assert response.json()["total"] == 4
        found += response.json()["items"]
    assert [one["id"] for one in found] == [one["id"] for one in whole]
    assert len({one["id"] for one in found}) == 4


async def test_a_cursor_of_another_order_is_rejected(admin):
    cursor = (await admin.get("/executors", params={"limit": 1})).json()["next_cursor"]
    problem = (await admin.get("/executors", params={"cursor": cursor, "sort": "-executor"})).json()
    assert (problem["status"], problem["errors"][0]["pointer"]) == (422, "#/query/cursor")


async def test_a_key_sees_the_executors_of_its_providers_and_tags(application, admin):
    limited = await application.client("providers:read", providers=["orders", "unknown"])
    assert await names(limited) == ["orders", "orders"]
    async with application.services.database.transaction() as session:
        await session.execute(update(Provider).where(Provider.name == "stock").values(tags=["team-a"]))
    assert await names(await application.client("providers:read", tags=["team-a"])) == ["stock"]
    assert await names(await application.client("providers:read", tags=["team-b"])) == []


async def test_the_state_is_that_of_its_open_commands(application):
    client = await application.client("admin")
    async with executor(application, "stock", max_commands=2) as socket:
        calls = []
        states = [await _states(client)]
        for command_id in ("c-1", "c-2"):
            body = {"commandId": command_id, "commandName": "count_stock", "arguments": {}}
            calls.append(asyncio.create_task(client.post("/ubp/commands", json=body)))
            request = json.loads(await socket.recv())
            states.append(await _states(client))
        assert states == [[("idle", 0)], [("busy", 1)], [("full", 2)]]
        assert request["commandRequest"]["commandName"] == "count_stock"
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


async def _states(client):
    items = (await client.get("/executors")).json()["items"]
    return [(one["state"], one["open_commands"]) for one in items]


async def test_an_executor_that_has_disconnected_is_not_listed_and_its_tools_stay(application):
    client = await application.client("admin")
    async with executor(application, "billing"):
        assert await names(client) == ["billing"]
    while await names(client):  # noqa: ASYNC110 - the gateway notices it in its own time
        await asyncio.sleep(0.01)
    assert (await client.get("/tools/billing.make_invoice")).status_code == 200


async def test_the_providers_that_a_key_may_see_are_those_of_its_tenant(application):
    database, other = application.services.database, uuid4()
    async with database.transaction() as session:
        for tenant, name in ((TENANT, "own"), (other, "foreign")):
            provider = Provider(name=name, protocol="ubp", kind="manual", tags=["shared"], tenant_id=tenant)
            session.add(provider)
    viewer = Viewer(None, frozenset({"shared"}))
    async with database.read_session() as session:
        found = [
            await visible_providers(session, viewer, names=["own", "foreign"], tenant_id=tenant)
            for tenant in (TENANT, other)
        ]
    assert found == [{"own"}, {"foreign"}]
