"""UTCP's `mcp`: servers of the Model Context Protocol, by HTTP or as programs."""

from typing import Any
from urllib.parse import quote

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.utcp.paths import compile_url
from app.protocols.mcp.configuration import read_configuration
from app.protocols.mcp.template import McpTemplate
from app.protocols.record import DirectMode, Fields, NotDirect, ProtocolRecord, not_direct_here


def origin_of(fields: Fields) -> str:
    """Return the origin of the one server, `stdio:///usr/bin/x` of one that is a program; raise InvalidInput
    where there are several, and for a URL that is not legal.
    """
    servers = _servers(fields)
    if len(servers) != 1:
        field_error = FieldError("/config/mcpServers", "The template of a tool names one server.")
        raise InvalidInput("The server that is meant cannot be determined.", errors=[field_error])
    name, server = next(iter(servers.items()))
    at = pointer("/config/mcpServers", name)
    if server.get("transport") == "stdio":
        return f"stdio://{server['command']}"
    return compile_url(str(server.get("url", "")), at=pointer(at, "url")).origin


def _servers(fields: Fields) -> dict[str, dict[str, Any]]:
    servers: dict[str, dict[str, Any]] = fields["config"]["mcpServers"]
    return servers


def _with_servers(fields: Fields, servers: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {**fields, "config": {**fields["config"], "mcpServers": servers}}


def _parts(fields: Fields) -> list[dict[str, Any]]:
    return [_with_servers(fields, {name: server}) for name, server in _servers(fields).items()]


def _part_pointer(fields: Fields) -> str:
    servers = (fields.get("config") or {}).get("mcpServers") or {}
    return pointer("/config/mcpServers", *servers) if len(servers) == 1 else ""


def _address(fields: Fields) -> str:
    servers = (fields.get("config") or {}).get("mcpServers") or {}
    return " ".join(server["url"] for server in servers.values() if server.get("url"))


def _native(fields: Fields) -> dict[str, Any]:
    if any(server.get("transport") == "stdio" for server in _servers(fields).values()):
        return not_direct_here(fields)
    if "tool_name" not in fields:
        raise NotDirect("UTCP cannot name a resource.")
    return dict(fields)


def _with_whole_urls(fields: Fields) -> dict[str, Any]:
    """Return the template with the parameters of each URL in the URL itself, as UTCP's `mcp` has them."""
    servers: dict[str, dict[str, Any]] = {}
    for name, server in _servers(fields).items():
        rest = {key: value for key, value in server.items() if key != "query"}
        pairs = [f"{quote(key)}={value}" for key, value in (server.get("query") or {}).items()]
        servers[name] = rest | ({"url": f"{server['url']}?{'&'.join(pairs)}"} if pairs else {})
    return _with_servers(fields, servers)


def _tool_name(_name: str, fields: Fields) -> str:
    """Return `server.tool`: UTCP's plugin for MCP takes the server and the tool from the name."""
    (server,) = _servers(fields)
    return f"{server}.{fields['tool_name']}"


def _http_method(fields: Fields) -> str | None:
    """Return GET for a resource, which is only read; None for a tool."""
    return None if "tool_name" in fields else "GET"


def _request(fields: Fields) -> tuple[str, str] | None:
    url = _address(fields)
    return ("POST", url) if url else None


def _operations(fields: Fields) -> tuple[str, ...]:
    name = fields.get("tool_name") or fields.get("resource_uri")
    return (str(name),) if name else ()


PROTOCOL = ProtocolRecord(
    name="mcp",
    template=McpTemplate,
    adapter="app.protocols.mcp.adapter:McpAdapter",
    extra="mcp",
    libraries=("mcp", "mcp_types"),
    origin=origin_of,
    address=_address,
    parts=_parts,
    part_pointer=_part_pointer,
    from_configuration=read_configuration,
    program_schemes=("stdio",),
    is_introspected=True,
    may_be_local=True,
    http_method=_http_method,
    request=_request,
    operations=_operations,
    direct=DirectMode(native=_native, finish=_with_whole_urls, tool_name=_tool_name),
)
