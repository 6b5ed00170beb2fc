"""`tools/list`: pages, modes, and what depends on the key and on the address."""

import base64
import json

import httpx2
import pytest

from app.agents.mcp.tool_lists import ToolLists
from tests.harness.cases import for_each
from tests.harness.gateway import serve
from tests.harness.mcp_requests import McpClient, error_of


def names(response):
    return [tool["name"] for tool in response.json()["result"]["tools"]]


@pytest.fixture
async def many(api, library):
    """45 more tools: more than the mode `auto` lists."""
    row = await api.provider("many")
    for number in range(45):
        await api.tool(row, f"t{number:02}", {}, description=f"Tool {number}.")
    return row


async def test_a_small_registry_lists_its_tools_by_name(mcp, library):
    assert names(await mcp.modern("tools/list")) == ["library_find", "library_json", "read_more"]


async def test_a_large_registry_lists_the_tools_that_find_others(mcp, many):
    found = names(await mcp.modern("tools/list"))
    assert found == ["call_read_tool", "call_tool", "describe_tools", "find_tools", "read_more"]
    mcp.path = "/mcp/all"
    assert len(names(await mcp.modern("tools/list"))) == 48
    mcp.path = "/mcp/search"
    assert names(await mcp.modern("tools/list")) == found


async def test_what_reads_the_rest_of_a_result_is_listed_beside_the_tools(api, library):
    # Hosts let models call what is listed only.
    assert "read_more" in names(await McpClient(await api.client(), path="/mcp/all").modern("tools/list"))
    reader = McpClient(await api.client("tools:read"), path="/mcp/all")
    assert "read_more" not in names(await reader.modern("tools/list"))
    nothing = McpClient(await api.client(providers={"other"}))
    assert names(await nothing.modern("tools/list")) == []


async def test_a_meta_tool_calls_a_tool_and_finds_it(mcp, many):
    found = await mcp.modern("tools/call", {"name": "find_tools", "arguments": {"query": "find books"}})
    assert "library_find" in found.json()["result"]["content"][0]["text"]
    inner = {"name": "library_find", "arguments": {"q": "x"}}
    called = await mcp.modern("tools/call", {"name": "call_tool", "arguments": inner})
    assert called.json()["result"]["structuredContent"]["path"] == "/echo?q=x"
    wrong = await mcp.modern("tools/call", {"name": "call_tool", "arguments": {"name": "library_fnd"}})
    assert wrong.json()["result"]["isError"] is True


async def test_pages_continue_after_the_last_name(mcp, many, served):
    mcp.path = "/mcp/all"
    whole = names(await mcp.modern("tools/list"))
    small = ToolLists(page_size=10)
    collection = await served.services.collections.open_view(await principal(served, mcp))
    seen, cursor, pages = [], None, 0
    while True:
        page = await small.page(collection, "all", cursor)
        seen += [tool["name"] for tool in json.loads(page.tools)]
        pages += 1
        cursor = page.next_cursor
        if cursor is None:
            break
    assert (seen, pages) == (whole, 5)


async def principal(served, mcp):
    key = mcp.http.headers["authorization"].removeprefix("Bearer ")
    return await served.services.keys.verify(key, host="127.0.0.1", is_call=False)


@for_each(
    "cursor",
    ["", "x", "====", base64.urlsafe_b64encode(b'["a"]').decode(), base64.b64encode(b"[1,2]").decode(), 5],
)
async def test_an_unknown_cursor_is_an_error(mcp, library, cursor):
    assert error_of(await mcp.modern("tools/list", {"cursor": cursor})) == (400, -32602)
    assert error_of(await mcp.legacy("tools/list", {"cursor": cursor})) == (200, -32602)
    assert error_of(await mcp.legacy("prompts/list", {"cursor": cursor})) == (200, -32602)


async def test_the_list_depends_on_what_the_key_may_see(api, library):
    other = await api.provider("other")
    await api.tool(other, "one", {})
    limited = McpClient(await api.client("tools:read", providers={"other"}))
    assert names(await limited.modern("tools/list")) == ["other_one"]
    both = McpClient(await api.client("tools:read"))
    assert names(await both.modern("tools/list")) == ["library_find", "library_json", "other_one"]
    hidden = McpClient(await api.client(providers={"other"}))
    unknown = await hidden.modern("tools/call", {"name": "library_json"})
    assert unknown.json()["error"]["message"] == "Unknown tool: library_json"


async def test_a_tool_is_rendered_once_per_version(mcp, library, served, api):
    await mcp.modern("tools/list")
    lists = server_lists(served)
    before = lists.rendered
    await mcp.modern("tools/list")
    await mcp.legacy("tools/list")
    assert lists.rendered == before
    await api.tool(library, "new", {})
    assert "library_new" in names(await mcp.modern("tools/list"))
    assert lists.rendered == before + 1


