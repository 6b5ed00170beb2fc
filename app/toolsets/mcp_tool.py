"""A tool as MCP describes it: for the list of `/mcp`, and for exports."""

from typing import Any, Final

from app.toolsets.agent_tool import AgentTool

META_PREFIX: Final = "utcp-gateway/"
"""The prefix of the gateway's own members of `_meta` (MCP, "General fields")."""


def mcp_tool(
    tool: AgentTool, *, description: str, inputs: dict[str, Any], outputs: dict[str, Any] | None
) -> dict[str, Any]:
    """Return the tool as a `Tool` of MCP's schema, with repaired schemas; no member is null."""
    annotations: dict[str, Any] = {"readOnlyHint": tool.read_only}
    if not tool.read_only:
        known = {"destructiveHint": tool.destructive, "idempotentHint": tool.idempotent}
        annotations |= {key: value for key, value in known.items() if value is not None}
    annotations["openWorldHint"] = tool.open_world
    described: dict[str, Any] = {"name": tool.name}
    if tool.title:
        described["title"] = tool.title
    described |= {"description": description, "inputSchema": inputs}
    if outputs is not None:
        described["outputSchema"] = outputs
    described["annotations"] = annotations
    if tool.tool:
        described["_meta"] = {f"{META_PREFIX}name": tool.tool, f"{META_PREFIX}provider": tool.provider}
        if tool.requires_approval:
            described["_meta"][f"{META_PREFIX}requiresApproval"] = True
        if tool.risk_tier is not None:
            described["_meta"][f"{META_PREFIX}riskTier"] = tool.risk_tier
    return described
