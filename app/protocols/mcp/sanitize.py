"""What MCP servers list, mended: one bad tool must not lose the others."""

from typing import Any, Final

_ALLOWED_MEMBERS: Final[tuple[str, ...]] = ("name", "title", "description", "inputSchema", "outputSchema")


def sanitized_tools(raw: dict[str, Any]) -> dict[str, Any]:
    """The result of `tools/list` with each tool's plain members only; one without a name is left out."""
    tools = raw.get("tools")
    if not isinstance(tools, list):
        return {**raw, "tools": []}
    return {**raw, "tools": [_sanitized(tool) for tool in tools if _named(tool)]}


def _named(tool: Any) -> bool:
    return isinstance(tool, dict) and isinstance(tool.get("name"), str) and bool(tool["name"])


def _sanitized(tool: dict[str, Any]) -> dict[str, Any]:
    kept = {key: tool[key] for key in _ALLOWED_MEMBERS if key in tool}
    for key in ("title", "description"):
        if not isinstance(kept.get(key, ""), str):
            del kept[key]
    kept["inputSchema"] = _object(kept.get("inputSchema")) or {"type": "object"}
    outputs = _object(kept.pop("outputSchema", None))
    return {**kept, "outputSchema": outputs} if outputs else kept


def _object(schema: Any) -> dict[str, Any] | None:
    """A schema of objects, as versions of MCP before 2026 have no others; None for what is none."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        return None
    return {"type": "object", **schema}
