"""Collections of tools: what every interface for agents lists, searches, exports and calls by."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol

from app.catalog.feed import ChangeNotice
from app.database import Database
from app.errors import NotFound, not_found
from app.search import Filters, SearchIndex
from app.security.principal import Principal
from app.security.upstream_mode import UpstreamMode
from app.suggestions import closest
from app.toolsets.agent_tool import AgentTool
from app.toolsets.definition import ResultBudget
from app.toolsets.directory import Listing, ToolDirectory, may_see
from app.toolsets.found import FoundTools, ToolSearch, find_in_registry, find_members
from app.toolsets.members import MemberProblem, Members, MemberView, names_hint
from app.toolsets.store import Toolset, ToolsetStore

_SEARCH: Final = "Search for the tool with find_tools."

ListMode = Literal["all", "search", "auto"]
"""Which tools a client that lists them gets: all, those that search for others, or as the number demands."""


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What a call by a name of the collection executes: a canonical name or alias, and preset arguments by
    JSON pointer.
    """

    tool: str
    presets: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """What the owner of a toolset has set for its clients; the registry has the defaults."""

    mode: ListMode = "auto"
    pinned: tuple[str, ...] = ()
    """Names of tools that are listed in each mode."""
    argument_repair: Literal["off", "safe", "on"] = "safe"
    max_bytes: int | None = None
    """The default budget of a result in bytes; None: that of the interface."""
    max_tokens: int | None = None
    """The default budget of a result in tokens; None: that of the interface."""
    upstream: UpstreamMode | None = None
    """The upstream mode of its calls; None: that of the key."""


class ToolCollection(Protocol):
    """The tools that one client may call at one address."""

    @property
    def principal(self) -> Principal:
        """The principal to execute calls with; one that is limited to toolsets is limited no longer."""

    @property
    def toolset(self) -> str | None:
        """The name of the toolset; None for the registry."""

    @property
    def options(self) -> CollectionOptions:
        """What its owner has set."""

    async def listing(self) -> Listing:
        """Return all tools, by name, with the stamp of the whole list. Raises Unavailable."""

    async def tools(self) -> Sequence[AgentTool]:
        """Return all tools, by name. Raises Unavailable."""

    async def get(self, name: str) -> AgentTool:
        """Return a tool by its name here, or its canonical name or alias; raise NotFound, which suggests the
        nearest names.
        """

    async def find(
        self,
        texts: Sequence[str],
        *,
        filters: Filters | None = None,
        limit: int = 10,
        advise: bool = False,
        explain: bool = False,
    ) -> FoundTools:
        """Return the best matches, best first, of up to four texts in turn: in the order of `/tools/search`.
        An empty text lists tools by name. With `advise`, also what to search for next after weak matches;
        with `explain`, the hits of the search are explained.
        """

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        """Return the tools of `find`."""

    def target(self, name: str) -> CallTarget:
        """Return what a call by this name executes, without a look-up in the registry: the call
        resolves its names. Raise NotFound for a name that the toolset does not have.
        """

    def owner(self, name: str) -> "ToolCollection":
        """Return the collection by whose principal, toolset and options a tool is called: this one, or, where
        this one is made of several, the one of them that has the tool. Raise NotFound where none has.
        """


