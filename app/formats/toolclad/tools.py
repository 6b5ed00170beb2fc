"""A manifest -> a tool of a UTCP manual: name, inputs, outputs and call template."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from app.core.errors import FieldError, InvalidDocument
from app.formats.toolclad.contract import Contract
from app.formats.toolclad.manifest import Manifest

MANUAL_VERSION: Final = "1.0.1"
VARIABLE_PREFIX: Final = "TOOLCLAD_SECRET_"
"""`{_secret:name}` is the variable `${TOOLCLAD_SECRET_NAME}`, as ToolClad names its environment variable."""


def name_variable(secret: str) -> str:
    """Return the name of the variable that has the value of a secret."""
    return f"{VARIABLE_PREFIX}{secret.upper()}"


def build_tool(manifest: Manifest, servers: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest as a tool of a manual; `servers` are MCP servers (`mcpServers`) by name.

    Raise InvalidDocument, with pointers into the manifest, for a server that is not known.
    """
    return {
        "name": manifest.name,
        "description": manifest.description,
        "inputs": manifest.inputs,
        "outputs": manifest.outputs,
        "tags": [f"risk:{manifest.contract.risk_tier}"],
        "tool_call_template": _call_template(manifest.contract, servers),
    }


def _call_template(contract: Contract, servers: Mapping[str, Any]) -> dict[str, Any]:
    stored = contract.model_dump(mode="json", exclude_none=True, by_alias=True)
    if contract.http is not None:
        template: dict[str, Any] = {
            "call_template_type": "http",
            "http_method": contract.http.method,
            "url": _get_base(contract.http.url),
        }
        if contract.secrets:
            template["secrets"] = {name: f"${{{name_variable(name)}}}" for name in contract.secrets}
        return {**template, "toolclad": stored}
    if contract.command is not None:
        return {"call_template_type": "cli", "toolclad": stored}
    assert contract.mcp is not None  # noqa: S101 - one backend is set.
    server = contract.mcp.server
    config = _find_server(server, servers)
    return {
        "call_template_type": "mcp",
        "config": {"mcpServers": {_name_server(server): config}},
        "tool_name": contract.mcp.tool,
        "toolclad": stored,
    }


def _get_base(url: str) -> str:
    """Return the scheme, the host and the port of a URL, which are where calls go."""
    return f"{url.partition('://')[0]}://{url.partition('://')[2].partition('/')[0].partition('?')[0]}/"


def _find_server(name: str, servers: Mapping[str, Any]) -> Any:
    if name in servers:
        return servers[name]
    if name.lower().startswith(("https://", "http://")):
        return {"type": "http", "url": name}
    detail = (
        "Give the server's URL here, or its configuration in `mcpServers` (the file mcp.json of an archive)."
    )
    error = FieldError("/mcp/server", detail, sorted(servers)[:100] or None)
    raise InvalidDocument("The MCP server of the manifest is not known", errors=[error])


def _name_server(server: str) -> str:
    is_url = server.lower().startswith(("https://", "http://"))
    return (urlsplit(server).hostname or "server") if is_url else server
