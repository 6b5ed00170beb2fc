"""The tables of what was learned from use (`app.search.usage`)."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, Column, ForeignKey, Index, LargeBinary, Text, Uuid
from sqlmodel import Field, SQLModel

from app.storage.models.base import TENANT, Row, now, timestamp


class PendingSearch(Row, table=True):
    """A search that a call may still follow: it is deleted some minutes after it."""

    __tablename__ = "pending_searches"
    __table_args__ = (Index("pending_searches_at", "at"),)
    key_id: str
    stems: list[bytes] = Field(sa_column=Column(ARRAY(LargeBinary), nullable=False))
    """Keyed digests of the stems of its words."""
    tools: list[UUID] = Field(sa_column=Column(ARRAY(Uuid), nullable=False))
    """The ids of the tools that it has shown."""
    called: list[UUID] = Field(default_factory=list, sa_column=Column(ARRAY(Uuid), nullable=False))
    """Those of them that were called since, and counted."""
    at: datetime = Field(default_factory=now, sa_column=timestamp())


class SearchLabel(SQLModel, table=True):
    """How often a key has called a tool after searches for a stem."""

    __tablename__ = "search_labels"
    __table_args__ = (
        Index("search_labels_tool", "tool_id"),
        Index("search_labels_key", "tenant_id", "key_digest", "updated_at"),
        Index("search_labels_updated", "updated_at"),
    )
    tenant_id: UUID = Field(default=TENANT, primary_key=True)
    stem: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    """Keyed digest of the stem."""
    tool_id: UUID = Field(
        sa_column=Column(ForeignKey("tools.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    key_digest: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    """Keyed digest of the id of the key; of keys that succeed each other by rotation, that of the first."""
    of_token: bool
    """Whether the key is an identity of access tokens, which has no row in `keys`."""
    weight: float
    """The number of labels, decayed until `at`."""
    labels: int
    """The number of labels."""
    first_at: datetime = Field(sa_column=timestamp())
    at: datetime = Field(sa_column=timestamp())
    """When the call of the newest label began."""
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())
    """When the row was written, by the clock of the database."""


class SearchQuery(Row, table=True):
    """The text of a search, where the operator has these stored; secrets are masked."""

    __tablename__ = "search_queries"
    __table_args__ = (Index("search_queries_at", "at"),)
    key_id: str
    toolset: str = ""
    query: str = Field(sa_column=Column(Text, nullable=False))
    tools: list[UUID] = Field(sa_column=Column(ARRAY(Uuid), nullable=False))
    """The ids of the tools that it has shown, best first."""
    called: list[UUID] = Field(default_factory=list, sa_column=Column(ARRAY(Uuid), nullable=False))
    at: datetime = Field(default_factory=now, sa_column=timestamp())


class SearchUsageState(SQLModel, table=True):
    """One row, locked by the worker that matches searches with calls."""

    __tablename__ = "search_usage_state"
    id: int = Field(default=1, primary_key=True)
    matched_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    """Calls that were stored before are matched."""
    maintained_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
