"""The interfaces for agents with the call of the other rows: `/mcp` in both eras, and `/tool-calls`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.gateway import LoadedGateway
from benchmarks.measure import Request
from benchmarks.servers import ServerProcess, free_port, start_server
from benchmarks.shape import ARGUMENTS

MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
LISTED_TOOLS: Final = 1_000

_ACCEPT: Final = {"Accept": "application/json, text/event-stream"}
_CLIENT: Final = {"name": "bench", "version": "1"}
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def rpc(
    method: str, params: Mapping[str, Any], headers: Mapping[str, str], *, path: str = "/mcp", expect: str
) -> Request:
    """Return a request of the revision 2026-07-28, with its headers."""
    sent = {**_ACCEPT, **headers, "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if "name" in params:
        sent["Mcp-Name"] = str(params["name"])
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}}
    return Request(path, sent, body, expect=expect)


def legacy_rpc(
    method: str, params: Mapping[str, Any], headers: Mapping[str, str], *, path: str = "/mcp", expect: str
) -> Request:
    """Return a request of the revision 2025-11-25; `initialize` has no header of the revision."""
    version = {} if method == "initialize" else {"MCP-Protocol-Version": LEGACY}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params)}
    return Request(path, {**_ACCEPT, **headers, **version}, body, expect=expect)


def mcp_calls(loaded: LoadedGateway, *, expect: str) -> tuple[list[Request], list[Request]]:
    """Return calls of the same tools as by REST, of the revisions 2026-07-28 and 2025-11-25."""
    headers = key_of(loaded)
    params = [{"name": name, "arguments": ARGUMENTS} for name in agent_names(loaded)]
    modern = [rpc("tools/call", one, headers, expect=expect) for one in params]
    return modern, [legacy_rpc("tools/call", one, headers, expect=expect) for one in params]


def requests_without_calls(loaded: LoadedGateway) -> dict[str, Request]:
    """Return what clients send around a call, by a name for the table."""
    headers = key_of(loaded)
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
    return {
        "initialize": legacy_rpc("initialize", hello, headers, expect="serverInfo"),
        "server/discover": rpc("server/discover", {}, headers, expect="supportedVersions"),
        "tools/list in the mode search": rpc(
            "tools/list", {}, headers, path="/mcp/search", expect="find_tools"
        ),
        "a rejected GET": Request(
            "/mcp", {**headers, "Accept": "text/event-stream"}, expect="Only POST", method="GET", status=405
        ),
    }


def echoed() -> Request:
    """Return the request for the server that only parses and writes JSON: the body of `server/discover`."""
    return rpc("server/discover", {}, {"Authorization": "Bearer none"}, path="/", expect=MODERN)


def full_list(loaded: LoadedGateway) -> Request:
    """Return the request for the list of all tools."""
    return rpc("tools/list", {}, key_of(loaded), path="/mcp/all", expect="inputSchema")


def tool_calls(loaded: LoadedGateway, count: int, *, expect: str) -> list[Request]:
    """Return responses of a model of OpenAI with `count` calls each, for `POST /tool-calls`."""
    names = agent_names(loaded)
    requests = []
    for begin in range(len(names)):
        calls = [
            {
                "id": f"call_{begin}_{number}",
                "type": "function",
                "function": {
                    "name": names[(begin + number) % len(names)],
                    # Different arguments, so that no call is a duplicate of another.
                    "arguments": f'{{"id": {42 + number}, "q": "sea", "limit": 10}}',
                },
            }
            for number in range(count)
        ]
        body = {"role": "assistant", "content": None, "tool_calls": calls}
        requests.append(Request("/tool-calls?format=openai-chat", key_of(loaded), body, expect=expect))
    return requests


def key_of(loaded: LoadedGateway) -> dict[str, str]:
    """Return the header of the gateway's key."""
    return {"Authorization": f"Bearer {loaded.key}"}


def agent_names(loaded: LoadedGateway) -> list[str]:
    """Return the names of the called tools as agents have them."""
    return [path.split("/")[2].replace(".", "_") for path in loaded.tools]


@contextmanager
def echo(folder: Path) -> Iterator[ServerProcess]:
    """Run the server that only parses and writes JSON. Raises NotStarted."""
    port = free_port()
    with start_server(["-m", "benchmarks.echo", str(port)], port=port, folder=folder) as server:
        yield server


@contextmanager
def lowlevel(upstream: str, folder: Path) -> Iterator[ServerProcess]:
    """Run the official low-level server. Raises NotStarted."""
    port = free_port()
    command = ["-m", "benchmarks.lowlevel_server", str(port), upstream]
    with start_server(command, port=port, folder=folder) as server:
        yield server
