"""The official Python client lists and calls, in each of its modes."""

import httpx2
import pytest


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_client_lists_and_calls(mcp, library, api, mode):
    # It takes a second: not while tests are collected.
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared.exceptions import MCPError

    headers = {"Authorization": mcp.http.headers["authorization"]}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        transport = streamable_http_client(f"{api.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            listed = await client.list_tools()
            assert [tool.name for tool in listed.tools] == ["library_find", "library_json", "read_more"]
            called = await client.call_tool("library_find", {"q": "x"})
            assert called.is_error is False
            assert called.structured_content["path"] == "/echo?q=x"
            wrong = await client.call_tool("library_find", {"limit": 1})
            assert wrong.is_error is True
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("library_none", {})
