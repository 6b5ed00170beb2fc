"""The tools that the model of a case gets: those of toolsets, and single ones, as one collection."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from app.agents.tests.definition import PlannedCase
from app.agents.tool_calls.model import DEFAULT_MAX_BYTES
from app.calls.results import ResultBudget
from app.core.errors import NotFound, not_found
from app.core.suggestions import find_similar
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.toolsets import (
    AgentTool,
    AmbiguousTool,
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
    _targets: Mapping[str, CallTarget] = field(default_factory=dict, repr=False)
    _names: Mapping[str, str] = field(default_factory=dict, repr=False)
    _search: SearchIndex | None = field(default=None, repr=False)

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools."""
        return frozenset(self._tools)

    @property
    def toolset(self) -> str | None:
        """None: it is no toolset."""
        return None

    @property
    def is_registry(self) -> bool:
        """False: toolsets may have changed them."""
        return False

    @property
    def options(self) -> CollectionOptions:
        """The defaults; those of a toolset are found by `target`."""
        return CollectionOptions()

    @property
    def budget(self) -> ResultBudget:
        """The smallest budget of a result that one of the toolsets has."""
        found = [target.through.options for target in self._targets.values()]
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

    async def find(self, wanted: ToolSearch) -> FoundTools:
        """Return the best matches among the offered tools, best first; raise Unavailable."""
        if self._search is None:
            return FoundTools()
        return await find_members(
            self._search,
            wanted,
            {name: self._tools[known] for name, known in self._names.items()},
            # Only what may be called is offered, some of it through toolsets alone.
            principal=replace(self.principal, providers=None, tags=None),
        )

    def target(self, name: str) -> CallTarget:
        """Return what a call by this name executes; raise NotFound."""
        return self._targets[self._known(name)]

    def resolve(self, tool: AgentTool) -> CallTarget:
        """Return what a call of an offered tool executes."""
        return self._targets[tool.name]

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
        similar = find_similar(name, self._tools, limit=3)
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
    targets: dict[str, CallTarget] = {}

    def add(tool: AgentTool, collection: ToolCollection, source: str) -> None:
        present, target = tools.get(tool.name), collection.resolve(tool)
        if present is None:
            tools[tool.name], targets[tool.name] = tool, target
        elif present.tool != tool.tool or targets[tool.name].through.toolset != target.through.toolset:
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
    view = await collections.open_view(principal)
    for name in dict.fromkeys(case.tools):
        try:
            add(await view.get(name), view, "the registry")
        except AmbiguousTool as error:
            warnings.append(f"Tool '{name}' was skipped: {error.detail}")
        except NotFound:
            warnings.append(f"Tool '{name}' not found: it was skipped.")
    known = {tool.alias: name for name, tool in tools.items()}
    known |= {tool.tool: name for name, tool in tools.items()}
    known |= {name: name for name in tools}
    return OfferedTools(principal, tuple(warnings), tools, targets, known, collections.index)
