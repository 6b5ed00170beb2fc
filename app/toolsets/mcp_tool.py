"""A tool as MCP describes it: for the list of `/mcp`, and for exports; and how agents see its schemas."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson

from app.core import exact_json
from app.formats.dialects.header_inputs import with_header_inputs
from app.formats.dialects.losses import Loss
from app.formats.dialects.portable import Portable, make_portable
from app.security.principal import SchemaForm
from app.toolsets.agent_tool import AgentTool

META_PREFIX: Final = "utcp-gateway/"
"""The prefix of the gateway's own members of `_meta` (MCP, "General fields")."""
INLINE_BYTES: Final = 8 << 10
"""Bytes of schemas up to which they are written for clients in the event loop."""
_MAX_CHANGES: Final = 20
_MAX_CACHED: Final = 256
_Result = TypeVar("_Result")


def shown_schema(schema: dict[str, Any], form: SchemaForm, *, is_typed: bool = True) -> Portable:
    """Return a schema in the form in which a client sees it; see `make_portable`."""
    if form == "full":
        return Portable(schema)
    text, losses = _write_portable(exact_json.dumps(schema), is_typed)
    return Portable(orjson.loads(text), losses)


def with_marks(inputs: Portable, tool: AgentTool) -> Portable:
    """Return the inputs of a tool with the marks of those that clients repeat in a header."""
    return replace(inputs, schema=with_header_inputs(inputs.schema, tool.header_inputs))


def shown_json(schema: bytes, form: SchemaForm, *, is_typed: bool = True) -> tuple[bytes, tuple[Loss, ...]]:
    """Return a stored schema, as JSON, in the form in which a client sees it, and what that changed."""
    return (schema, ()) if form == "full" or not schema else _write_portable(schema, is_typed)


async def write_beside(tools: Iterable[AgentTool], write: Callable[[], _Result]) -> _Result:
    """Return what a function writes of the schemas of tools; it runs in a thread where these are large."""
    is_large = sum(len(tool.inputs_json) + len(tool.outputs_json) for tool in tools) > INLINE_BYTES
    return await asyncio.to_thread(write) if is_large else write()


@lru_cache(maxsize=_MAX_CACHED)
def _write_portable(schema: bytes, is_typed: bool) -> tuple[bytes, tuple[Loss, ...]]:
    stored = orjson.loads(schema)
    shown = make_portable(stored, is_typed=is_typed)
    # What only joins nested unions loses nothing.
    is_same = not shown.losses and shown.schema == stored
    return (schema if is_same else exact_json.dumps(shown.schema)), shown.losses


def schema_changes(inputs: tuple[Loss, ...], outputs: tuple[Loss, ...]) -> dict[str, Any]:
    """Return the member of `_meta` that says what was changed in the schemas of a tool; {} for nothing."""
    changes: dict[str, Any] = {}
    for name, losses in (("inputSchema", inputs), ("outputSchema", outputs)):
        if losses:
            changes[name] = [
                {"pointer": loss.pointer, "action": loss.action} for loss in losses[:_MAX_CHANGES]
            ]
    more = sum(max(0, len(losses) - _MAX_CHANGES) for losses in (inputs, outputs))
    if more:
        changes["more"] = more
    return {f"{META_PREFIX}schemaChanges": changes} if changes else {}


def mcp_tool(
    tool: AgentTool, *, description: str, inputs: Portable, outputs: Portable | None
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
    described |= {"description": description, "inputSchema": inputs.schema}
    if outputs is not None:
        described["outputSchema"] = outputs.schema
    described["annotations"] = annotations
    meta: dict[str, Any] = {}
    if tool.tool:
        meta = {f"{META_PREFIX}name": tool.tool, f"{META_PREFIX}provider": tool.provider}
        if tool.requires_approval:
            meta[f"{META_PREFIX}requiresApproval"] = True
        if tool.risk_tier is not None:
            meta[f"{META_PREFIX}riskTier"] = tool.risk_tier
    meta |= schema_changes(inputs.losses, () if outputs is None else outputs.losses)
    return described | {"_meta": meta} if meta else described
