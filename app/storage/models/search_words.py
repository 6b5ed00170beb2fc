"""The tables of the operator's words for search (`app.search.words`)."""

from datetime import datetime
from typing import Any

from sqlalchemy import Column, ForeignKeyConstraint, LargeBinary, UniqueConstraint
from sqlmodel import Field

from app.storage.models.base import Row, now, text_array, timestamp


def _constraints() -> tuple[Any, ...]:
    return (
        # Both are of the tenant where the toolset is null, which is equal to itself here.
        UniqueConstraint("tenant_id", "toolset", "digest", postgresql_nulls_not_distinct=True),
        ForeignKeyConstraint(
            ["tenant_id", "toolset"], ["toolsets.tenant_id", "toolsets.name"], ondelete="CASCADE"
        ),
    )


class SynonymSetRow(Row, table=True):
    """Terms that mean the same, for the tenant or for one toolset. `version` is its ETag."""

    __tablename__ = "search_synonyms"
    __table_args__ = _constraints()
    toolset: str | None = None
    terms: list[str] = Field(sa_column=text_array())
    expand_to: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    """The terms that are searched, too, where one of `terms` is; null where all terms are equivalent."""
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """SHA-256 of the stems of all terms: each set is stored once."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class PinnedResultRow(Row, table=True):
    """The tools that come first in searches for the words of a query. `version` is its ETag."""

    __tablename__ = "search_pins"
    __table_args__ = _constraints()
    toolset: str | None = None
    query: str
    tools: list[str] = Field(sa_column=text_array())
    """Names of tools as they were given: canonical names, aliases or names for agents."""
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """SHA-256 of the stems of the query, in any order: each query has one row."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())
