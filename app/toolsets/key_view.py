"""What a key that is limited to toolsets has at the addresses that name no toolset: the tools of all of its
toolsets, each through one of them.

A tool that its toolsets have alike is listed by its name there. One that they change differently is listed
once for each of these ways, as `toolset.tool`, and so are different tools of one name. What a call of it
executes is what the call at the address of that toolset does.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from app.core.errors import NotFound, not_found
from app.core.suggestions import find_similar
from app.formats.utcp.names import choose_agent_name
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.toolsets.agent_tool import AgentTool
from app.toolsets.collection import AmbiguousTool, CallTarget, CollectionOptions, ListMode, ToolCollection
from app.toolsets.directory import Listing
from app.toolsets.found import FoundTools, ToolSearch, find_members
from app.toolsets.members import Members, MemberView

_HINT: Final = "GET /tools has all names that the API key may use; over MCP, tools/list."


@dataclass(frozen=True, slots=True)
class ToolsetPart:
    """A toolset of a key: its members as far as the key sees them, and what its owner has set."""

    toolset: str
    members: Members = field(repr=False)
    view: MemberView = field(repr=False)
    options: CollectionOptions


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to a tool: as the toolset at `part` has it."""

    part: int
    tool: AgentTool


@dataclass(frozen=True, slots=True)
class MergedTools:
    """The tools of several toolsets, whoever asks.

    `ways` are those that are listed, by the names that they are listed by; `names` has all names by which
    tools may be called, with the listed names of what each of them means.
    """

    parts: Sequence[ToolsetPart]
    listing: Listing
    options: CollectionOptions
    ways: Mapping[str, _Way] = field(repr=False)
    names: Mapping[str, Sequence[str]] = field(repr=False)
    by_name: Mapping[str, AgentTool] = field(repr=False)
    """The listed tools by each name that means only one of them."""

    @classmethod
    def of(cls, parts: Sequence[ToolsetPart]) -> "MergedTools":
        """Return the tools of toolsets, which are ordered by name."""
        meanings = _collect_meanings(parts)
        listed = _name_ways(list(_choose_ways(parts)), parts, meanings)
        tools = _rename_tools(listed, taken=meanings.keys() | listed.keys())
        names = _collect_names(parts, listed, tools)
        by_name = {name: tools[found[0]] for name, found in names.items() if len(found) == 1}
        options = _merge_options(parts, listed, tools)
        return cls(parts, Listing.of(tools.values()), options, listed, names, by_name)

    def find(self, name: str) -> AgentTool:
        """Return a listed tool by any of its names; raise NotFound and AmbiguousTool."""
        found = self.by_name.get(name)
        if found is not None:
            return found
        if name in self.names:
            raise AmbiguousTool(name, self.names[name])
        raise self._reject_unknown(name)

    def _reject_unknown(self, name: str) -> NotFound:
        for index, part in enumerate(self.parts):
            canonical = part.members.former_names.get(name, name)
            for listed, way in self.ways.items():
                if way.part == index and canonical in (way.tool.tool, way.tool.alias):
                    return not_found(f"{name} is called {listed} in the toolset {part.toolset}.", [listed])
        detail = f"No toolset of the API key has a tool {name}."
        similar = find_similar(name, self.ways, limit=3)
        return not_found(detail, similar) if similar else NotFound(detail, hint=_HINT)


class KeyView:
    """The tools of a key that is limited to toolsets, at the addresses that name none: a ToolCollection.

    `principal` is that of the key, which may call nothing itself; `owners` are the collections of its
    toolsets, in the order of the merged parts.
    """

    toolset = None
    is_registry = False

    def __init__(
        self,
        merged: MergedTools,
        owners: Sequence[ToolCollection],
        search: SearchIndex,
        principal: Principal,
    ) -> None:
        self.principal = principal
        self.options = merged.options
        self._merged = merged
        self._owners = owners
        self._search = search

    async def listing(self) -> Listing:
        """See `ToolCollection`."""
        return self._merged.listing

    async def tools(self) -> Sequence[AgentTool]:
        """See `ToolCollection`."""
        return self._merged.listing.tools

    async def get(self, name: str) -> AgentTool:
        """See `ToolCollection`."""
        return self._merged.find(name)

    async def find(self, wanted: ToolSearch) -> FoundTools:
        """See `ToolCollection`."""
        return await find_members(
            self._search,
            wanted,
            self._merged.by_name,
            principal=self.principal.across_toolsets(),
        )

    def target(self, name: str) -> CallTarget:
        """See `ToolCollection`."""
        return self.resolve(self._merged.find(name))

    def resolve(self, tool: AgentTool) -> CallTarget:
        """See `ToolCollection`."""
        return CallTarget(tool.tool, tool.presets, self._owners[self._merged.ways[_listed_name(tool)].part])


def _choose_ways(parts: Sequence[ToolsetPart]) -> Iterator[list[_Way]]:
    """Yield the different ways to each tool: of toolsets that have it alike, that of the first."""
    found: dict[str, dict[object, _Way]] = defaultdict(dict)
    for index, part in enumerate(parts):
        for tool in part.view.listing.tools:
            found[tool.tool].setdefault((tool.stamp, _call_options(part)), _Way(index, tool))
    for ways in found.values():
        yield list(ways.values())


