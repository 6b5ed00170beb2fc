"""Searches among tools as agents see them, by the one ranking of `app.search`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.search import Advice, Filters, Hit, Ranking, SearchIndex, SeenTool
from app.security.principal import Principal
from app.toolsets.agent_tool import AgentTool


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The tools that a search has found, best first, and what to search for next where they are weak matches.

    `advice` is None where no text has a weak match, or where none was asked for; `hits` are those of the
    registry, in the same order.
    """

    tools: Sequence[AgentTool] = ()
    advice: Advice | None = None
    ranking: Ranking = "words"
    hits: Sequence[Hit] = ()


async def find_members(
    search: SearchIndex,
    texts: Sequence[str],
    by_name: Mapping[str, AgentTool],
    *,
    principal: Principal,
    filters: Filters | None,
    limit: int,
    advise: bool,
) -> FoundTools:
    """Return the best matches among some tools, whose names here are in `by_name`; raise Unavailable.

    A text that is the name of a tool here finds it first, although the registry does not know that name.
    """
    tools = {tool.tool: tool for tool in by_name.values()}
    ids = frozenset(tool.id for tool in tools.values())
    given = filters or Filters()
    chosen = replace(given, tools=ids if given.tools is None else ids & given.tools)
    result = await search.find(texts, principal=principal, filters=chosen, limit=limit)
    names = {hit.name for hit in result.hits}
    named = [by_name[text.strip()] for text in texts if text.strip() in by_name]
    if given != Filters():
        named = [tool for tool in named if tool.tool in names]
    found = [*named, *(tools[hit.name] for hit in result.hits if hit.name in tools)]

    def see(name: str) -> SeenTool | None:
        tool = tools.get(name)
        return None if tool is None else seen_tool(tool)

    advice = None
    if advise and not named:
        advice = await search.advise(result, principal=principal, filters=chosen, see=see)
    unique = list({tool.name: tool for tool in found}.values())[:limit]
    return FoundTools(unique, advice, result.ranking, result.hits)


async def find_in_registry(
    search: SearchIndex,
    texts: Sequence[str],
    by_name: Mapping[str, AgentTool],
    *,
    principal: Principal,
    filters: Filters | None,
    limit: int,
    advise: bool,
) -> FoundTools:
    """Return the best matches among all tools that the principal may call; raise Unavailable."""
    result = await search.find(texts, principal=principal, filters=filters, limit=limit)
    tools = [by_name[hit.name] for hit in result.hits if hit.name in by_name]
    advice = await search.advise(result, principal=principal, filters=filters) if advise else None
    return FoundTools(tools, advice, result.ranking, result.hits)


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
