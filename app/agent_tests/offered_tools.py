"""The tools that the model of a case gets: those of toolsets, and single ones, as one collection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.agent_tests.definition import PlannedCase
from app.errors import NotFound, not_found
from app.model_calls.model import DEFAULT_MAX_BYTES
from app.search import Filters, SearchIndex
from app.security.principal import Principal
from app.suggestions import closest
from app.tool_results import ResultBudget
from app.toolsets import (
    AgentTool,
    CallTarget,
    CollectionOptions,
    FoundTools,
    Listing,
    ToolCollection,
    ToolCollections,
    ToolSearch,
    find_members,
)

_MAX_NAMED = 50


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """A collection of tools of several others, each of which is called where it comes from.

    `warnings` say which names of a case have no tools.
    """

    principal: Principal
    warnings: Sequence[str] = ()
    _tools: Mapping[str, AgentTool] = field(default_factory=dict, repr=False)
    _owners: Mapping[str, ToolCollection] = field(default_factory=dict, repr=False)
    _names: Mapping[str, str] = field(default_factory=dict, repr=False)
    _search: SearchIndex | None = field(default=None, repr=False)

    @property
    def toolset(self) -> str | None:
        """None: it is no toolset."""
        return None

    @property
    def options(self) -> CollectionOptions:
        """The defaults; those of a toolset are found by `owner`."""
        return CollectionOptions()

    @property
    def budget(self) -> ResultBudget:
        """The smallest budget of a result that one of the toolsets has."""
        found = [owner.options for owner in self._owners.values()]
        sizes = [one.max_bytes for one in found if one.max_bytes is not None]
        tokens = [one.max_tokens for one in found if one.max_tokens is not None]
        return ResultBudget(min([*sizes, DEFAULT_MAX_BYTES]), min(tokens, default=None))

    async def listing(self) -> Listing:
        """Return all tools, by name."""
        return Listing.of(self._tools.values())

    async def tools(self) -> Sequence[AgentTool]:
        """Return all tools, in the order in which the case names them."""
        return list(self._tools.values())

    async def get(self, name: str) -> AgentTool:
        """Return a tool by one of its names; raise NotFound with the nearest names."""
        return self._tools[self._known(name)]

    async def find(
        self,
        texts: Sequence[str],
        *,
        filters: Filters | None = None,
        limit: int = 10,
        advise: bool = False,
        explain: bool = False,
    ) -> FoundTools:
        """Return the best matches among the offered tools, best first; raise Unavailable."""
        if self._search is None:
            return FoundTools()
        return await find_members(
            self._search,
            ToolSearch(texts, filters, limit, advise, explain),
            {name: self._tools[known] for name, known in self._names.items()},
            # Only what may be called is offered, some of it at the addresses of toolsets alone.
            principal=replace(self.principal, providers=None, tags=None),
        )

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        """Return the tools of `find`."""
        return (await self.find(texts, filters=filters, limit=limit)).tools

    def target(self, name: str) -> CallTarget:
        """Return what a call by this name executes; raise NotFound."""
        known = self._known(name)
        return self._owners[known].target(known)

    def owner(self, name: str) -> ToolCollection:
        """Return the collection that a tool comes from; raise NotFound."""
        return self._owners[self._known(name)]

    def names_of(self, name: str) -> frozenset[str]:
        """Return all names of the tool of this name; none where there is no such tool."""
        known = self._names.get(name)
        if known is None:
            return frozenset()
        tool = self._tools[known]
        return frozenset({tool.name, tool.tool, tool.alias})

    def named(self, name: str) -> AgentTool | None:
        """Return a tool by one of its names; None where there is none."""
        known = self._names.get(name)
        return None if known is None else self._tools[known]

    def _known(self, name: str) -> str:
        known = self._names.get(name)
        if known is None:
            raise self._unknown(name)
        return known

    def _unknown(self, name: str) -> NotFound:
        detail = f"There is no tool {name}."
        similar = closest(name, self._tools, limit=3)
        if similar:
            return not_found(detail, similar)
        names = ", ".join(list(self._tools)[:_MAX_NAMED])
        return NotFound(detail, hint=f"Call only the tools that you were given: {names or 'none'}.")


async def offered_tools(
    case: PlannedCase, collections: ToolCollections, principal: Principal
) -> OfferedTools:
    """Return the tools that a case names, as far as the principal may call them. Raise Unavailable.

    Of several tools with one name in their toolsets, the first is offered, with a warning.
    """
    warnings: list[str] = []
    tools: dict[str, AgentTool] = {}
    owners: dict[str, ToolCollection] = {}

    def add(tool: AgentTool, owner: ToolCollection, source: str) -> None:
        present = tools.get(tool.name)
        if present is None:
            tools[tool.name], owners[tool.name] = tool, owner
        elif present.tool != tool.tool or owners[tool.name].toolset != owner.toolset:
            warnings.append(
                f"The tool {tool.name} of {source} was left out: another one has the same name here."
            )

    for kind, names in (("Plugin", case.plugins), ("Toolset", case.toolsets)):
        for name in dict.fromkeys(names):
            try:
                collection = await collections.toolset(name, principal)
            except NotFound:
                warnings.append(f"{kind} '{name}' not found: it was skipped.")
                continue
            for tool in await collection.tools():
                add(tool, collection, name)
    registry = collections.registry(principal)
    for name in dict.fromkeys(case.tools):
        try:
            add(await registry.get(name), registry, "the registry")
        except NotFound:
            warnings.append(f"Tool '{name}' not found: it was skipped.")
    known = {tool.alias: name for name, tool in tools.items()}
    known |= {tool.tool: name for name, tool in tools.items()}
    known |= {name: name for name in tools}
    return OfferedTools(principal, tuple(warnings), tools, owners, known, collections.index)
