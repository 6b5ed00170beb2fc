"""Opens the collections of tools of all addresses."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from app.catalog.feed import ChangeNotice
from app.core.errors import NotFound, not_found
from app.core.suggestions import find_similar
from app.core.upstream_mode import UpstreamMode
from app.search.search_index import SearchIndex
from app.security.principal import Principal, SchemaForm
from app.storage.database import Database
from app.toolsets.agent_tool import AgentTool
from app.toolsets.collection import AmbiguousTool, CallTarget, CollectionOptions, ToolCollection
from app.toolsets.definition import ResultBudget, ToolsetDefinition
from app.toolsets.directory import Listing, ToolDirectory, may_see
from app.toolsets.found import FoundTools, ToolSearch, find_in_registry, find_members
from app.toolsets.key_view import KeyView, MergedTools, ToolsetPart, merged_key
from app.toolsets.members import MemberProblem, names_hint
from app.toolsets.store import Toolset, ToolsetStore

_MAX_MERGED: Final = 64
_SEARCH: Final = "Search for the tool with find_tools."


class ToolCollections:
    """Opens collections; one instance per worker. Subscribe `on_changes` to the change feed before the feed
    starts.
    """

    def __init__(self, database: Database, search: SearchIndex) -> None:
        self.index = search
        self.directory = ToolDirectory(database)
        self.toolsets = ToolsetStore(database)
        self._merged: OrderedDict[Any, MergedTools] = OrderedDict()

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Mark what the changes affect; a subscriber of the feed."""
        await self.directory.on_changes(changes)
        await self.toolsets.on_changes(changes)

    async def open_view(self, principal: Principal) -> ToolCollection:
        """Return what a key has at the addresses that name no toolset: all tools that it may call or, where
        it is limited to toolsets, the tools of these, each through one of them. Raise Unavailable.
        """
        if principal.toolsets is None:
            return _Registry(self.directory, self.index, principal)
        toolsets = await self.toolsets.all()
        parts, owners = [], []
        for name in sorted(principal.toolsets.intersection(toolsets)):
            part = await self._open_part(toolsets[name], principal)
            if part is not None:
                parts.append(part[0])
                owners.append(_ToolsetCollection(*part, self.index))
        if len(owners) == 1:
            return owners[0]
        key = merged_key(parts)
        merged = self._merged.get(key)
        if merged is None:
            merged = self._merged[key] = MergedTools.of(parts)
            while len(self._merged) > _MAX_MERGED:
                self._merged.popitem(last=False)
        return KeyView(merged, owners, self.index, principal)

    async def toolset(self, name: str, principal: Principal) -> ToolCollection:
        """Return the collection of a toolset; raise NotFound where the principal may use none of it, and
        Unavailable.
        """
        found = (await self.toolsets.all()).get(name)
        part = None if found is None else await self._open_part(found, principal)
        if part is None:
            raise await self.unknown_toolset(name, principal)
        return _ToolsetCollection(*part, self.index)

    async def list_member_names(self, toolset: str) -> frozenset[str]:
        """Return the canonical names of the tools of a toolset, none for one that does not exist."""
        found = (await self.toolsets.all()).get(toolset)
        if found is None:
            return frozenset()
        members = await found.members(await self.directory.snapshot())
        return frozenset(tool.tool for tool in members.tools)

    async def at(self, toolset: str | None, principal: Principal) -> ToolCollection:
        """Return the collection of a toolset, without one that of `open_view`; raise what both raise."""
        return await (self.open_view(principal) if toolset is None else self.toolset(toolset, principal))

    async def require_tool(self, toolset: str | None, tool: str, principal: Principal) -> None:
        """Raise NotFound where a principal may not, or no longer, call the tool that `CallTarget` names
        through a toolset, or past all.
        """
        if toolset is not None:
            await self.presets(toolset, tool, principal=principal)
        else:
            await (await self.open_view(principal)).get(tool)

    async def _open_part(
        self, toolset: Toolset, principal: Principal
    ) -> tuple[ToolsetPart, Principal] | None:
        """Return a toolset as the principal sees it, and the principal to call its tools with; None where it
        may use none of it.
        """
        within = principal.within_toolset(toolset.name)
        if within is None:
            return None
        members = await toolset.members(await self.directory.snapshot())
        view = members.view(within)
        if within.is_restricted and not view.listing.tools:
            return None
        visible = {tool.name for tool in view.listing.tools}
        pinned = tuple(name for name in members.pinned if name in visible)
        options = _read_options(toolset.definition, pinned)
        return ToolsetPart(toolset.name, members, view, options), within

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
            similar = find_similar(name, visible, limit=3)
        detail = f"There is no toolset {name}."
        hint = "Check the spelling; GET /toolsets has all names that the API key may use."
        return not_found(detail, similar) if similar else NotFound(detail, hint=hint)


