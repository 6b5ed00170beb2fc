"""Tables that only grow: the change feed, and the audit, which has no foreign keys."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, DateTime, Index, LargeBinary, text
from sqlmodel import Field, SQLModel

from app.models.base import TENANT, Row, jsonb, new_id, now, timestamp


class ChangeCounter(SQLModel, table=True):
    """One row, locked inside each writing transaction, numbers the changes without gaps out of order."""

    __tablename__ = "change_counter"
    id: int = Field(default=1, primary_key=True)
    last: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))


class Change(SQLModel, table=True):
    """The change feed: what every worker must forget or read again."""

    __tablename__ = "changes"
    __table_args__ = (Index("changes_at", "at"),)
    seq: int = Field(sa_column=Column(BigInteger, primary_key=True, autoincrement=False))
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    kind: str
    """provider, tool, credential, variable or key."""
    provider_id: UUID | None = None
    object_id: str = ""
    at: datetime = Field(default_factory=now, sa_column=timestamp())


class CallRecord(SQLModel, table=True):
    """One call of a tool; partitioned by day, no foreign keys. Arguments and results only where a setting
    asks for them, and then sealed.
    """

    __tablename__ = "calls"
    __table_args__ = (
        Index("calls_by_tool", "tenant_id", "tool", "at"),
        Index("calls_running", "deadline", postgresql_where=text("outcome = 'running'")),
        {"postgresql_partition_by": "RANGE (at)"},
    )
    id: UUID = Field(default_factory=new_id, primary_key=True)
    at: datetime = Field(default_factory=now, sa_column=Column(DateTime(timezone=True), primary_key=True))
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    key_id: str
    provider: str
    tool: str
    outcome: str
    """ok, or the slug of the error; `running` before the end is known, `unknown` if it never will be."""
    status: int
    upstream_status: int | None = None
    duration_ms: float
    request_bytes: int = 0
    response_bytes: int = 0
    attempts: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Requests that were begun to the upstream; 0, too, in records of releases that did not count them."""
    safe: bool | None = None
    """Whether the tool's method has no effects (RFC 9110 section 9.2.1); null where no tool was found."""
    deadline: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True), nullable=True))
    """When a call that was put on record before it was made must have ended."""
    arguments: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    result: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class Event(Row, table=True):
    """Who changed what, when, on the control plane."""

    __tablename__ = "events"
    __table_args__ = (Index("events_at", "tenant_id", "at"),)
    at: datetime = Field(default_factory=now, sa_column=timestamp())
    actor: str
    action: str
    object_type: str
    object_name: str
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())


COUNTER_ROW = text("INSERT INTO change_counter (id, last) VALUES (1, 0) ON CONFLICT DO NOTHING")
