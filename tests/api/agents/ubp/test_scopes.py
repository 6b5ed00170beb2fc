"""What a key may do on `/ubp`, by its scopes and limits: each command needs the scope of what it does."""

import json
from contextlib import asynccontextmanager

import pytest
import websockets

TOOL = {"name": "get_order_status", "description": "Return the status of an order.", "parameters": []}


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get()


async def toolset_client(application, admin, toolset, *scopes):
    """Return a client with a new key that is limited to a toolset."""
    made = await admin.post("/keys", json={"name": "k", "scopes": scopes, "toolsets": [toolset]})
    assert made.status_code == 201, made.text
    client = await application.client()
    client.headers["authorization"] = f"Bearer {made.json()['key']}"
    return client


@asynccontextmanager
async def peer(application, *scopes, **limits):
    """A function that sends a command on a connection of a new key, and returns the response."""
    async with connected(application, await application.client(*scopes, **limits)) as command:
        yield command


@asynccontextmanager
async def connected(application, client):
    """The same for the key of a client."""
    url = application.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": client.headers["authorization"]}
    async with websockets.connect(url, additional_headers=headers) as socket:

        async def command(name, arguments=None, **metadata):
            request = {"commandName": name, "arguments": arguments or {}, "metadata": metadata}
            await socket.send(json.dumps({"messageId": "m", "commandRequest": request}))
            return json.loads(await socket.recv())["commandResponse"]

        yield command


def registered(command, role="executor", name="orders"):
    return command("agent.register_tools", {"tools": [TOOL]}, role=role, executor=name)


def missing(response):
    assert response["status"] == "PERMISSION_DENIED", response
    return response["result"]["value"]["missing_scopes"]


async def test_a_key_of_executors_calls_and_reads_no_tools(application):
    async with peer(application, "executors:connect") as command:
        assert (await registered(command))["status"] == "SUCCESS"
        assert missing(await command("get_order_status")) == ["tools:call"]
        assert missing(await command("agent.list_tools")) == ["tools:read"]
        assert missing(await registered(command, role="reasoner")) == ["tools:read"]


async def test_a_key_of_executors_learns_of_no_tool_by_registering_without_a_role(application):
    async with peer(application, "executors:connect") as command:
        assert (await registered(command, name="orders-3"))["status"] == "SUCCESS"
    async with peer(application, "executors:connect") as command:
        response = await command("agent.register_tools", {"tools": [TOOL]})
        assert response["status"] == "SUCCESS", response
        assert response["result"]["value"]["role"] == "executor"


async def test_a_key_of_agents_registers_as_no_executor(application):
    async with peer(application, "tools:call", "tools:read") as command:
        assert missing(await registered(command)) == ["executors:connect"]
        assert (await command("agent.list_tools"))["status"] == "SUCCESS"


async def test_a_key_without_either_scope_does_not_connect(application):
    with pytest.raises(websockets.InvalidStatus) as rejected:
        async with peer(application, "tools:read", "providers:read"):
            pass
    assert rejected.value.response.status_code == 403


async def test_a_key_registers_no_executor_of_another_provider(application):
    async with peer(application, "executors:connect", providers=["billing"]) as command:
        response = await registered(command, name="orders-2")
        assert response["status"] == "PERMISSION_DENIED", response
        assert (await registered(command, name="billing"))["status"] == "SUCCESS"


async def test_a_command_that_a_key_may_not_use_is_unknown(application):
    """By its own name, by that of its tool, and when it is declared: as one that nobody has registered."""
    hidden = {**TOOL, "name": "qqqqqw"}
    async with peer(application, "executors:connect") as executor:
        answer = await executor(
            "agent.register_tools", {"tools": [hidden]}, role="executor", executor="orders-4"
        )
        assert answer["status"] == "SUCCESS", answer
        for limits in ({"providers": ["billing"]}, {"tags": ["team-a"]}):
            async with peer(application, "tools:call", "tools:read", **limits) as agent:
                for prefix in ("", "orders-4."):
                    seen = [await _comparable(agent, prefix + name) for name in (hidden["name"], "jjjjjx")]
                    assert seen[0] == seen[1]
                listed = await agent("agent.list_tools", {"q": "qqqqqw"})
                assert "qqqqqw" not in json.dumps(listed)


async def test_a_key_that_is_limited_to_toolsets_sees_and_calls_only_their_tools(application):
    hidden, shown = {**TOOL, "name": "kkkkkq"}, {**TOOL, "name": "wwwwwk"}
    async with peer(application, "executors:connect") as executor:
        answer = await executor(
            "agent.register_tools", {"tools": [hidden, shown]}, role="executor", executor="lobby"
        )
        assert answer["status"] == "SUCCESS", answer
        admin = await application.client("admin")
        definition = {"tools": ["lobby.wwwwwk"]}
        made = await admin.put("/toolsets/desk", json={"definition": definition})
        assert made.status_code == 201, made.text
        scopes = ("tools:call", "tools:read", "executors:connect")
        client = await toolset_client(application, admin, "desk", *scopes)
        async with connected(application, client) as agent:
            for prefix in ("", "lobby.", "desk."):
                seen = [await _comparable(agent, prefix + name) for name in (hidden["name"], "jjjjjx")]
                assert seen[0] == seen[1]
            for arguments in ({}, {"q": "order"}, {"q": hidden["name"]}):
                listed = await agent("agent.list_tools", arguments)
                assert listed["status"] == "SUCCESS"
                assert hidden["name"] not in str(listed["result"])
            assert "wwwwwk" in str((await agent("agent.list_tools"))["result"])
            for name in ("wwwwwk", "lobby.wwwwwk"):
                declared = await agent("agent.register_tools", {"tools": [{**shown, "name": name}]})
                assert declared["status"] == "SUCCESS", declared
            # It registers no provider, neither that of the toolset nor a new one.
            for name in ("lobby", "other"):
                assert (await registered(agent, name=name))["status"] == "PERMISSION_DENIED"
        for name in (hidden["name"], f"lobby.{hidden['name']}"):
            response = await client.post("/ubp/commands", json={"commandName": name})
            assert response.json()["status"] == "NOT_FOUND"


async def _comparable(agent, name):
    """The responses to a command and to its declaration, without the name and the id of the call."""
    called = await agent(name)
    called["metadata"].pop("call_id")
    called["result"]["value"].pop("call_id", None)
    declared = await agent("agent.register_tools", {"tools": [{**TOOL, "name": name}]}, role="reasoner")
    assert (called["status"], declared["status"]) == ("NOT_FOUND", "NOT_FOUND")
    return json.dumps([called, declared]).replace(name, "NAME")