def _call_options(part: ToolsetPart) -> tuple[object, ...]:
    """Return what a toolset sets for each call."""
    options = part.options
    return (options.argument_repair, options.max_bytes, options.max_tokens, options.upstream)


def _name_ways(
    chosen: Collection[list[_Way]], parts: Sequence[ToolsetPart], meanings: Mapping[str, set[str]]
) -> dict[str, _Way]:
    """Return the ways by the names that they are listed by; `meanings` are those of `_collect_meanings`."""
    uses: dict[str, int] = defaultdict(int)
    for ways in chosen:
        for name in {way.tool.name for way in ways}:
            uses[name] += 1
    listed: dict[str, _Way] = {}
    for ways in chosen:
        for way in ways:
            is_alone = len(ways) == 1 and uses[way.tool.name] == 1
            name = way.tool.name if is_alone else _qualify_name(way, parts)
            if not is_alone and (name in listed or meanings.get(name, {way.tool.tool}) != {way.tool.tool}):
                # Another tool has this name already, in the registry or in a toolset.
                name = choose_agent_name(name, name.replace(".", "_"), meanings.keys() | listed.keys())
            listed[name] = way
    return listed


def _collect_meanings(parts: Sequence[ToolsetPart]) -> dict[str, set[str]]:
    """Return the canonical names of the tools that each name means in one of the toolsets."""
    meanings: dict[str, set[str]] = defaultdict(set)
    for part in parts:
        for name, tool in part.view.by_name.items():
            meanings[name].add(tool.tool)
        for tool in part.view.listing.tools:
            meanings[tool.tool].add(tool.tool)
            meanings[tool.alias].add(tool.tool)
    return dict(meanings)


def _listed_name(tool: AgentTool) -> str:
    return tool.qualified_name or tool.name


def _qualify_name(way: _Way, parts: Sequence[ToolsetPart]) -> str:
    return f"{parts[way.part].toolset}.{way.tool.name}"


def _rename_tools(listed: Mapping[str, _Way], *, taken: Collection[str]) -> dict[str, AgentTool]:
    """Return the tools by the names that they are listed by. Models take no dot in the name of a tool, so
    that the name for agents is one without it. `taken` are names that mean other tools.
    """
    used = set(taken)
    tools: dict[str, AgentTool] = {}
    for name, way in listed.items():
        tool = way.tool
        if name != tool.name:
            agent_name = name
            if "." in name:
                agent_name = choose_agent_name(name, name.replace(".", "_"), used)
                used.add(agent_name)
            qualified = name if "." in name else ""
            tool = replace(
                tool, name=agent_name, alias=agent_name, qualified_name=qualified, is_renamed=True
            ).stamped()
        tools[name] = tool
    return tools


def _collect_names(
    parts: Sequence[ToolsetPart], listed: Mapping[str, _Way], tools: Mapping[str, AgentTool]
) -> dict[str, Sequence[str]]:
    """Return the listed names of the ways that each name means; a listed name means its own alone."""
    names: dict[str, dict[str, None]] = defaultdict(dict)
    by_tool: dict[str, list[str]] = defaultdict(list)
    for name, way in listed.items():
        by_tool[way.tool.tool].append(name)
        if name != way.tool.name:
            names[tools[name].name][name] = None
    for index, part in enumerate(parts):
        for name, tool in part.view.by_name.items():
            for own in by_tool[tool.tool]:
                if listed[own].part == index or len(by_tool[tool.tool]) == 1:
                    names[name][own] = None
    for known in by_tool.values():
        if len(known) > 1:
            # Also where a toolset has it by another name alone: a client that knows the tool learns both.
            tool = listed[known[0]].tool
            names[tool.tool] = names[tool.alias] = dict.fromkeys(known)
    for name, way in listed.items():
        names.setdefault(_qualify_name(way, parts), {name: None})
    meant: dict[str, Sequence[str]] = {name: tuple(found) for name, found in names.items()}
    return meant | {name: (name,) for name in listed}


def _merge_options(
    parts: Sequence[ToolsetPart], listed: Mapping[str, _Way], tools: Mapping[str, AgentTool]
) -> CollectionOptions:
    """Return which tools are listed: all where all toolsets say so, and those of a toolset that says so in
    each mode. Schemas are whole where all toolsets show them so. What holds for calls is that of the
    toolset of each; the least budget holds for the rest of a result, which is of one of them.
    """
    modes = {part.options.mode for part in parts}
    mode: ListMode = "all" if modes == {"all"} else "search" if "search" in modes else "auto"
    pinned = tuple(
        tools[name].name
        for name, way in listed.items()
        if parts[way.part].options.mode == "all" or way.tool.name in parts[way.part].options.pinned
    )
    is_full = all(part.options.schemas == "full" for part in parts)
    sizes = [part.options.max_bytes for part in parts if part.options.max_bytes is not None]
    tokens = [part.options.max_tokens for part in parts if part.options.max_tokens is not None]
    return CollectionOptions(
        mode=mode,
        pinned=pinned,
        max_bytes=min(sizes, default=None),
        max_tokens=min(tokens, default=None),
        schemas="full" if is_full else "portable",
    )


def merged_key(parts: Sequence[ToolsetPart]) -> Any:
    """Return what differs whenever the merged tools may: the views, which live as long as what they show."""
    return tuple((part.toolset, part.options, id(part.view)) for part in parts)
