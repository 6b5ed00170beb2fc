"""What every interface for agents lists, searches, exports and calls by: the tools at one address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from app.core.errors import Conflict
from app.core.upstream_mode import UpstreamMode
from app.security.principal import Principal, SchemaForm
from app.toolsets.agent_tool import AgentTool
from app.toolsets.directory import Listing
from app.toolsets.found import FoundTools, ToolSearch

ListMode = Literal["all", "search", "auto"]
"""Which tools a client that lists them gets: all, those that search for others, or as the number demands."""


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What a call by a name of a collection executes: a canonical name or alias, with preset arguments by
    JSON pointer, and the address through which it does.
    """

    tool: str
    presets: Mapping[str, Any]
    through: "ToolCollection"
    """The registry, or the toolset, by whose principal, name and options the call is made."""


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
    schemas: SchemaForm = "portable"
    """How schemas are shown to keys that do not say it themselves."""


class AmbiguousTool(Conflict):
    """A name of several tools: toolsets of one key have it, or change its tool, differently."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        super().__init__(
            f"{name} is ambiguous: the toolsets of the API key have {' and '.join(names)}.",
            hint="Use one of these names.",
            extra={"suggestions": list(names)},
        )


class ToolCollection(Protocol):
    """The tools that one client may call at one address."""

    @property
    def principal(self) -> Principal:
        """Whose tools they are. Calls are made with that of `CallTarget.through`: it is limited to toolsets
        no longer.
        """

    @property
    def toolset(self) -> str | None:
        """The name of the toolset; None for the registry, and for tools of several toolsets."""

    @property
    def is_registry(self) -> bool:
        """Whether they are tools as the registry has them, and not as toolsets do."""

    @property
    def options(self) -> CollectionOptions:
        """What its owner has set."""

    async def listing(self) -> Listing:
        """Return all tools, by name, with the stamp of the whole list. Raises Unavailable."""

    async def tools(self) -> Sequence[AgentTool]:
        """Return all tools, by name. Raises Unavailable."""

    async def get(self, name: str) -> AgentTool:
        """Return a tool by its name here, or its canonical name or alias; raise NotFound, which suggests the
        nearest names, and AmbiguousTool for a name of several tools.
        """

    async def find(self, wanted: ToolSearch) -> FoundTools:
        """Return the best matches, best first: in the order of `/tools/search`."""

    def target(self, name: str) -> CallTarget:
        """Return what a call by this name executes, without a look-up in the registry: the call
        resolves its names. Raise what `get` raises for a name that no toolset here has.
        """

    def resolve(self, tool: AgentTool) -> CallTarget:
        """Return what a call of a tool of this collection executes."""
