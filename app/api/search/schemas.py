"""Query parameters and response models of `/tools/search` and `/toolsets/{name}/search`."""

from typing import Annotated, Any, Self

from fastapi import Query
from pydantic import BaseModel, Field

from app.api.exports.schemas import ExportReport
from app.api.search.explanations import ExplainedHit, ExplainedSearch
from app.api.tools.schemas import Available, ToolCost
from app.catalog.annotations import effects
from app.core.resource_names import PROVIDER_NAME
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.dialects.dialects import Format, Strict
from app.formats.dialects.signature import write_signature
from app.providers.plugins import PluginEntry
from app.search.conditions import ToolCondition
from app.search.parameters import QueryTexts
from app.search.search_index import Ranking
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


class ToolEffects(BaseModel):
    """What a call of a tool may do."""

    read_only: bool = Field(description="It changes nothing.")
    destructive: bool = Field(
        description="It may delete or overwrite; true also where nothing is known and it is not read-only."
    )
    idempotent: bool | None = Field(description="Repeating a call changes nothing more; null: unknown.")
    requires_approval: bool = Field(description="Each call waits until another key has approved it (202).")
    deprecated: bool


class ToolHealthView(BaseModel):
    """How the upstream of a tool has responded in the last hour to the calls of all keys."""

    error_rate: float = Field(
        description="Share of the calls that failed at the upstream or on the way to it. Calls that the "
        "upstream rejected (4xx) and those with wrong arguments are no errors of the tool.",
        ge=0,
        le=1,
    )
    p95_ms: float | None = Field(description="The 95th percentile of the durations; null where unknown.")
    calls_at_least: int = Field(
        description="How many calls there were, rounded down to 5 or a power of ten.", ge=1
    )


class ConditionView(BaseModel):
    """What decides whether a call is likely to succeed now; it is read every 30 seconds."""

    health: ToolHealthView | None = Field(
        None, description="null where the tool had fewer than five calls in the last hour."
    )
    missing_credential: bool | None = Field(
        None,
        description="Whether its provider has no credential that its calls need; null where that is not "
        "known yet. `GET /providers/{name}` has the slots, for keys with `providers:read`.",
    )


class ToolHit(ExplainedHit, ConditionView):
    """A search result."""

    score: float = Field(
        description="What the words contribute, 1 at most, and vectors and use, where there are any; 100 "
        "more where the query is the tool's name; 200 or more where it is pinned; 0 without a query.",
        ge=0,
    )
    available: Available = None
    name: str
    alias: str
    provider: str
    signature: str = Field(
        description="Its inputs on one line, required ones with a star; at most 300 characters.",
        examples=["library.searchBooks(q*: string, limit: integer)"],
    )
    description: str
    effects: ToolEffects
    cost: ToolCost
    inputs: dict[str, Any]
    tags: list[str]
    call_url: str


class WordSuggestion(BaseModel):
    """A word of a search that no tool has, and one that was probably meant."""

    word: str = Field(examples=["forcasts"])
    suggestion: str = Field(examples=["forecast"])


class SearchSuggestions(BaseModel):
    """What to search for next; all of it is from tools that the key may see."""

    unknown_words: list[str] = Field(description="Words of the search that no tool has; at most three.")
    did_you_mean: list[WordSuggestion] = Field(description="For unknown words, words of tools spelt alike.")
    providers: list[str] = Field(description="Providers whose names or tools are nearest; at most three.")
    words: list[str] = Field(description="Words of the first matches to search by; at most three.")


class WeakMatches(BaseModel):
    """Whether the matches of a search may be the wrong tools, and what to search for next then."""

    ranking: Ranking = Field("words", description="By what the matches were ranked.")
    weak: bool = Field(
        default=False,
        description="Whether the best match of a `q` has few of its words: it may well be the wrong tool.",
    )
    suggestions: SearchSuggestions | None = Field(None, description="Only where `weak` is true.")


class ToolHits(WeakMatches):
    """Search results, best match first."""

    items: list[ToolHit]


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
