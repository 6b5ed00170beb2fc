"""The rest of a result that was cut is read by the key whose call it was, and by no other."""

import re

import pytest

from tests.harness.cases import for_each

from .visibility import Call, meta_tool, tool_calls

HANDLE = re.compile(r"c_[A-Za-z0-9_-]{22}(?:\.[ib][0-9]+)?")
UNKNOWN = "c_" + "A" * 22


def by_tool_calls(handle):
    function = {"name": "read_more", "arguments": f'{{"continuation": "{handle}"}}'}
    return tool_calls("openai-chat", [{"id": "call_1", "type": "function", "function": function}])


READERS = {
    "mcp": lambda handle: meta_tool("read_more", {"continuation": handle}),
    "mcp-legacy": lambda handle: meta_tool("read_more", {"continuation": handle}, modern=False),
    "tool-calls": by_tool_calls,
    "rest": lambda handle: Call("/continuations/{handle}", url=f"/continuations/{handle}"),
}
reader = pytest.mark.parametrize("reader", READERS)


async def handle_of(client, address=""):
    response = await meta_tool("call_read_tool", {"name": "mine_listStars"}).send(client, address)
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result["isError"]
    return HANDLE.search(result["content"][0]["text"])[0]


async def rest_of(client, handle, reader, address=""):
    """Return the status and the body of the response, without the handle and without ids."""
    response = await READERS[reader](handle).send(client, address)
    text = response.text.replace(handle, "HANDLE")
    return response.status_code, re.sub(r"[0-9a-f-]{36}", "ID", text)


@pytest.fixture
async def owner(gateway_app, world):
    return await gateway_app.client("tools:read", "tools:call", providers=("mine",))


@reader
async def test_the_rest_is_read_without_another_call(owner, upstream, reader):
    before = len(upstream.paths)
    handle, stars = await handle_of(owner), 0
    while handle is not None:
        response = await READERS[reader](handle).send(owner, "")
        assert response.status_code == 200, response.text
        last, stars = response.text, stars + response.text.count("star ")
        found = HANDLE.search(last) or HANDLE.search(response.headers.get("link", ""))
        handle = None if found is None else found[0]
    assert stars > 0
    assert "star 1999" in last
    assert len(upstream.paths) == before + 1


@reader
@for_each("limits", [{}, {"providers": ("mine",)}, {"tags": ("team-a",)}], ids=["all", "same", "tag"])
async def test_another_key_does_not_know_the_continuation(limits, gateway_app, owner, reader):
    other = await gateway_app.client("tools:read", "tools:call", **limits)
    handle = await handle_of(owner)
    foreign = await rest_of(other, handle, reader)
    assert foreign == await rest_of(other, UNKNOWN, reader)
    assert "star" not in foreign[1]
    assert "star 1" in (await rest_of(owner, handle, reader))[1]


@reader
async def test_a_key_that_may_no_longer_use_the_tool_does_not_read_its_rest(gateway_app, world, reader):
    made = (await world.post("/keys", json={"name": "k", "scopes": ["tools:read", "tools:call"]})).json()
    client = await gateway_app.client("tools:read", "tools:call")
    client.headers["authorization"] = f"Bearer {made['key']}"
    handle = await handle_of(client)
    assert "star 1" in (await rest_of(client, handle, reader))[1]
    changed = await world.patch(f"/keys/{made['id']}", json={"providers": ["hidden"]})
    assert changed.status_code == 200, changed.text
    assert await rest_of(client, handle, reader) == await rest_of(client, UNKNOWN, reader)


@for_each("after", [["mixed"], ["view"], []], ids=["another-with-it", "another-without-it", "none"])
@reader
async def test_a_key_that_is_moved_between_toolsets_reads_what_it_sees_there(
    gateway_app, world, reader, after
):
    definition = {"definition": {"tools": ["mine.listStars"]}}
    stored = await world.put("/toolsets/stars", json=definition)
    assert stored.status_code in (200, 201), stored.text
    body = {"name": "k", "scopes": ["tools:read", "tools:call"], "toolsets": ["stars"]}
    made = (await world.post("/keys", json=body)).json()
    client = await gateway_app.client("tools:read", "tools:call")
    client.headers["authorization"] = f"Bearer {made['key']}"
    handle = await handle_of(client, "/toolsets/stars")
    # The address of the registry, where the key uses no tool, and that of the toolset.
    own = "/toolsets/stars" if reader != "rest" else ""
    assert "star 1" in (await rest_of(client, handle, reader, own))[1]
    changed = await world.patch(f"/keys/{made['id']}", json={"toolsets": after})
    assert changed.status_code == 200, changed.text
    address = f"/toolsets/{after[0]}" if after and reader != "rest" else ""
    found = await rest_of(client, handle, reader, address)
    if after == ["mixed"]:
        assert "star 1" in found[1]
    else:
        assert found == await rest_of(client, UNKNOWN, reader, address)
        assert "star" not in found[1].replace("/toolsets/stars", "")


@reader
async def test_a_tool_that_is_taken_out_of_the_toolset_is_no_longer_read(gateway_app, world, reader):
    definition = {"definition": {"tools": ["mine.listStars"]}}
    stored = await world.put("/toolsets/stars", json=definition)
    assert stored.status_code in (200, 201), stored.text
    body = {"name": "k", "scopes": ["tools:read", "tools:call"], "toolsets": ["stars"]}
    made = (await world.post("/keys", json=body)).json()
    client = await gateway_app.client("tools:read", "tools:call")
    client.headers["authorization"] = f"Bearer {made['key']}"
    handle = await handle_of(client, "/toolsets/stars")
    definition = {"definition": {"tools": ["mine.listPlanets"]}}
    assert (await world.put("/toolsets/stars", json=definition)).status_code == 200
    address = "/toolsets/stars" if reader != "rest" else ""
    assert await rest_of(client, handle, reader, address) == await rest_of(client, UNKNOWN, reader, address)


@reader
async def test_a_key_without_the_scope_does_not_read_it(gateway_app, world, owner, reader):
    handle = await handle_of(owner)
    reads_only = await gateway_app.client("tools:read", providers=("mine",))
    status, text = await rest_of(reads_only, handle, reader)
    assert status == 403
    assert "star" not in text
