"""Request and response models of `/search/synonyms` and `/search/pins`."""

from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from fastapi import Path, Query
from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.resource_names import TOOLSET_NAME
from app.core.schemas import PageModel
from app.search.words.service import ImportedSynonyms, PinnedResultState
from app.storage.models import SynonymSetRow

SynonymsPath = Annotated[UUID, Path(alias="id", description="Id of a set of synonyms.")]
PinPath = Annotated[UUID, Path(alias="id", description="Id of a pinned result.")]
ToolsetScope = Annotated[
    str | None,
    Query(
        pattern=TOOLSET_NAME,
        description="The synonyms of this toolset; without it, those of all searches.",
        examples=["support"],
    ),
]
_TOOLSET: str | None = Field(description="The toolset in whose searches it counts; null: in all searches.")


class SynonymSetView(BaseModel):
    """A set of terms that mean the same."""

    id: UUID
    terms: list[str] = Field(examples=[["voucher", "coupon", "gift card"]])
    expand_to: list[str] | None = Field(
        description="The terms that are searched, too, for one of `terms`; null: `terms` are equivalent.",
        examples=[None],
    )
    toolset: str | None = _TOOLSET
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: SynonymSetRow) -> Self:
        """Return the view of a stored set."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class SynonymSetPage(PageModel[SynonymSetView]):
    """A page of sets of synonyms."""


class PinProblemView(BaseModel):
    """A tool that does not come first now."""

    name: str = Field(description="The tool as the pinned result names it.")
    detail: str


class PinnedResultView(BaseModel):
    """Tools that come first in searches for the words of a query."""

    id: UUID
    query: str = Field(examples=["refund a payment"])
    tools: list[str] = Field(examples=[["library.searchBooks"]])
    toolset: str | None = _TOOLSET
    problems: list[PinProblemView] = Field(
        description="Tools that do not come first now, because they do not exist, are disabled, or are no "
        "members of the toolset."
    )
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, state: PinnedResultState) -> Self:
        """Return the view of a stored pinned result."""
        row = state.row
        problems = [PinProblemView(name=one.name, detail=one.detail) for one in state.problems]
        stored = {name: getattr(row, name) for name in cls.model_fields if name != "problems"}
        return cls.model_validate({**stored, "problems": problems})


class PinnedResultPage(PageModel[PinnedResultView]):
    """A page of pinned results."""


class _ScopedQuery(PageQuery):
    toolset: str | None = Field(
        None,
        pattern=TOOLSET_NAME,
        description="Only those of this toolset, without those of all searches.",
        examples=["support"],
    )


class SynonymSetQuery(_ScopedQuery):
    """Order and filters of a list of sets of synonyms. `q` searches the terms."""

    sort: Literal["created_at", "-created_at", "updated_at", "-updated_at"] = Field(
        "created_at", description="Order of the items; `-` for descending."
    )


class PinnedResultQuery(_ScopedQuery):
    """Order and filters of a list of pinned results. `q` searches the query and the names of the tools."""

    sort: Literal["created_at", "-created_at", "updated_at", "-updated_at", "query", "-query"] = Field(
        "created_at", description="Order of the items; `-` for descending."
    )


class SynonymsImported(BaseModel):
    """What an import of synonyms has changed."""

    created: int = Field(description="Sets that were not stored before.", ge=0)
    deleted: int = Field(description="Sets that were stored, and that the text does not have.", ge=0)
    unchanged: int = Field(description="Sets that were stored already: they keep their ids.", ge=0)

    @classmethod
    def of(cls, imported: ImportedSynonyms) -> Self:
        """Return the view of an import."""
        return cls(created=imported.created, deleted=imported.deleted, unchanged=imported.unchanged)
