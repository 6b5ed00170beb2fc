"""Collections of tools: what every interface for agents lists, searches, exports and calls by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sqlmodel import col

from app.catalog.tools import ToolView, has_name, is_enabled, principal_filter, tool_select, tool_view
from app.database import Database
from app.errors import not_found
from app.models import Tool
from app.search import Filters, SearchIndex
from app.security.principal import Principal

ListMode = Literal["all", "search", "auto"]
"""Which tools a client that lists them gets: all, those that search for others, or as the number demands."""


@dataclass(frozen=True, slots=True)
class AgentTool:
    """A tool as agents see it at one address.

    `name` is the name there, of at most 45 characters of `[A-Za-z0-9_-]`; `tool` is the canonical name.
    `inputs` has no preset arguments. `stamp` differs whenever another member does.
    """

    name: str
    tool: str
    alias: str
    provider: str
    description: str
    inputs: Mapping[str, Any] = field(repr=False)
    outputs: Mapping[str, Any] = field(repr=False)
    tags: tuple[str, ...]
    stamp: str
    title: str = ""
    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True
    publishes_outputs: bool = False
    requires_approval: bool = False
    presets: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CallTarget:
    """What a call by a name of the collection executes: a canonical name or alias, and preset arguments."""

    tool: str
    presets: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CollectionOptions:
    """What the owner of a toolset has set for its clients; the registry has the defaults."""

    mode: ListMode = "auto"
    pinned: tuple[str, ...] = ()
    """Names of tools that are listed in each mode."""
    argument_repair: Literal["off", "safe", "on"] = "safe"


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

    async def tools(self) -> Sequence[AgentTool]:
        """Return all tools, by name. Raises Unavailable."""

    async def get(self, name: str) -> AgentTool:
        """Return a tool by its name here, or its canonical name or alias; raise NotFound, which suggests the
        nearest names.
        """

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        """Return the best matches, best first, of several texts in turn: in the order of `/tools/search`."""

    def target(self, name: str) -> CallTarget:
        """Return what a call by this name executes, without a look-up in the registry: the call
        resolves its names. Raise NotFound for a name that the toolset does not have.
        """


class ToolCollections:
    """Opens collections; one instance per worker."""

    def __init__(self, database: Database, search: SearchIndex) -> None:
        self._database = database
        self._search = search

    def registry(self, principal: Principal) -> ToolCollection:
        """Return the collection of all tools that the principal may call."""
        return _Registry(self._database, self._search, principal)

    async def toolset(self, name: str, principal: Principal) -> ToolCollection:
        """Return the collection of a toolset; raise NotFound where the principal may use none of it."""
        del principal
        raise not_found(f"There is no toolset {name}.", ())


class _Registry:
    toolset = None
    options = CollectionOptions()

    def __init__(self, database: Database, search: SearchIndex, principal: Principal) -> None:
        self._database = database
        self._search = search
        self.principal = principal

    async def tools(self) -> Sequence[AgentTool]:
        statement = tool_select().where(is_enabled(), principal_filter(self.principal))
        async with self._database.read_session() as session:
            rows = (await session.execute(statement.order_by(col(Tool.name)))).all()
        return sorted((_agent_tool(tool_view(row)) for row in rows), key=lambda tool: tool.name)

    async def get(self, name: str) -> AgentTool:
        statement = tool_select().where(is_enabled(), principal_filter(self.principal), has_name(name))
        async with self._database.read_session() as session:
            row = (await session.execute(statement)).one_or_none()
        if row is None:
            raise not_found(
                f"There is no tool {name}.", await self._search.suggest_tools(name, principal=self.principal)
            )
        return _agent_tool(tool_view(row))

    async def search(
        self, texts: Sequence[str], *, filters: Filters | None = None, limit: int = 10
    ) -> Sequence[AgentTool]:
        hits = await self._search.search(texts[0], principal=self.principal, filters=filters, limit=limit)
        return [await self.get(hit.name) for hit in hits]

    def target(self, name: str) -> CallTarget:
        return CallTarget(name, {})


def _agent_tool(tool: ToolView) -> AgentTool:
    method = tool.call_template.get("http_method")
    return AgentTool(
        name=tool.agent_name,
        tool=tool.name,
        alias=tool.alias,
        provider=tool.provider,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tuple(tool.tags),
        stamp=f"{tool.id}.{tool.version}",
        read_only=method in ("GET", "HEAD", "OPTIONS"),
        requires_approval=tool.requires_approval,
    )
