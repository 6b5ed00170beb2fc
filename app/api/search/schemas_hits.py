"""Response models of the matches of a search."""

from typing import Any

from pydantic import BaseModel, Field

from app.api.search.explanations import ExplainedHit
from app.api.tools.schemas import Available, ToolCost
from app.search.search_index import Ranking


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