class ToolCollections:
    """Opens collections; one instance per worker. Subscribe `on_changes` to the change feed before the feed
    starts.
    """

    def __init__(self, database: Database, search: SearchIndex) -> None:
        self.index = search
        self.directory = ToolDirectory(database)
        self.toolsets = ToolsetStore(database)

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Mark what the changes affect; a subscriber of the feed."""
        await self.directory.on_changes(changes)
        await self.toolsets.on_changes(changes)

    def registry(self, principal: Principal) -> ToolCollection:
        """Return the collection of all tools that the principal may call."""
        return _Registry(self.directory, self.index, principal)

    async def toolset(self, name: str, principal: Principal) -> ToolCollection:
        """Return the collection of a toolset; raise NotFound where the principal may use none of it, and
        Unavailable.
        """
        within = principal.within_toolset(name)
        found = None if within is None else (await self.toolsets.all()).get(name)
        if found is None or within is None:
            raise await self.unknown_toolset(name, principal)
        members = await found.members(await self.directory.snapshot())
        view = members.view(within)
        if within.is_restricted and not view.listing.tools:
            raise await self.unknown_toolset(name, principal)
        return _ToolsetCollection(found, members, view, self.index, within)

    async def visible_toolsets(self, principal: Principal) -> list[Toolset]:
        """Return the toolsets that the principal may use, by name. Raises Unavailable."""
        toolsets = await self.toolsets.all()
        snapshot = await self.directory.snapshot()
        found = []
        for name in sorted(toolsets):
            within = principal.within_toolset(name)
            if within is None:
                continue
            if (
                within.is_restricted
                and not (await toolsets[name].members(snapshot)).view(within).listing.tools
            ):
                continue
            found.append(toolsets[name])
        return found

    async def count(self, name: str, principal: Principal) -> int:
        """Return the number of tools of a toolset that the principal may call; 0 where there is none."""
        within = principal.within_toolset(name)
        found = (await self.toolsets.all()).get(name)
        if found is None or within is None:
            return 0
        return len((await found.members(await self.directory.snapshot())).view(within).listing.tools)

    async def count_visible(self, principal: Principal) -> tuple[int, int]:
        """Return the number of providers and of tools that a key sees in the toolsets that it may use, each
        counted once. Raises Unavailable.
        """
        snapshot = await self.directory.snapshot()
        seen: dict[str, str] = {}
        for toolset in await self.visible_toolsets(principal):
            within = principal.within_toolset(toolset.name)
            if within is not None:
                members = (await toolset.members(snapshot)).view(within).listing.tools
                seen |= {tool.tool: tool.provider for tool in members}
        return len(set(seen.values())), len(seen)

    async def presets(self, toolset: str, tool: str, *, principal: Principal) -> Mapping[str, Any]:
        """Return the arguments that a toolset sets for a member, by JSON pointer; `tool` is its canonical
        name. Raise NotFound where the principal may not use the toolset or the tool is no member, and
        Unavailable.
        """
        for member in await (await self.toolset(toolset, principal)).tools():
            if member.tool == tool:
                return member.presets
        raise NotFound(f"The toolset {toolset} has no tool {tool}.")

    async def upstream_mode(self, toolset: str) -> UpstreamMode | None:
        """Return the upstream mode of a toolset; None where it has none, or does not exist. Raise
        Unavailable.
        """
        found = (await self.toolsets.all()).get(toolset)
        if found is None or found.definition.upstream is None:
            return None
        return found.definition.upstream.to_mode()

    async def may_see(self, tool: str, *, principal: Principal) -> bool:
        """Return whether the principal may use the tool of this canonical name, at the address of its request
        or, where its key is limited to toolsets, at that of one of these. Raise Unavailable.
        """
        snapshot = await self.directory.snapshot()
        found = snapshot.by_name.get(tool)
        if found is None or found.tool != tool:
            return False
        names = principal.toolsets if principal.toolset is None else (principal.toolset,)
        if names is None:
            return may_see(principal, found)
        toolsets = await self.toolsets.all()
        for name in names:
            within = principal.within_toolset(name)
            toolset = toolsets.get(name)
            if within is None or toolset is None or not may_see(within, found):
                continue
            if any(member.tool == tool for member in (await toolset.members(snapshot)).tools):
                return True
        return False

    async def problems(self, name: str) -> Sequence[MemberProblem]:
        """Return what of the definition of a toolset has no effect now."""
        found = (await self.toolsets.all()).get(name)
        return () if found is None else (await found.members(await self.directory.snapshot())).problems

    async def unknown_toolset(self, name: str, principal: Principal) -> NotFound:
        """Return the error for a toolset that does not exist or that the principal may not use."""
        similar: list[str] = []
        if principal.has_scope("tools:read"):
            visible = (one.name for one in await self.visible_toolsets(principal) if one.name != name)
            similar = closest(name, visible, limit=3)
        detail = f"There is no toolset {name}."
        hint = "Check the spelling; GET /toolsets has all names that the API key may use."
        return not_found(detail, similar) if similar else NotFound(detail, hint=hint)


async def with_names_here(error: NotFound, collection: ToolCollection) -> NotFound:
    """Return an error about an unknown tool whose suggestions are the names that agents use here; without
    any, its hint says where they are.
    """
    hint = names_hint(collection.toolset) or _SEARCH
    if not error.extra.get("suggestions"):
        return NotFound(error.detail, hint=hint) if error.hint == NotFound.hint else error
    names: list[str] = []
    for name in error.extra["suggestions"]:
        with suppress(NotFound):
            names.append((await collection.get(name)).name)
    if names:
        return not_found(error.detail, list(dict.fromkeys(names)))
    return NotFound(error.detail, hint=hint)


class _ToolsetCollection:
    def __init__(
        self, toolset: Toolset, members: Members, view: MemberView, search: SearchIndex, principal: Principal
    ) -> None:
        definition = toolset.definition
        budget = definition.result_budget or ResultBudget()
        visible = {tool.name for tool in view.listing.tools}
        self.toolset = toolset.name
        self.principal = principal
        self.options = CollectionOptions(
            mode=definition.mode,
            pinned=tuple(name for name in members.pinned if name in visible),
            argument_repair=definition.argument_repair,
            max_bytes=budget.max_bytes,
            max_tokens=budget.max_tokens,
            upstream=None if definition.upstream is None else definition.upstream.to_mode(),
        )
        self._members = members
        self._view = view
        self._search = search

    async def listing(self) -> Listing:
        return self._view.listing

    async def tools(self) -> Sequence[AgentTool]:
        return self._view.listing.tools

    async def get(self, name: str) -> AgentTool:
        return self._found(name)

    async def find(
        self,
        texts: Sequence[str],
        *,
        filters: Filters | None = None,
        limit: int = 10,
        advise: bool = False,
        explain: bool = False,
    ) -> FoundTools:
        return await find_members(
            self._search,
            ToolSearch(texts, filters, limit, advise, explain),
            self._view.by_name,
            principal=self.principal,
            toolset=self.toolset,
        )

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        return (await self.find(texts, filters=filters, limit=limit)).tools

    def target(self, name: str) -> CallTarget:
        found = self._found(name)
        return CallTarget(found.tool, found.presets)

    def owner(self, name: str) -> ToolCollection:  # noqa: ARG002 - the same for all names.
        return self

    def _found(self, name: str) -> AgentTool:
        found = self._view.by_name.get(name)
        if found is None:
            raise self._members.unknown(name, self._view, toolset=self.toolset)
        return found


class _Registry:
    toolset = None
    options = CollectionOptions()

    def __init__(self, directory: ToolDirectory, search: SearchIndex, principal: Principal) -> None:
        self._directory = directory
        self._search = search
        self.principal = principal

    async def listing(self) -> Listing:
        return (await self._directory.snapshot()).listing(self.principal)

    async def tools(self) -> Sequence[AgentTool]:
        return (await self.listing()).tools

    async def get(self, name: str) -> AgentTool:
        found = (await self._directory.snapshot()).by_name.get(name)
        if found is None or not may_see(self.principal, found):
            similar = await self._search.suggest_tools(name, principal=self.principal)
            raise not_found(f"There is no tool {name}.", similar)
        return found

    async def find(
        self,
        texts: Sequence[str],
        *,
        filters: Filters | None = None,
        limit: int = 10,
        advise: bool = False,
        explain: bool = False,
    ) -> FoundTools:
        found = await find_in_registry(
            self._search,
            ToolSearch(texts, filters, limit, advise, explain),
            (await self._directory.snapshot()).by_name,
            principal=self.principal,
        )
        visible = [tool for tool in found.tools if may_see(self.principal, tool)]
        return replace(found, tools=visible)

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        return (await self.find(texts, filters=filters, limit=limit)).tools

    def target(self, name: str) -> CallTarget:
        return CallTarget(name, {})

    def owner(self, name: str) -> ToolCollection:  # noqa: ARG002 - the same for all names.
        return self
