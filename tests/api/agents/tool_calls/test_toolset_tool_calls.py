"""`POST /toolsets/{name}/tool-calls`: only the tools of the toolset, by its names and with its presets."""

import json

import pytest

DEFINITION = {
    "tools": ["p.read", "p.write"],
    "changes": {"p.read": {"name": "look", "presets": {"/color": "red"}}},
}


def block(name, arguments, call_id="t1"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


@pytest.fixture
async def toolset(application, tools):
    admin = await application.client("admin")
    made = await admin.post("/toolsets", json={"name": "reading", "definition": DEFINITION})
    assert made.status_code == 201, made.text
    assert made.json()["problems"] == []
    yield "/toolsets/reading/tool-calls"
    await admin.delete("/toolsets/reading")


async def test_its_names_and_presets_count(client, upstream, toolset) -> None:
    got = (await client.post(toolset, json=[block("look", {"n": 1})])).json()
    assert [(one["tool"], one["status"]) for one in got["results"]] == [("p.read", 200)]
    assert upstream.requests == ["GET /read?n=1&color=red"]


async def test_an_argument_that_is_preset_is_an_error_for_the_model(client, upstream, toolset) -> None:
    got = (await client.post(toolset, json=[block("look", {"color": "green"})])).json()
    assert [(one["is_error"], one["status"]) for one in got["results"]] == [(True, 422)]
    assert upstream.requests == []


async def test_a_tool_outside_is_unknown_there(client, upstream, toolset) -> None:
    got = (await client.post(toolset, json=[block("p_text", {}), block("lok", {}, "t2")])).json()
    assert [(one["is_error"], one["status"], one["tool"]) for one in got["results"]] == [
        (True, 404, None)
    ] * 2
    assert upstream.requests == []
    assert "look" in json.dumps(got["messages"][0]["content"][1])


async def test_a_key_that_is_limited_to_toolsets_calls_by_its_address_alone(
    application, upstream, toolset
) -> None:
    admin = application.clients[0]
    made = await admin.post(
        "/keys", json={"name": "limited", "scopes": ["tools:call"], "toolsets": ["reading"]}
    )
    assert made.status_code == 201, made.text
    limited = await application.client("tools:call")
    limited.headers["Authorization"] = f"Bearer {made.json()['key']}"
    inside = (await limited.post(toolset, json=[block("look", {})])).json()
    outside = (await limited.post("/tool-calls", json=[block("p_read", {})])).json()
    elsewhere = await limited.post("/toolsets/other/tool-calls", json=[block("look", {})])
    assert [one["status"] for one in (*inside["results"], *outside["results"])] == [200, 404]
    assert elsewhere.status_code == 404
    assert len(upstream.requests) == 1
