"""What UBP's chapter on tool calling says besides its example, over JSON: one test for each statement.

The example itself, and that commands are forwarded unchanged, is in test_order_example.py.
"""

import asyncio
import json

import pytest

from app.catalog.feed import ChangeNotice
from tests.harness.ubp_peers import connected
from tests.stored import store_provider, store_tool

NESTED = {
    "type": "object",
    "properties": {
        "order_id": {"type": "integer", "description": "The number of the order.", "minimum": 1},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    "required": ["order_id"],
}


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get()


@pytest.fixture(scope="module")
async def client(application):
    return await application.client("admin")


@pytest.fixture(scope="module")
def key(client):
    return client.headers["authorization"].removeprefix("Bearer ")


async def test_two_askers_with_the_same_id_each_get_their_response(application, key):
    both_are_open = asyncio.Barrier(2)

    async def number_of(request):
        await both_are_open.wait()
        return f"order {request['arguments']['order_id']}"

    async with (
        connected(application, key, number_of) as executor,
        connected(application, key) as first,
        connected(application, key) as second,
    ):
        await executor.register("orders")
        responses = await asyncio.gather(
            *(
                agent.request("get_order_status", {"order_id": number}, "the-same")
                for number, agent in ((1, first), (2, second))
            )
        )
    assert [one["commandId"] for one in responses] == ["the-same", "the-same"]
    assert [one["result"]["value"] for one in responses] == ["order 1", "order 2"]
    assert executor.executed == {"the-same": 2}


async def test_commands_of_an_executor_that_is_lost_are_unavailable(application, key):
    arrived = asyncio.Event()

    async def never(_):
        arrived.set()
        await asyncio.Event().wait()

    async with connected(application, key, never) as executor, connected(application, key) as agent:
        await executor.register("orders")
        asked = asyncio.create_task(agent.request("get_order_status", {"order_id": 123}, "lost"))
        await arrived.wait()
        executor.abort()
        response = await asked
    assert (response["commandId"], response["status"]) == ("lost", "UNAVAILABLE")


async def test_an_unknown_command_is_not_found(application, client, key):
    async with connected(application, key) as agent:
        response = await agent.request("no_such_command", {"order_id": 123}, "unknown")
    assert (response["commandId"], response["status"]) == ("unknown", "NOT_FOUND")
    body = {"commandId": "unknown", "commandName": "no_such_command", "arguments": {}}
    response = (await client.post("/ubp/commands", json=body)).json()
    assert (response["commandId"], response["status"]) == ("unknown", "NOT_FOUND")


async def test_a_flat_definition_appears_as_a_tool_with_its_json_schema(application, client, key):
    definition = {
        "name": "find_orders",
        "description": "Find orders.",
        "parameters": [
            {"name": "customer", "type": "string", "description": "The name.", "required": True},
            {"name": "limit", "type": "integer", "description": "At most so many.", "required": False},
            {"name": "open", "type": "boolean", "description": "", "required": False},
        ],
    }
    async with connected(application, key) as executor:
        await executor.register("flat", definition)
        tool = (await client.get("/tools/flat.find_orders")).json()
    assert tool["description"] == "Find orders."
    assert tool["inputs"] == {
        "type": "object",
        "properties": {
            "customer": {"type": "string", "description": "The name."},
            "limit": {"type": "integer", "description": "At most so many."},
            "open": {"type": "boolean"},
        },
        "required": ["customer"],
        "additionalProperties": False,
    }


async def test_a_tool_of_the_registry_goes_out_as_a_flat_definition_with_its_losses(application, key):
    services = application.services
    provider = await store_provider(services.database, "shop")
    template = {"call_template_type": "http", "http_method": "GET", "url": "https://shop.example/parcels"}
    await store_tool(
        services.database, provider, "send_parcel", call_template=template, inputs=NESTED,
        description="Send a parcel.",
    )  # fmt: skip
    await services.feed.catch_up()
    for reader in (services.search, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    async with connected(application, key) as agent:
        response = await agent.request("agent.list_tools", {"q": "send a parcel"})
    assert response["status"] == "SUCCESS", response
    definition = next(one for one in response["result"]["tools"] if one["name"].endswith("send_parcel"))
    assert definition["description"] == "Send a parcel."
    flat = {one["name"]: (one["type"], one["required"]) for one in definition["parameters"]}
    assert flat == {"order_id": ("integer", True), "address": ("object", False)}
    # A reader that knows the added fields loses nothing.
    assert json.loads(definition["jsonSchema"]) == NESTED
    losses = json.loads(response["metadata"]["losses"])[definition["name"]]
    details = {loss["pointer"]: loss["detail"] for loss in losses}
    assert details.keys() == {"/properties/order_id", "/properties/address"}
    assert "minimum" in details["/properties/order_id"]