def schema_form(collection: ToolCollection) -> SchemaForm:
    """Return how the client of a collection sees schemas: as its key says, else as the toolset does."""
    return collection.principal.schemas or collection.options.schemas


async def with_names_here(error: NotFound, collection: ToolCollection) -> NotFound:
    """Return an error about an unknown tool whose suggestions are the names that agents use here; without
    any, its hint says where they are.
    """
    hint = names_hint(collection.toolset) or _SEARCH
    if not error.extra.get("suggestions"):
        return NotFound(error.detail, hint=hint) if error.hint == NotFound.hint else error
    names: list[str] = []
    for name in error.extra["suggestions"]:
        with suppress(NotFound, AmbiguousTool):
            names.append((await collection.get(name)).name)
    if names:
        return not_found(error.detail, list(dict.fromkeys(names)))
    return NotFound(error.detail, hint=hint)


def _read_options(definition: ToolsetDefinition, pinned: tuple[str, ...]) -> CollectionOptions:
    """Return what the definition of a toolset sets for its clients; `pinned` are names that they see."""
    budget = definition.result_budget or ResultBudget()
    return CollectionOptions(
        mode=definition.mode,
        pinned=pinned,
        argument_repair=definition.argument_repair,
        max_bytes=budget.max_bytes,
        max_tokens=budget.max_tokens,
        upstream=None if definition.upstream is None else definition.upstream.to_mode(),
        schemas=definition.schemas,
    )


class _ToolsetCollection:
    is_registry = False

    def __init__(self, part: ToolsetPart, principal: Principal, search: SearchIndex) -> None:
        self.toolset = part.toolset
        self.principal = principal
        self.options = part.options
        self._members = part.members
        self._view = part.view
        self._search = search

    async def listing(self) -> Listing:
        return self._view.listing

    async def tools(self) -> Sequence[AgentTool]:
        return self._view.listing.tools

    async def get(self, name: str) -> AgentTool:
        return self._found(name)

    async def find(self, wanted: ToolSearch) -> FoundTools:
        return await find_members(
            self._search,
            wanted,
            self._view.by_name,
            principal=self.principal,
            toolset=self.toolset,
        )

    def target(self, name: str) -> CallTarget:
        return self.resolve(self._found(name))

    def resolve(self, tool: AgentTool) -> CallTarget:
        return CallTarget(tool.tool, tool.presets, self)

    def _found(self, name: str) -> AgentTool:
        found = self._view.by_name.get(name)
        if found is None:
            raise self._members.unknown(name, self._view, toolset=self.toolset)
        return found


class _Registry:
    toolset = None
    is_registry = True
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

    async def find(self, wanted: ToolSearch) -> FoundTools:
        found = await find_in_registry(
            self._search,
            wanted,
            (await self._directory.snapshot()).by_name,
            principal=self.principal,
        )
        visible = [tool for tool in found.tools if may_see(self.principal, tool)]
        return replace(found, tools=visible)

    def target(self, name: str) -> CallTarget:
        return CallTarget(name, {}, self)

    def resolve(self, tool: AgentTool) -> CallTarget:
        return CallTarget(tool.tool, tool.presets, self)
