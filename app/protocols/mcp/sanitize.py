"""Sanitising of the tools that MCP servers list: one invalid tool must not make the others unavailable."""

from typing import Any, Final

_ALLOWED_MEMBERS: Final[tuple[str, ...]] = ("name", "title", "description", "inputSchema", "outputSchema")


def sanitized_tools(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `tools/list`, tools reduced to known members; those without a name are omitted."""
    tools = raw.get("tools")
    if not isinstance(tools, list):
        return {**raw, "tools": []}
    return {**raw, "tools": [_sanitized(tool) for tool in tools if _has_name(tool)]}


def _has_name(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and bool(tool["name"])


def _sanitized(tool: dict[str, Any]) -> dict[str, Any]:
    members = {key: tool[key] for key in _ALLOWED_MEMBERS if key in tool}
    for key in ("title", "description"):
        if not isinstance(members.get(key, ""), str):
            del members[key]
    members["inputSchema"] = _object_schema(members.get("inputSchema")) or {"type": "object"}
    outputs = _object_schema(members.pop("outputSchema", None))
    return {**members, "outputSchema": outputs} if outputs else members


def _object_schema(schema: Any) -> dict[str, Any] | None:
    """Return a schema of objects, the only kind in versions of MCP before 2026; None for any other value."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return None
    return {"type": "object", **schema}
