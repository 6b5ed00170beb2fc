"""The configuration files of MCP clients, as the documentation of every MCP server gives them.

`{"mcpServers": {...}}` (Claude, Cursor, Cline, Windsurf, Gemini CLI), and that of VS Code:
`{"servers": {...}}`, by itself or below `mcp`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.text import pointer
from app.protocols.record import ClientConfiguration, Fields

_IN_TEMPLATE: Final = "/config/mcpServers"
_PLACES: Final = (("mcpServers",), ("servers",), ("mcp", "servers"))
_URL_NAMES: Final = ("serverUrl", "httpUrl")
# Values that a client asks its user for, or takes from its environment.
_PLACEHOLDER: Final = re.compile(r"\$\{(?:env|input):([A-Za-z0-9_.-]{1,100})\}")
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


def read_configuration(document: Fields) -> ClientConfiguration | None:
    """Return the servers of a configuration file; None for a document that is none.

    Servers that are disabled are left out. `${env:NAME}` and `${input:name}` become variables of UTCP.
    """
    for path in _PLACES:
        found: Any = document
        for key in path:
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and _has_servers(found, is_certain=path == _PLACES[0]):
            enabled = {name: one for name, one in found.items() if not _is_disabled(one)}
            servers = {str(name): _server(one) for name, one in enabled.items()}
            template = {"call_template_type": "mcp", "config": {"mcpServers": servers}}
            name = next(iter(servers)) if len(servers) == 1 else None
            return ClientConfiguration(template, _IN_TEMPLATE, pointer("", *path), name)
    return None


def _has_servers(found: Mapping[str, Any], *, is_certain: bool) -> bool:
    """Return whether the members are servers of MCP; other documents have a member `servers`, too."""
    if is_certain:
        return True
    return bool(found) and all(
        isinstance(one, Mapping)
        # Servers of AsyncAPI have a URL and a protocol.
        and "protocol" not in one
        and (isinstance(one.get("command"), str) or isinstance(one.get("url"), str))
        for one in found.values()
    )


def _is_disabled(server: Any) -> bool:
    return isinstance(server, Mapping) and (server.get("disabled") is True or server.get("enabled") is False)


def _server(server: Any) -> Any:
    if not isinstance(server, Mapping):
        return server
    members = {key: _with_variables(value) for key, value in server.items()}
    for name in _URL_NAMES:
        if "url" not in members and name in members:
            members["url"] = members.pop(name)
    url = members.get("url")
    if isinstance(url, str) and not {"type", "transport"} & members.keys():
        path = url.partition("?")[0].rstrip("/")
        members["transport"] = "sse" if path.endswith("/sse") else "http"
    return members


def _with_variables(value: Any) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: f"${{{_NO_NAME.sub('_', found[1])}}}", value)
    if isinstance(value, Mapping):
        return {key: _with_variables(member) for key, member in value.items()}
    return [_with_variables(member) for member in value] if isinstance(value, list) else value
