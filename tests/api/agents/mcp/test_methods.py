"""The methods of MCP in both eras."""

import pytest

from tests.harness.cases import for_each


async def test_discover_names_the_versions_and_capabilities(mcp):
    response = await mcp.modern("server/discover")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    result = response.json()["result"]
    assert result["supportedVersions"] == [
        "2026-07-28", "2025-11-25", "2025-06-18", "2024-11-05",
    ]  # fmt: skip
    assert result["capabilities"] == {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
    assert result["resultType"] == "complete"
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "utcp-gateway"
    assert 0 < len(result["instructions"]) < 1024


@for_each(
    ("requested", "answered"),
    [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        # A server of 2025-03-26 accepts batches. Clients of it know the revision before, too.
        ("2025-03-26", "2024-11-05"),
        ("2024-11-05", "2024-11-05"),
        ("1999-01-01", "2025-11-25"),
        ("draft", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        (None, "2025-11-25"),
    ],
)
async def test_a_handshake_answers_in_the_version_of_the_client(mcp, requested, answered):
    params = {"protocolVersion": requested, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    response = await mcp.legacy("initialize", params, version=None)
    assert response.status_code == 200
    assert "mcp-session-id" not in response.headers
    result = response.json()["result"]
    assert result["protocolVersion"] == answered
    assert result["capabilities"]["tools"] == {"listChanged": False}
    assert set(result) == {"protocolVersion", "capabilities", "serverInfo", "instructions"}


async def test_a_legacy_client_lists_and_calls(mcp, library):
    assert (await mcp.legacy("ping")).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    notified = await mcp.raw('{"jsonrpc":"2.0","method":"notifications/initialized"}')
    assert (notified.status_code, notified.content) == (202, b"")
    listed = (await mcp.legacy("tools/list")).json()["result"]
    assert set(listed) == {"tools"}
    assert [tool["name"] for tool in listed["tools"]] == ["library_find", "library_json", "read_more"]
    called = (await mcp.legacy("tools/call", {"name": "library_json", "arguments": {}})).json()["result"]
    assert called["content"] == [{"type": "text", "text": '{"a": 1}'}]
    assert called["isError"] is False
    assert called["structuredContent"] == {"a": 1}
    assert "resultType" not in called


async def test_a_modern_client_lists_and_calls(mcp, library):
    listed = (await mcp.modern("tools/list")).json()["result"]
    assert (listed["ttlMs"], listed["cacheScope"], listed["resultType"]) == (60_000, "private", "complete")
    found = listed["tools"][0]
    assert found == {
        "name": "library_find",
        "title": "Find books",
        "description": "Find books.",
        "inputSchema": found["inputSchema"],
        "annotations": {"readOnlyHint": True, "openWorldHint": True},
        "_meta": {"utcp-gateway/name": "library.find", "utcp-gateway/provider": "library"},
    }
    assert found["inputSchema"]["required"] == ["q"]
    for name in ("library_find", "library.find"):
        response = await mcp.modern("tools/call", {"name": name, "arguments": {"q": "x"}})
        result = response.json()["result"]
        assert result["structuredContent"]["path"] == "/echo?q=x"
        assert result["resultType"] == "complete"
        assert result["_meta"]["utcp-gateway/callId"] == response.headers["x-call-id"]


@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
async def test_other_lists_are_empty(mcp, method):
    member = {"resources/templates/list": "resourceTemplates"}.get(method, method.partition("/")[0])
    assert (await mcp.legacy(method)).json()["result"] == {member: []}
    result = (await mcp.modern(method)).json()["result"]
    assert result[member] == []
    assert (result["ttlMs"], result["cacheScope"]) == (60_000, "private")


async def test_there_are_no_resources_and_prompts(mcp):
    response = await mcp.modern("resources/read", {"uri": "file:///x"})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32602
    assert response.json()["error"]["data"] == {"uri": "file:///x"}
    response = await mcp.legacy("resources/read", {"uri": "file:///x"})
    assert (response.status_code, response.json()["error"]["code"]) == (200, -32002)
    assert (await mcp.modern("prompts/get", {"name": "x"})).json()["error"]["code"] == -32602


async def test_the_handshake_is_recorded_nowhere(mcp, api):
    for method in ("server/discover", "tools/list"):
        await mcp.modern(method)
    await mcp.legacy("initialize", {})
    assert await api.calls() == []


async def test_a_call_is_recorded_with_its_interface(mcp, api, library):
    await mcp.modern("tools/call", {"name": "library_find", "arguments": {"q": "x"}})
    (record,) = await api.calls()
    assert (record["tool"], record["outcome"], record["interface"]) == ("library.find", "ok", "mcp")


async def test_an_idempotency_key_may_be_a_header_or_in_the_body(mcp, library, upstream):
    params = {"name": "library_find", "arguments": {"q": "once"}}
    first = await mcp.modern("tools/call", params, headers={"Idempotency-Key": "key-1"})
    second = await mcp.modern("tools/call", params, meta={"utcp-gateway/idempotencyKey": "key-1"})
    assert first.json()["result"] == second.json()["result"]
    assert len(upstream.requests) == 1


async def test_the_trace_of_the_body_is_accepted(mcp, library):
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    params = {"name": "library_find", "arguments": {"q": "x"}}
    response = await mcp.modern("tools/call", params, meta={"traceparent": trace, "tracestate": "a=b"})
    assert response.json()["result"]["isError"] is False


async def test_a_resource_whose_uri_is_no_text_does_not_exist(mcp):
    response = await mcp.legacy("resources/read", {"uri": 0.1})
    assert response.json()["error"] == {"code": -32002, "message": "There is no such resource."}
