"""Manifests with `[mcp]`: a tool of an MCP server under names and with defaults of their own."""

from collections.abc import AsyncIterator

import pytest

from tests.protocols.kits.mcp import McpUpstream, mcp_server

MANIFEST = """
[tool]
name = "count"
description = "Count."

[args.number]
type = "integer"
min = 0
max = 9
clamp = true
default = 4

[mcp]
server = "SERVER"
tool = "structured"
field_map = { number = "n" }

[output]
format = "json"
[output.schema]
"""


@pytest.fixture(scope="module")
async def peer() -> AsyncIterator[McpUpstream]:
    async with mcp_server("http") as upstream:
        yield upstream


async def test_a_server_is_named_by_its_url(clad, peer) -> None:
    await clad.register("m", MANIFEST.replace("SERVER", peer.place))
    response = await clad.envelope("m.count", {"number": 70})
    assert response.status_code == 200, response.text
    envelope = response.json()
    assert (envelope["mcp_server"], envelope["mcp_tool"], envelope["mcp_args"]) == (
        "127.0.0.1",
        "structured",
        {"n": 9},
    )
    assert envelope["command"] == "mcp://127.0.0.1/structured"
    assert "9" in str(envelope["results"])
    default = await clad.envelope("m.count", {})
    assert default.json()["mcp_args"] == {"n": 4}


async def test_servers_of_an_archive_are_those_of_its_configuration(clad, peer) -> None:
    manifests = {
        "count.clad.toml": MANIFEST.replace("SERVER", "numbers"),
        "other.clad.toml": MANIFEST.replace("SERVER", "letters").replace('"count"', '"other"'),
        "mcp.json": {
            "mcpServers": {"numbers": {"type": "http", "url": peer.place, "headers": {"X-Key": "${KEY}"}}}
        },
    }
    body = {"name": "m", "source": {"manifests": manifests}, "variables": {"KEY": {"value": "canary-mcp-77"}}}
    made = await clad.client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    outcomes = {one["source_key"]: one for one in made.json()["report"]["operations"]}
    assert outcomes["other.clad.toml"]["pointer"] == "/other.clad.toml/mcp/server"
    called = await clad.envelope("m.count", {"number": 3})
    assert called.json()["mcp_server"] == "numbers", called.text
    assert peer.seen
    shown = (await clad.client.get("/tools/m.count")).text + called.text
    assert "canary-mcp-77" not in shown


async def test_a_server_that_is_not_known_is_named(clad) -> None:
    problem = await clad.register("m", MANIFEST.replace("SERVER", "nowhere"), expected=422)
    assert problem["errors"][0]["pointer"] == "/source/document/mcp/server"
