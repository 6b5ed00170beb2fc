"""Gateways of other projects with the same call: IBM ContextForge and FastMCP."""

import http.client
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from benchmarks.gateway import HttpResponse
from benchmarks.measure import Request
from benchmarks.servers import NotStarted, ServerProcess, free_port, start_server
from benchmarks.shape import ARGUMENTS, KEY, KEY_HEADER, document
from benchmarks.venvs import Environment

# Each release accepts any newer version of its dependencies, and fails with newer majors of these.
_CONTEXTFORGE = {
    "1.1.0": Environment(
        "contextforge-1.1.0", ("mcp-contextforge-gateway==1.1.0",), "import mcpgateway, fastapi", at_least=12
    ),
    "1.0.6": Environment(
        "contextforge-1.0.6",
        ("mcp-contextforge-gateway==1.0.6", "mcp<2", "cpex<0.1.4"),
        "import mcp.client.streamable_http as http; http.streamablehttp_client; import mcpgateway, cpex",
    ),
}
_FASTMCP = Environment("fastmcp", ("fastmcp==4.1.2",), probe="import fastmcp, httpx2")
_ADMIN = "admin@example.com"
_START_TRIES = 120
_IDS = 1_000
_PROTOCOL_VERSION = "2025-06-18"


@contextmanager
def contextforge(version: str, upstream: str, folder: Path) -> Iterator[tuple[ServerProcess, list[Request]]]:
    """ContextForge with SQLite, one worker, without plugins and pages; its tool is called by JSON-RPC.

    Its own REST tools take a URL without path parameters here, so the id is already in the path.
    Raises NotInstalled and NotStarted.
    """
    python = _CONTEXTFORGE[version].python()
    port = free_port()
    settings = {
        "JWT_SECRET_KEY": "benchmark-secret-of-sufficient-length-0123456789",
        "AUTH_ENCRYPTION_SECRET": "another-benchmark-secret-0123456789abcdef",
        "DATABASE_URL": f"sqlite:///{folder}/contextforge-{version}.db",
        "PLATFORM_ADMIN_EMAIL": _ADMIN,
        "CACHE_TYPE": "memory",
        "SSRF_ALLOW_LOCALHOST": "true",
        "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "PLUGINS_ENABLED": "false",
        "MCPGATEWAY_UI_ENABLED": "false",
        "MCPGATEWAY_ADMIN_API_ENABLED": "false",
        "PLATFORM_ADMIN_PASSWORD": "benchmark-Secret-0123456789",
        "DEFAULT_USER_PASSWORD": "benchmark-Secret-0123456789",
        "BASIC_AUTH_PASSWORD": "benchmark-Secret-0123456789",
        "RATE_LIMITING_ENABLED": "false",
        "LOG_LEVEL": "ERROR",
    }
    program = str(python.with_name("mcpgateway"))
    arguments = ["--host", "127.0.0.1", "--port", str(port)]
    with start_server(arguments, port=port, environment=settings, folder=folder, program=program) as server:
        headers = {"Authorization": f"Bearer {_token(python, settings)}"}
        tool = {
            "name": "get0",
            "url": f"{upstream}/t0/items/42",
            "description": "Get an item",
            "integration_type": "REST",
            "request_type": "GET",
            "headers": {KEY_HEADER: KEY},
            "input_schema": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer"},
                    "q": {"type": "string"},
                    "limit": {"type": "integer"},
                },
                "required": ["id"],
            },
        }
        _post(server, "/tools", {"tool": tool}, headers)
        yield server, _rpc_requests("/rpc", headers)


@contextmanager
def fastmcp(upstream: str, folder: Path) -> Iterator[tuple[ServerProcess, list[Request]]]:
    """FastMCP, called by a minimal MCP client. Raises NotInstalled and NotStarted."""
    python = _FASTMCP.python()
    port = free_port()
    text = folder / "document.json"
    text.write_bytes(document(1, server=upstream))
    script = Path(__file__).with_name("fastmcp_server.py")
    arguments = [str(script), str(port), str(text), KEY_HEADER, KEY]
    with start_server(arguments, port=port, folder=folder, program=str(python)) as server:
        headers = {"Accept": "application/json, text/event-stream"}
        hello = {
            "protocolVersion": _PROTOCOL_VERSION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        response = _post(
            server, "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, headers
        )
        session = response.headers.get("mcp-session-id")
        if session is not None:
            headers["Mcp-Session-Id"] = session
        headers["MCP-Protocol-Version"] = _PROTOCOL_VERSION
        _post(server, "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        yield server, _rpc_requests("/mcp", headers)


def _rpc_requests(path: str, headers: Mapping[str, str]) -> list[Request]:
    """Return calls with different ids: within a session, responses are matched by them."""
    call = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "get0", "arguments": ARGUMENTS}}
    return [Request(path, headers, {**call, "id": number}) for number in range(1, _IDS + 1)]


def _token(python: Path, settings: Mapping[str, str]) -> str:
    command = [str(python), "-m", "mcpgateway.utils.create_jwt_token", "-u", _ADMIN, "--admin", "-e", "600"]
    done = subprocess.run(
        [*command, "-s", settings["JWT_SECRET_KEY"]], capture_output=True, check=False, env={**settings}
    )
    words = done.stdout.decode().split()
    if done.returncode != 0 or not words:
        raise NotStarted("no token could be created")
    return words[-1]


def _post(server: ServerProcess, path: str, body: Any, headers: Mapping[str, str]) -> HttpResponse:
    """Send a request, repeated while the server is starting. Raises NotStarted."""
    reason = ""
    for _ in range(_START_TRIES):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        try:
            connection.request(
                "POST", path, orjson.dumps(body), {"Content-Type": "application/json", **headers}
            )
            got = connection.getresponse()
            response = HttpResponse(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        except (OSError, http.client.HTTPException) as failed:
            reason = str(failed)
        else:
            if response.status < 400:
                return response
            reason = f"{response.status}: {response.body[:300].decode(errors='replace')}"
        finally:
            connection.close()
        if not server.process.is_running() or reason.startswith("4"):
            break
    raise NotStarted(f"POST {path}: {reason}")
