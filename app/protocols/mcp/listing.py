"""Conversion of the tools and resources that an MCP server lists into tools of a UTCP manual."""

import re
from collections.abc import Iterable
from typing import Any, Final

Json = dict[str, Any]

_VARIABLE: Final = re.compile(r"\{([A-Za-z0-9_]+)\}")
# RFC 6570 beyond its first level: only plain placeholders are tools.
_OPERATOR: Final = re.compile(r"\{[^A-Za-z0-9_]|\{[A-Za-z0-9_]*[^A-Za-z0-9_}]")


def tool_entries(server: str, tools: Iterable[Json]) -> list[Json]:
    """Return a UTCP tool for each MCP tool, named `server.tool`."""
    return [
        {
            "name": f"{server}.{tool['name']}",
            "description": tool.get("description") or tool.get("title") or "",
            "inputs": tool["inputSchema"],
            "outputs": tool.get("outputSchema") or {},
            "tags": [],
            "tool_call_template": {"call_template_type": "mcp", "tool_name": tool["name"]},
        }
        for tool in tools
    ]


def resource_entries(server: str, resources: Iterable[Json]) -> list[Json]:
    """Return a tool without inputs for each resource, named `server.resource_name`."""
    return [
        _resource(server, entry, entry.get("uri"), {"type": "object", "properties": {}})
        for entry in resources
    ]


def template_entries(server: str, templates: Iterable[Json]) -> list[Json]:
    """Return a tool for each resource template, with its placeholders (RFC 6570 level 1) as inputs."""
    entries = []
    for entry in templates:
        uri = str(entry.get("uriTemplate", ""))
        if _OPERATOR.search(uri):
            continue
        names = list(dict.fromkeys(_VARIABLE.findall(uri)))
        properties = {name: {"type": "string"} for name in names}
        inputs = {"type": "object", "properties": properties, "required": names}
        entries.append(_resource(server, entry, uri, inputs))
    return entries


def uri_names(uri: str) -> list[str]:
    """Return the names of the placeholders (`{name}`) in the URI of a resource template, each once."""
    return list(dict.fromkeys(_VARIABLE.findall(uri)))


def fill_uri(uri: str, values: dict[str, str]) -> str:
    """Return the URI with percent-encoded values in its placeholders."""
    return _VARIABLE.sub(lambda found: values[found[1]], uri)


def _resource(server: str, entry: Json, uri: Any, inputs: Json) -> Json:
    name = str(entry.get("name") or uri)
    return {
        "name": f"{server}.resource_{name}",
        "description": f"Read resource: {entry.get('description') or name}. URI: {uri}",
        "inputs": inputs,
        "outputs": {},
        "tags": ["resource"],
        "tool_call_template": {"call_template_type": "mcp", "resource_uri": str(uri)},
    }
