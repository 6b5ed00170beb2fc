"""Query parameters and response models of `/tools/search` and `/toolsets/{name}/search`."""

from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import BaseModel, Field

from app.api.exports.schemas import ExportReport
from app.api.search.explanations import ExplainedHit, ExplainedSearch
from app.api.search.schemas_hits import ConditionView, ToolEffects, ToolHit, ToolHits, WeakMatches
from app.api.tools.schemas import Available, ToolCost
from app.catalog.annotations import effects
from app.core.resource_names import PROVIDER_NAME
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.dialects.dialects import Format, Strict
from app.formats.dialects.signature import write_signature
from app.providers.plugins import PluginEntry
from app.search.conditions import ToolCondition
from app.search.parameters import QueryTexts
from app.toolsets import AgentTool

SearchTexts = Annotated[
    QueryTexts,
    Query(
        description="A description of what the tool should do. Empty: list tools by name. "
        "Up to four, for a task that needs several tools.",
        examples=["search books"],
    ),
]
ProviderFilter = Annotated[
    str | None, Query(pattern=PROVIDER_NAME, description="Only tools of this provider.", examples=["library"])
]
SearchLimit = Annotated[int, Query(ge=1, le=50, description="Maximum number of results.")]
ExportFormat = Annotated[
    Format | None,
    Query(
        alias="format",
        description="Export the tools in the dialect of a client, as `GET /tools/export` does.",
        examples=["openai-chat"],
    ),
]
ExportStrict = Annotated[
    Strict, Query(description="With `format`: whether tools are exported for constrained decoding.")
]


class PluginHit(BaseModel):
    """A plugin that is off, and fits a search better than the tools that it has found."""

    name: str = Field(examples=["github"])
    title: str
    description: str
    url: str = Field(
        description="Its path: GET says what it needs, PUT enables it.", examples=["/plugins/github"]
    )

    @classmethod
    def of(cls, entry: PluginEntry) -> Self:
        """Return the view of an entry of the catalogue."""
        return cls(
            name=entry.name, title=entry.title, description=entry.description, url=f"/plugins/{entry.name}"
        )


class ToolsetHit(ExplainedHit, ConditionView):
    """A search result."""

    name: str = Field(description="The name that agents see.", examples=["find_books"])
    title: str
    provider: str
    signature: str = Field(
        description="Its inputs on one line, required ones with a star; at most 300 characters.",
        examples=["find_books(q*: string, limit: integer)"],
    )
    effects: ToolEffects
    cost: ToolCost
    description: str
    inputs: dict[str, Any] = Field(description="JSON Schema of the arguments object, without preset ones.")
    tags: list[str]
    read_only: bool
    available: Available = None
    call_url: str

    @classmethod
    def of(
        cls,
        tool: AgentTool,
        *,
        call_url: str,
        condition: ToolCondition,
        available: bool | None = None,
    ) -> Self:
        """Return the view of a tool."""
        return cls(
            name=tool.name,
            title=tool.title,
            read_only=tool.read_only,
            available=available,
            call_url=call_url,
            **_build_members(tool),
            **condition.as_json(),
        )


def view_hit(
    tool: AgentTool, *, score: float, call_url: str, condition: ToolCondition, available: bool | None
) -> ToolHit:
    """Return a hit of `/tools/search` among tools as toolsets have them."""
    name, alias = tool.listed_names
    return ToolHit(
        score=score,
        name=name,
        alias=alias,
        available=available,
        call_url=call_url,
        **_build_members(tool),
        **condition.as_json(),
    )


def _build_members(tool: AgentTool) -> dict[str, Any]:
    inputs = tool.inputs
    cost = estimate_tool_cost(
        tool.name, tool.description, inputs, average_response_size=tool.average_response_size
    )
    known = effects(tool, requires_approval=tool.requires_approval, deprecated=tool.deprecated)
    return {
        "provider": tool.provider,
        "signature": write_signature(tool.name, inputs),
        "description": tool.description,
        "effects": ToolEffects.model_validate(known),
        "cost": ToolCost.model_validate(cost),
        "inputs": inputs,
        "tags": list(tool.tags),
    }


class ToolsetHits(WeakMatches):
    """Search results, best match first."""

    items: list[ToolsetHit]


class _SearchExport(BaseModel):
    """With `format`, the export of the matches; `ToolExport` describes its members."""

    format: Format | None = None
    tools: list[dict[str, Any]] | dict[str, dict[str, Any]] | None = None
    aliases: dict[str, dict[str, Any]] | None = None
    report: ExportReport | None = None
    prompt: str | None = None


class ToolHitsExport(_SearchExport, ExplainedSearch, ToolHits):
    """Matches of a search; with `format` also their export, whose members `ToolExport` describes."""

    plugins: list[PluginHit] | None = Field(
        None,
        description="Plugins that are off and fit the words better than the matches; only where there are "
        "some, and for keys with `providers:read` and without restrictions.",
    )


class ToolsetHitsExport(_SearchExport, ExplainedSearch, ToolsetHits):
    """Matches of a search in a toolset; with `format` also their export, whose members `ToolExport`
    describes.
    """
