"""An upstream whose tools, through the gateway, are those that the conformance suites of MCP call by name.

They prove how answers of upstreams become results of MCP. They are members of a toolset, which gives them
exactly these names.
"""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from aiohttp import ClientSession, web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

TOOLSET: Final = "conformance"
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
WAV: Final = b"RIFF\x26\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00data\x02\x00\x00\x00\x80\x80"
_BODIES: Final[dict[str, tuple[int, str, bytes]]] = {
    "test_simple_text": (200, "text/plain", b"This is a simple text response for testing."),
    "test_image_content": (200, "image/png", PNG),
    "test_audio_content": (200, "audio/wav", WAV),
    "test_embedded_resource": (200, "application/pdf", b"%PDF-1.4 an embedded resource"),
    "test_error_handling": (500, "text/plain", b"This tool intentionally returns an error for testing"),
    "json_schema_2020_12_tool": (200, "application/json", b"{}"),
    "test_header_input": (200, "text/plain", b"The header has the value of the argument."),
}
_JSON_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_MIXED: Final = "test_multiple_content_types"
_CONTENT: Final[list[dict[str, Any]]] = [
    {"type": "text", "text": "Multiple content types test:"},
    {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
    {
        "type": "resource",
        "resource": {"uri": "test://mixed", "mimeType": "application/json", "text": '{"test": "data"}'},
    },
]
_HEADER_INPUT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"region": {"type": "string"}},
    "additionalProperties": False,
}
_NO_INPUTS: Final[dict[str, Any]] = {"type": "object", "properties": {}, "additionalProperties": False}


_INPUTS: Final = {"json_schema_2020_12_tool": _JSON_SCHEMA, "test_header_input": _HEADER_INPUT}


def _application() -> web.Application:
    async def respond(request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name == "test_tool_with_progress":
            stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await stream.prepare(request)
            for step in (0, 50, 100):
                await stream.write(f'data: {{"done": {step}}}\n\n'.encode())
                await asyncio.sleep(0.05)
            return stream
        status, kind, body = _BODIES[name]
        return web.Response(status=status, body=body, content_type=kind)

    async def mcp(request: web.Request) -> web.StreamResponse:
        """Answer as an MCP server of 2025-11-25 without sessions, whose one tool has content of three types."""
        message = await request.json()
        if "id" not in message:
            return web.Response(status=202)
        results: dict[str, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "mixed", "version": "1"},
            },
            "tools/list": {"tools": [{"name": _MIXED, "inputSchema": _NO_INPUTS}]},
            "tools/call": {"content": _CONTENT},
        }
        answer: dict[str, Any] = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] in results:
            answer = {"result": results[message["method"]]}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], **answer})

    application = web.Application()
    application.router.add_post("/mcp", mcp)
    application.router.add_get("/{name}", respond)
    return application


def _manual(url: str) -> dict[str, Any]:
    def tool(name: str) -> dict[str, Any]:
        template: dict[str, Any] = {"call_template_type": "http", "url": f"{url}/{name}"}
        if name == _MIXED:
            server = {"transport": "http", "url": f"{url}/mcp"}
            template = {
                "call_template_type": "mcp",
                "config": {"mcpServers": {"mixed": server}},
                "tool_name": name,
            }
        inputs = _INPUTS.get(name, _NO_INPUTS)
        description = f"The tool {name} of the conformance suites."
        return {"name": name, "description": description, "inputs": inputs, "tool_call_template": template}

    tools = [*map(tool, _BODIES), tool(_MIXED), tool("test_tool_with_progress")]
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}


def _proxy(gateway: RunningGateway) -> web.Application:
    """Return a proxy that adds the key, because the suites cannot send one; it changes nothing else."""

    async def forward(request: web.Request) -> web.StreamResponse:
        skipped = ("transfer-encoding", "content-length", "connection", "keep-alive")
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in skipped]
        headers.append(("Authorization", f"Bearer {gateway.key}"))
        async with (
            ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                f"{gateway.url}{request.path_qs}",
                headers=headers,
                data=await request.read(),
                skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            ) as answer,
        ):
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in skipped]
            response = web.StreamResponse(status=answer.status)
            response.headers.extend(kept)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    application = web.Application(client_max_size=64 << 20)
    application.router.add_route("*", "/{path:.*}", forward)
    return application


@contextmanager
def fixture_upstream() -> Iterator[str]:
    """Run the upstream and yield its URL."""
    with beside(web_server(_application())) as url:
        yield url


def register(admin: httpx2.Client, upstream: str) -> None:
    """Register the upstream as the provider `fixture`, and the toolset with its tools."""
    created = admin.post("/providers", json={"name": "fixture", "source": {"manual": _manual(upstream)}})
    assert created.status_code == 201, created.text
    header_inputs = {"annotations": {"header_inputs": {"region": "Region"}}}
    changed = admin.patch("/tools/fixture.test_header_input", json=header_inputs)
    assert changed.status_code == 200, changed.text
    names = [tool["name"] for tool in _manual(upstream)["tools"]]
    body = {
        "providers": ["fixture"],
        "changes": {f"fixture.{name}": {"name": name} for name in names},
        "mode": "all",
        # The suites compare whole schemas.
        "schemas": "full",
    }
    made = admin.put(f"/toolsets/{TOOLSET}", json={"definition": body})
    assert made.status_code in (200, 201), made.text


@contextmanager
def conformance_server(servers: Pair, folder: Path) -> Iterator[str]:
    """Run the gateway over the upstream; yield the URL of the toolset's endpoint, at which no key is needed."""
    with (
        fixture_upstream() as upstream,
        serve(servers, folder, KEY_FAILURE_RATE_LIMIT="off") as gateway,
    ):
        with gateway.client() as admin:
            register(admin, upstream)
        with beside(web_server(_proxy(gateway), handler_cancellation=True)) as url:
            yield f"{url.replace('127.0.0.1', 'localhost')}/toolsets/{TOOLSET}/mcp"
