"""How clients of MCP see schemas: as all of them read them, or whole; calls are validated by the whole schema in any case."""

import json

import pytest

from tests.harness.cases import for_each
from tests.harness.mcp_requests import McpClient

NODE = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
}
INPUTS = {
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/$defs/Node"},
        "name": {"type": ["string", "null"], "pattern": "^(?=a)a"},
    },
    "$defs": {"Node": NODE},
}
ADDRESSES = ("/mcp", "/mcp/all", "/toolsets/desk/mcp")
CHANGES = "utcp-gateway/schemaChanges"


@pytest.fixture
async def tree(api, library, upstream):
    """A tool with a recursive input, which is in a toolset, too."""
    template = {"url": f"{upstream.url}/echo", "http_method": "POST", "body_field": "tree"}
    await api.tool(library, "tree", template, inputs=INPUTS, outputs=INPUTS)
    admin = await api.client("admin")
    assert (await admin.patch("/tools/library.tree", json={"publish_output_schema": True})).status_code == 200
    made = await admin.post("/toolsets", json={"name": "desk", "definition": {"tools": ["library.tree"]}})
    assert made.status_code == 201, made.text
    return admin


async def listed(mcp, path="/mcp"):
    mcp.path = path
    tools = (await mcp.modern("tools/list")).json()["result"]["tools"]
    return next(tool for tool in tools if tool["name"] == "library_tree")


async def test_each_address_writes_references_out_and_says_so(mcp, tree):
    for path in ADDRESSES:
        tool = await listed(mcp, path)
        assert "$ref" not in json.dumps(tool["inputSchema"])
        assert "$defs" not in tool["inputSchema"] | tool["outputSchema"]
        assert tool["inputSchema"]["properties"]["name"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
        node = tool["inputSchema"]["properties"]["tree"]
        for _ in range(3):
            node = node["properties"]["kids"]["items"]
        assert node == {}
        assert tool["outputSchema"]["properties"]["name"] == {"type": ["string", "null"]}
        changes = tool["_meta"][CHANGES]
        assert {"pointer": "/properties/name/pattern", "action": "dropped"} in changes["inputSchema"]
        assert {"pointer": "/properties/tree/$ref", "action": "inlined"} in changes["outputSchema"]
        mcp.path = path
        legacy = (await mcp.legacy("tools/list")).json()["result"]["tools"]
        assert tool in legacy


async def test_calls_are_validated_by_the_whole_schema(mcp, tree):
    def nested(levels, end):
        return {"v": 1, "kids": [nested(levels - 1, end)]} if levels else {"v": end}

    async def call(end):
        arguments = {"tree": nested(6, end)}
        result = await mcp.modern("tools/call", {"name": "library_tree", "arguments": arguments})
        return result.json()["result"]

    assert (await call(2))["isError"] is False, await call(2)
    refused = await call([])
    assert refused["isError"] is True
    assert f"/tree{'/kids/0' * 6}/v" in refused["content"][0]["text"]


async def test_a_key_or_toolset_with_full_schemas_keeps_definitions(api, mcp, tree):
    body = {"name": "editor", "scopes": ["tools:read", "tools:call"], "schemas": "full"}
    made = (await tree.post("/keys", json=body)).json()
    assert made["schemas"] == "full"
    full = McpClient(mcp.http)
    headers = {"Authorization": f"Bearer {made['key']}"}

    async def own(path):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = (await full.http.post(path, json=body, headers=headers)).json()["result"]["tools"]
        return next(tool for tool in tools if tool["name"] == "library_tree")

    for path in ADDRESSES:
        tool = await own(path)
        assert tool["inputSchema"] == INPUTS
        assert tool["outputSchema"]["$defs"] == INPUTS["$defs"]
        assert CHANGES not in tool["_meta"]
    definition = {"tools": ["library.tree"], "schemas": "full"}
    assert (await tree.put("/toolsets/desk", json={"definition": definition})).status_code == 200
    assert (await listed(mcp, "/toolsets/desk/mcp"))["inputSchema"] == INPUTS
    assert "$defs" not in (await listed(mcp))["inputSchema"]
    # What the key says counts more.
    changed = await tree.patch(f"/keys/{made['id']}", json={"schemas": "portable"})
    assert changed.json()["schemas"] == "portable"
    assert "$defs" not in (await own("/toolsets/desk/mcp"))["inputSchema"]
    rotated = (await tree.post(f"/keys/{made['id']}/rotate", json={})).json()
    assert rotated["schemas"] == "portable"
    assert (await tree.patch(f"/keys/{made['id']}", json={"schemas": None})).json()["schemas"] is None
    assert (await own("/toolsets/desk/mcp"))["inputSchema"] == INPUTS
    for path, sent in (
        ("/keys", body | {"schemas": "whole"}),
        ("/toolsets", {"name": "b", "definition": {"schemas": None}}),
    ):
        refused = await tree.post(path, json=sent)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["pointer"].endswith("/schemas")


@for_each("name", ["describe_tools", "find_tools"])
async def test_meta_tools_show_schemas_in_the_same_form(mcp, tree, name):
    asked = {"names": ["library_tree"]} if name == "describe_tools" else {"query": "tree", "detail": "schema"}
    for schemas in ("portable", "full"):
        definition = {"tools": ["library.tree"], "schemas": schemas}
        assert (await tree.put("/toolsets/desk", json={"definition": definition})).status_code == 200
        mcp.path = "/toolsets/desk/mcp"
        result = (await mcp.modern("tools/call", {"name": name, "arguments": asked})).json()["result"]
        [tool] = result["structuredContent"]["tools"]
        assert ("$defs" in tool["inputSchema"]) is (schemas == "full")
        assert ("$ref" in result["content"][0]["text"].partition("_meta")[0]) is (schemas == "full")
        assert (CHANGES in tool.get("_meta", {})) is (schemas == "portable" and name == "describe_tools")


async def test_the_export_for_mcp_says_what_it_changed(tree):
    async def export(path):
        found = (await tree.get(path, params={"format": "mcp", "names": "library.tree"})).json()
        return found["tools"][0], found["report"]["tools"][0]

    tool, report = await export("/tools/export")
    assert "$defs" not in tool["inputSchema"]
    assert report["grade"] == "looser"
    assert tool["_meta"][CHANGES]["inputSchema"] == [
        {"pointer": loss["pointer"], "action": loss["action"]} for loss in report["losses"]
    ]
    definition = {"tools": ["library.tree"], "schemas": "full"}
    assert (await tree.put("/toolsets/desk", json={"definition": definition})).status_code == 200
    tool, report = await export("/toolsets/desk/export")
    assert (tool["inputSchema"], report["grade"], report["losses"]) == (INPUTS, "lossless", [])
