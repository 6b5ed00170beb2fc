"""Tools with large schemas are rendered and exported in a thread, while the event loop serves other requests."""

import asyncio

import orjson

from app.access.authorise import ANONYMOUS
from app.agents.mcp.tool_lists import ToolLists
from app.toolsets import AgentTool, CollectionOptions, Listing
from app.toolsets.exports import ToolExporter

PROPERTIES = {f"member_{number}": {"type": "string", "description": "x" * 100} for number in range(2_500)}
LARGE = AgentTool(
    name="p_large",
    tool="p.large",
    alias="p_large",
    provider="p",
    description="A large tool.",
    inputs_json=orjson.dumps({"type": "object", "properties": PROPERTIES}),
    outputs_json=b"{}",
).stamped()


class Collection:
    """The tool, for a key that may only read."""

    principal = ANONYMOUS
    toolset = None
    options = CollectionOptions()

    async def listing(self) -> Listing:
        return Listing.of([LARGE])


async def turns_during(work) -> int:
    """Return how often another task had its turn while this was awaited."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await work
    counting.cancel()
    return turns


async def test_a_large_tool_is_rendered_beside_other_requests():
    assert await turns_during(ToolLists(page_size=10).page(Collection(), "all", None)) > 0


async def test_a_large_tool_is_exported_beside_other_requests():
    exporter = ToolExporter(base_url="http://gateway.example")
    assert await turns_during(exporter.export([LARGE], "anthropic")) > 0