def server_lists(served):
    return served.application.mcp.lists


@pytest.mark.parametrize(
    ("method", "hints"),
    [
        ("GET", {"readOnlyHint": True}),
        ("POST", {"readOnlyHint": False, "idempotentHint": False}),
        ("PUT", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
        ("PATCH", {"readOnlyHint": False, "idempotentHint": False}),
        ("DELETE", {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True}),
    ],
)
async def test_annotations_are_those_of_the_method(api, mcp, method, hints):
    row = await api.provider("api")
    await api.tool(row, "one", {"http_method": method})
    tool, _ = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert tool["annotations"] == hints | {"openWorldHint": True}


async def test_odd_schemas_are_repaired_and_no_member_is_null(api, mcp):
    row = await api.provider("odd")
    odd = [{}, {"type": ["object", "null"]}, {"anyOf": [{"type": "object"}]}, {"properties": {"a": True}}]
    for number, schema in enumerate(odd):
        await api.tool(row, f"o{number}", {}, inputs=schema, description="")
    listed = (await mcp.modern("tools/list")).json()["result"]["tools"]
    assert len(listed) == len(odd) + 1
    for tool in listed:
        assert tool["inputSchema"]["type"] == "object"
        assert tool["description"]
        assert None not in tool.values()


def test_two_workers_and_a_restart_give_the_same_bytes(servers, tmp_path):
    dsn = servers.create_database()
    seen = set()
    try:
        ring = None
        for attempt in range(2):
            extra = {} if ring is None else {"SEALING_KEYS": ring}
            with serve(
                servers, tmp_path, database_url=dsn, workers=2, MCP_PAGE_SIZE="3", SAMPLE="false", **extra
            ) as running:
                ring = running.environment["SEALING_KEYS"]
                if attempt == 0:
                    add_tools(running)
                seen |= lists_of_workers(running)
    finally:
        servers.drop_database(dsn)
    assert len(seen) == 1


def add_tools(running):
    paths = {f"/p{number}": {"get": {"operationId": f"op{number}"}} for number in range(10)}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Ten", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
    }
    with running.client() as client:
        made = client.post("/providers", json={"name": "ten", "source": {"document": document}})
        assert made.status_code == 201, made.text


def lists_of_workers(running):
    """Return what 20 connections get for all pages: of both workers, and pages of one list from either."""
    found = set()
    for _ in range(20):
        pages, cursor = [], None
        while True:
            # A connection of its own for each page, which either worker may accept.
            with running.client() as client:
                response = legacy_page(client, cursor)
            pages.append(response.content)
            cursor = response.json()["result"].get("nextCursor")
            if cursor is None:
                break
        assert len(pages) == 4
        found.add(tuple(pages))
    return found


def legacy_page(client: httpx2.Client, cursor):
    params = {} if cursor is None else {"cursor": cursor}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    response = client.post("/mcp", json=body)
    assert response.status_code == 200, response.text
    return response


async def test_tools_of_one_name_and_members_that_are_null_spoil_no_list(api, mcp):
    """An imported manual in which a name stands twice, and what should be text or an object is null."""
    template = {"call_template_type": "http", "http_method": "GET", "url": "http://127.0.0.1:9/x"}
    tools = [
        {"name": "same", "description": "First.", "tool_call_template": template},
        {"name": "same", "description": "Second.", "tool_call_template": template},
        {"name": "null", "description": None, "inputs": None, "outputs": None, "tags": None, "title": None,
         "annotations": None, "tool_call_template": template},
        {"name": "a name " + "x" * 230, "description": "", "unknown": [{}], "tool_call_template": template},
    ]  # fmt: skip
    manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
    admin = await api.client("admin")
    made = await admin.post("/providers", json={"name": "odd", "source": {"manual": manual}})
    assert made.status_code == 201, made.text
    operations = made.json()["report"]["operations"]
    stored = [one for one in operations if one["outcome"] != "skipped"]
    assert [one["outcome"] for one in operations] == ["accepted", "skipped", "accepted", "renamed"]
    assert operations[1]["reason"] == "Another tool has this name, too."
    mcp.path = "/mcp/all"
    listed = (await mcp.modern("tools/list")).json()["result"]["tools"]
    odd = [tool for tool in listed if tool["name"].startswith("odd_")]
    assert len({tool["name"] for tool in odd}) == len(odd) == len(stored)
    for tool in odd:
        assert len(tool["name"]) <= 45
        assert tool["description"]
        assert tool["inputSchema"]["type"] == "object"
        assert None not in tool.values()
