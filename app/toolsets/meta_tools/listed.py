"""Which tools a client gets at an address: all, or the meta-tools and the pinned ones."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from app.security.principal import SchemaForm
from app.toolsets import AgentTool, CollectionOptions, Listing
from app.toolsets.collection import ListMode
from app.toolsets.mcp_tool import shown_json, write_beside
from app.toolsets.meta_tools.definitions import META_TOOL_NAMES, meta_tools

AUTO_TOOLS: Final = 40
"""Up to this many tools are listed in the mode `auto`: hosts warn of more, and models choose worse."""
AUTO_BYTES: Final = 40_000
"""Up to this many bytes of definitions are listed in the mode `auto`: some 10,000 tokens."""
_REFERENCE: Final = b'"$ref"'
_RESERVED: Final = frozenset(META_TOOL_NAMES)


async def listed_tools(
    listing: Listing, mode: ListMode, options: CollectionOptions, form: SchemaForm
) -> Sequence[AgentTool]:
    """Return the tools that a client is given of a listing, in no certain order.

    `mode` is what the client asks for; with `auto` the owner of the toolset decides. With meta-tools, those
    come last. `form` is that in which it sees their schemas.
    """
    chosen = options.mode if mode == "auto" else mode
    tools = [tool for tool in listing.tools if tool.name not in _RESERVED]
    if chosen == "all" or (chosen == "auto" and await _is_small(tools, form)):
        return tools
    return [*(tool for tool in tools if tool.name in options.pinned), *meta_tools(listing)]


async def _is_small(tools: Sequence[AgentTool], form: SchemaForm) -> bool:
    if len(tools) > AUTO_TOOLS:
        return False
    growing = [tool for tool in tools if _REFERENCE in tool.inputs_json]
    others = [tool for tool in tools if _REFERENCE not in tool.inputs_json]
    return await write_beside(growing, partial(_fit, [*others, *growing], form))


def _fit(tools: Sequence[AgentTool], form: SchemaForm) -> bool:
    """Return whether the definitions of tools are of AUTO_BYTES at most; none is written after that."""
    left = AUTO_BYTES
    return all((left := left - _size(tool, form)) >= 0 for tool in tools)


def _size(tool: AgentTool, form: SchemaForm) -> int:
    """Return the bytes of a definition, without what is the same for all."""
    # Only references that are written out make a schema much larger.
    inputs = shown_json(tool.inputs_json, form)[0] if _REFERENCE in tool.inputs_json else tool.inputs_json
    outputs = len(tool.outputs_json) if tool.publishes_outputs else 0
    return len(inputs) + outputs + len(tool.description.encode()) + len(tool.name) + len(tool.title)
