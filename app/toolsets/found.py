"""Searches among tools as agents see them, by the one ranking of `app.search`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.search.advice import Advice, SeenTool
from app.search.index import Filters
from app.search.search_index import SearchIndex, SearchResult
from app.security.principal import Principal
from app.toolsets.agent_tool import AgentTool


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The tools that a search has found, best first, and what to search for next where they are weak matches.

    `advice` is None where no text has a weak match, or where none was asked for; `search` is the result of
    the registry's index, whose hits have the same order.
    """

    tools: Sequence[AgentTool] = ()
    advice: Advice | None = None
    search: SearchResult = field(default_factory=lambda: SearchResult(()))


@dataclass(frozen=True, slots=True)
class ToolSearch:
    """What `ToolCollection.find` is asked for: the best matches of up to four texts in turn, at most `limit`.
    An empty text lists tools by name.

    With `advise`, also what to search for next after weak matches; with `explain`, the hits of the search are
    explained.
    """

    texts: Sequence[str]
    filters: Filters | None = None
    limit: int = 10
    advise: bool = False
    explain: bool = False


async def find_members(
    search: SearchIndex,
    wanted: ToolSearch,
    by_name: Mapping[str, AgentTool],
    *,
    principal: Principal,
    toolset: str | None = None,
) -> FoundTools:
    """Return the best matches among some tools, whose names here are in `by_name`; raise Unavailable. A tool
    that has several names here, each in its own form, is found in each of them.

    A text that is the name of a tool here finds it first, although the registry does not know that name.
    """
    tools: dict[str, dict[str, AgentTool]] = {}
    for tool in by_name.values():
        tools.setdefault(tool.tool, {})[tool.name] = tool
    ids = frozenset(tool.id for tool in by_name.values())
    given = wanted.filters or Filters()
    chosen = replace(given, tools=ids if given.tools is None else ids & given.tools)
    result = await search.find(
        wanted.texts,
        principal=principal,
        filters=chosen,
        limit=wanted.limit,
        toolset=toolset,
        explain=wanted.explain,
    )
    names = {hit.name for hit in result.hits}
    named = [by_name[text.strip()] for text in wanted.texts if text.strip() in by_name]
    if given != Filters():
        named = [tool for tool in named if tool.tool in names]
    found = [*named, *(tool for hit in result.hits for tool in tools.get(hit.name, {}).values())]

    def see(name: str) -> SeenTool | None:
        return next((seen_tool(tool) for tool in tools.get(name, {}).values()), None)

    advice = None
    if wanted.advise and not named:
        advice = await search.advise(result, principal=principal, filters=chosen, see=see)
    unique = list({tool.name: tool for tool in found}.values())[: wanted.limit]
    return FoundTools(unique, advice, result)


async def find_in_registry(
    search: SearchIndex,
    wanted: ToolSearch,
    by_name: Mapping[str, AgentTool],
    *,
    principal: Principal,
) -> FoundTools:
    """Return the best matches among all tools that the principal may call; raise Unavailable."""
    result = await search.find(
        wanted.texts,
        principal=principal,
        filters=wanted.filters,
        limit=wanted.limit,
        explain=wanted.explain,
    )
    tools = [by_name[hit.name] for hit in result.hits if hit.name in by_name]
    advice = None
    if wanted.advise:
        advice = await search.advise(result, principal=principal, filters=wanted.filters)
    return FoundTools(tools, advice, result)


def seen_tool(tool: AgentTool) -> SeenTool:
    """Return the texts of a tool as its clients see them: without what a toolset hides or renames."""
    prefix = f"{tool.provider}_"
    properties = tool.inputs.get("properties")
    return SeenTool(
        provider=tool.provider,
        local_name=tool.name.removeprefix(prefix),
        description=tool.description,
        tags=tool.tags,
        inputs=list(properties) if isinstance(properties, Mapping) else (),
    )
