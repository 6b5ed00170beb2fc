"""The rest of a result that was cut is read by the key whose call it was, and by no other."""

import re

import pytest

from .visibility import meta_tool, tool_calls

HANDLE = re.compile(r"c_[A-Za-z0-9_-]{22}(?:\.[ib][0-9]+)?")
UNKNOWN = "c_" + "A" * 22


async def handle_of(client, address=""):
    response = await meta_tool("call_read_tool", {"name": "mine_listStars"}).send(client, address)
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result["isError"]
    return HANDLE.search(result["content"][0]["text"])[0]


async def rest_of(client, handle, address=""):
    response = await meta_tool("read_more", {"continuation": handle}).send(client, address)
    assert response.status_code == 200, response.text
    return response.json()["result"]


async def test_the_rest_is_read_without_another_call(gateway_app, world, upstream):
    client = await gateway_app.client("tools:read", "tools:call", providers=("mine",))
    before = len(upstream.paths)
    handle, stars = await handle_of(client), 0
    while handle is not None:
        result = await rest_of(client, handle)
        assert not result["isError"], result
        text = result["content"][0]["text"]
        stars += text.count("star ")
        found = HANDLE.search(text)
        handle = None if found is None else found[0]
    assert 0 < stars < 2000
    assert "star 1999" in text
    assert len(upstream.paths) == before + 1


@pytest.mark.parametrize(
    "limits", [{}, {"providers": ("mine",)}, {"tags": ("team-a",)}], ids=["all", "same", "tag"]
)
async def test_another_key_does_not_know_the_continuation(limits, gateway_app, world):
    owner = await gateway_app.client("tools:read", "tools:call", providers=("mine",))
    other = await gateway_app.client("tools:read", "tools:call", **limits)
    handle = await handle_of(owner)
    foreign, unknown = await rest_of(other, handle), await rest_of(other, UNKNOWN)
    assert foreign["isError"]
    assert str(foreign).replace(handle, "?") == str(unknown).replace(UNKNOWN, "?")
    assert not (await rest_of(owner, handle))["isError"]


async def test_a_key_that_may_no_longer_use_the_tool_does_not_read_its_rest(gateway_app, world):
    admin = world
    made = (await admin.post("/keys", json={"name": "k", "scopes": ["tools:read", "tools:call"]})).json()
    client = await gateway_app.client("tools:read", "tools:call")
    client.headers["authorization"] = f"Bearer {made['key']}"
    handle = await handle_of(client)
    changed = await admin.patch(f"/keys/{made['id']}", json={"providers": ["hidden"]})
    assert changed.status_code == 200, changed.text
    refused, unknown = await rest_of(client, handle), await rest_of(client, UNKNOWN)
    assert refused["isError"]
    assert str(refused).replace(handle, "?") == str(unknown).replace(UNKNOWN, "?")


async def test_a_model_of_another_interface_reads_it_by_the_same_handle(gateway_app, world):
    client = await gateway_app.client("tools:read", "tools:call", providers=("mine",))
    handle = await handle_of(client)
    function = {"name": "read_more", "arguments": f'{{"continuation": "{handle}"}}'}
    call = tool_calls("openai-chat", [{"id": "call_1", "type": "function", "function": function}])
    response = await call.send(client, "")
    assert response.status_code == 200, response.text
    assert "star 1" in response.text
