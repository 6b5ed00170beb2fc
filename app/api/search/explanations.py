"""The search lab: `explain=true` says why each match of a search has its score, to whoever sets the words.

An explanation has scores that depend on all indexed tools (how rare a word is, whether any tool has it), the
operator's synonyms, and what other keys have called. So it is for keys without restrictions that may read
providers, for which nothing of that is hidden.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from fastapi import Query
from pydantic import BaseModel, Field

from app.core.errors import Forbidden, scopes_missing
from app.search.explanation import Explanation
from app.search.hits import Hit
from app.search.search_index import QueryReport, SearchResult
from app.security.principal import Principal
from app.security.scopes import Scope

Explain = Annotated[
    bool,
    Query(
        description="Explain the scores: what each word, the vectors and use contribute. Only for keys with "
        "`providers:read` and without restrictions; others get 403.",
    ),
]
WordField = Literal["head", "body", "provider"]
_SCOPE: Final[Scope] = "providers:read"
_FIELDS: Final[Mapping[str, WordField]] = {"head": "head", "body": "body", "provider_words": "provider"}


class WordContribution(BaseModel):
    """What one word contributes to a match."""

    word: str = Field(description="The word as it was searched for.", examples=["coupon"])
    field: WordField = Field(
        description="Where it matches best: `head` is name, tags, keywords and the first sentence of the "
        "description, `body` the rest and the inputs, `provider` the provider's name and title."
    )
    score: float = Field(description="Its part of `words_score`.")
    synonym_of: str | None = Field(
        description="The term of the search whose synonym it is.", examples=["voucher"]
    )


class HitExplanation(BaseModel):
    """Why a match has its score: the sum of the shares, plus 100 where the search is the tool's name; 200 and
    more where it is pinned.
    """

    words: list[WordContribution]
    words_score: float = Field(description="BM25 of all words.")
    words_share: float = Field(description="`words_score` by that of the best match.")
    cosine: float | None = Field(
        description="The cosine of the vectors of search and tool; null where the ranking is by words."
    )
    vector_share: float
    prior: float = Field(
        description="From 0 to 1: how much the tool was called after such searches.", ge=0, le=1
    )
    prior_share: float
    exact: bool = Field(description="The search is the tool's name.")
    pinned: bool = Field(description="It is pinned for the words of the search.")

    @classmethod
    def of(cls, explanation: Explanation) -> Self:
        """Return the view of an explanation."""
        cosine = explanation.cosine
        return cls(
            words=[
                WordContribution(
                    word=one.word, field=_FIELDS[one.field], score=one.score, synonym_of=one.synonym_of
                )
                for one in explanation.words
            ],
            words_score=explanation.words_score,
            words_share=explanation.words_share,
            cosine=None if cosine is None else round(cosine, 4),
            vector_share=explanation.vector_share,
            prior=round(explanation.prior, 4),
            prior_share=explanation.prior_share,
            exact=explanation.exact,
            pinned=explanation.pinned,
        )


class QueryExplanation(BaseModel):
    """How one `q` was read."""

    q: str
    words: list[str] = Field(
        description="The stems of its words, of which at most 32 are searched.", examples=[["voucher"]]
    )
    unknown_words: list[str] = Field(description="Words that no tool has.")
    synonyms: dict[str, list[str]] = Field(
        description="The synonyms that were searched, as stems, by the term that they stand for.",
        examples=[{"voucher": ["coupon", "gift card"]}],
    )
    coverage: float = Field(
        description="The share of the words, by weight, that the best match has.", ge=0, le=1
    )

    @classmethod
    def of(cls, report: QueryReport) -> Self:
        """Return the view of what is known of a text."""
        return cls(
            q=report.text,
            words=list(report.stems),
            unknown_words=list(report.unknown_words),
            synonyms={term: list(others) for term, others in report.synonyms.items()},
            coverage=round(report.coverage, 4),
        )


class SearchExplanation(BaseModel):
    """How a search was read and ranked."""

    queries: list[QueryExplanation] = Field(description="One for each `q`; none where tools are listed.")

    @classmethod
    def of(cls, result: SearchResult) -> Self:
        """Return the view of a search."""
        return cls(queries=[QueryExplanation.of(one) for one in result.queries])


class ExplainedHit(BaseModel):
    """A match that may be explained."""

    explanation: HitExplanation | None = Field(
        None,
        description="With `explain=true`: why it has its score; null where tools are listed by name, and for "
        "a tool of a toolset that was found by its name there.",
        exclude_if=lambda value: value is None,
    )


class ExplainedSearch(BaseModel):
    """A search that may be explained."""

    explanation: SearchExplanation | None = Field(
        None, description="With `explain=true`: how the search was read and ranked."
    )


def require_may_explain(principal: Principal) -> None:
    """Raise Forbidden for a key to which something of an explanation may be hidden."""
    if not principal.has_scope(_SCOPE):
        raise scopes_missing(f"Explanations of scores need the scope {_SCOPE}.", [_SCOPE])
    if principal.is_restricted or principal.toolsets is not None:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: scores are not explained to it.",
            hint="Search without `explain`, or use a key without restrictions.",
        )


def explained_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return hits whose JSON has their explanations."""
    return [
        replace(hit, json_members=b'"explanation":%s,%s' % (_hit_json(hit), hit.json_members)) for hit in hits
    ]


def explanations_by_tool(hits: Sequence[Hit]) -> Mapping[str, HitExplanation]:
    """Return the explanations by the canonical names of tools."""
    return {hit.name: HitExplanation.of(hit.explanation) for hit in hits if hit.explanation is not None}


def _hit_json(hit: Hit) -> bytes:
    if hit.explanation is None:
        return b"null"
    return HitExplanation.of(hit.explanation).model_dump_json().encode()
