"""What an operator sets: sets of synonyms and pinned results, with their bounds."""

from collections.abc import Iterable
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from app.core.schemas import StrictModel, ToolName, ToolsetName
from app.search.signals import MAX_TERM_WORDS
from app.search.words.stems import stem_query, stem_term

MAX_SETS: Final = 1_000
"""At most so many sets of synonyms, and so many pinned results, are stored: each worker has all in memory."""
MAX_TERMS: Final = 20
MAX_TERM_LENGTH: Final = 100
MAX_PINNED_TOOLS: Final = 20
# What separates terms in the text form, and control characters, are no part of a term.
_TERM: Final = r"^[^\u0000-\u0020\u007F#,=>\\][^\u0000-\u001F\u007F,=>\\]*$"


def _has_word(text: str) -> str:
    """Return a query with single spaces; raise ValueError where a search by it would find nothing."""
    stripped = " ".join(text.split())
    if not stem_query(stripped):
        raise ValueError("must have a word: letters or digits, at most 48 in a row")
    return stripped


def _is_term(text: str) -> str:
    """Return a term with single spaces; raise ValueError where it has no word, or too many."""
    stripped = _has_word(text)
    if len(stem_term(stripped)) > MAX_TERM_WORDS:
        raise ValueError(f"must have at most {MAX_TERM_WORDS} words")
    return stripped


Term = Annotated[
    str,
    Field(min_length=1, max_length=MAX_TERM_LENGTH, pattern=_TERM),
    AfterValidator(_is_term),
]
PinnedQuery = Annotated[
    str,
    Field(min_length=1, max_length=200, pattern=r"^[^\u0000-\u001F\u007F]+$", examples=["refund a payment"]),
    AfterValidator(_has_word),
]
ToolsetMember = Annotated[
    ToolsetName | None,
    Field(description="The toolset in whose searches it counts; null: in all searches."),
]


class SynonymSet(StrictModel):
    """Terms that mean the same. Without `expand_to`, equivalent synonyms: a search for one of the terms finds
    the others, too. With it, one-way synonyms (an explicit mapping): a search for one of `terms` finds those
    of `expand_to`, too, but not the other way round.
    """

    terms: list[Term] = Field(
        min_length=1, max_length=MAX_TERMS, examples=[["voucher", "coupon", "gift card"]]
    )
    expand_to: Annotated[list[Term], Field(min_length=1, max_length=MAX_TERMS)] | None = Field(
        None, description="What is searched, too; null: `terms` are equivalent.", examples=[None]
    )
    toolset: ToolsetMember = None

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        stems = {stem_term(term) for term in self.terms}
        others = stems if self.expand_to is None else {stem_term(term) for term in self.expand_to}
        if self.expand_to is None and len(stems) == 1:
            raise ValueError("must have two terms that differ in more than their endings, or `expand_to`")
        if self.expand_to is not None and stems == others and len(stems) == 1:
            raise ValueError("must expand to a term that differs in more than its ending")
        return self


class PinnedResult(StrictModel):
    """Tools that come first, in this order, in searches for exactly the words of `query`, in any order and
    with any endings; for clients that may call them.
    """

    query: PinnedQuery
    tools: list[ToolName] = Field(
        min_length=1,
        max_length=MAX_PINNED_TOOLS,
        description="Tools by canonical name, alias or name for agents. One that does not exist is reported "
        "in `problems`, and comes first once it does.",
        examples=[["library.searchBooks"]],
    )
    toolset: ToolsetMember = Field(
        None,
        description="The toolset in whose searches it counts, in place of one of the tenant for the same "
        "words; null: in all searches.",
    )

    @field_validator("tools")
    @classmethod
    def _distinct(cls, given: list[str]) -> list[str]:
        if len(set(given)) < len(given):
            raise ValueError("must name each tool once")
        return given


def write_synonyms(terms: Iterable[str], expand_to: Iterable[str] | None) -> str:
    """Return a set of synonyms in the text form: `voucher, coupon`, or `k8s => kubernetes`."""
    left = ", ".join(terms)
    return left if expand_to is None else f"{left} => {', '.join(expand_to)}"
