"""All tables (SQLModel, PostgreSQL 15 and later).

Every table carries `tenant_id`, and has it in each unique key. Deleting a provider takes everything that
hangs on it along (`ON DELETE CASCADE`); only `calls` and `events`, the audit, have no foreign keys.
"""

import os
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

TENANT = UUID("00000000-0000-7000-8000-000000000001")
"""The one tenant of today; workspaces come later without a rewrite."""


def new_id() -> UUID:
    """A UUIDv7 (RFC 9562 section 5.7): ordered by time, so that primary keys append."""
    millis = time.time_ns() // 1_000_000
    value = int.from_bytes(millis.to_bytes(6, "big") + os.urandom(10), "big")
    value &= ~(0xF << 76) & ~(0x3 << 62)
    return UUID(int=value | (0x7 << 76) | (0x2 << 62))


def now() -> datetime:
    """The present, aware, UTC."""
    return datetime.now(UTC)


def _cascade(target: str, *, nullable: bool = False) -> Any:
    return Column(ForeignKey(target, ondelete="CASCADE"), nullable=nullable, index=True)


def _jsonb(*, nullable: bool = False) -> Any:
    return Column(JSONB(none_as_null=True), nullable=nullable)


def _texts(*, nullable: bool = False) -> Any:
    return Column(ARRAY(Text), nullable=nullable)


def _moment(*, nullable: bool = False) -> Any:
    return Column(DateTime(timezone=True), nullable=nullable)


class Row(SQLModel):
    """What every table has."""

    id: UUID = Field(default_factory=new_id, primary_key=True)
    tenant_id: UUID = Field(default=TENANT, nullable=False)


class DataKeyRow(Row, table=True):
    """A data key, wrapped by a key of the ring (`security.vault`)."""

    __tablename__ = "data_keys"
    purpose: str
    kek_id: str
    wrapped: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = Field(default_factory=now, sa_column=_moment())


class Provider(Row, table=True):
    """A registered API. `version` is its ETag; `active_revision` is what its tools come from."""

    __tablename__ = "providers"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    name: str
    title: str = ""
    description: str = ""
    protocol: str
    kind: str
    """Where its tools come from: openapi, manual (UTCP 0.x or 1.x) or hand."""
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    options: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    limits: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    """Overrides of connect/first_byte/idle/total seconds and response_bytes."""
    slots: list[dict[str, Any]] = Field(default_factory=list, sa_column=_jsonb())
    origins: list[str] = Field(default_factory=list, sa_column=_texts())
    tags: list[str] = Field(default_factory=list, sa_column=_texts())
    """Tags that the registrar set: only these count for the tag limit of a key."""
    enabled: bool = True
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=_moment())
    updated_at: datetime = Field(default_factory=now, sa_column=_moment())


class Source(Row, table=True):
    """The very bytes that were registered, kept for refresh and for a newer converter."""

    __tablename__ = "sources"
    provider_id: UUID = Field(sa_column=_cascade("providers.id"))
    format: str
    url: str | None = None
    media_type: str = ""
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sha256: str
    converter: str
    created_at: datetime = Field(default_factory=now, sa_column=_moment())


class Revision(Row, table=True):
    """One import of a source: its report, and whether its tools are in use."""

    __tablename__ = "revisions"
    provider_id: UUID = Field(sa_column=_cascade("providers.id"))
    source_id: UUID | None = Field(default=None, sa_column=_cascade("sources.id", nullable=True))
    state: str = "active"
    report: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    created_at: datetime = Field(default_factory=now, sa_column=_moment())


class Tool(Row, table=True):
    """A callable operation as its source describes it; what a person changed lies in `overrides`."""

    __tablename__ = "tools"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        UniqueConstraint("tenant_id", "alias"),
        UniqueConstraint("tenant_id", "provider_id", "source_key"),
    )
    provider_id: UUID = Field(sa_column=_cascade("providers.id"))
    revision_id: UUID | None = Field(default=None, sa_column=_cascade("revisions.id", nullable=True))
    source_key: str
    name: str
    """Canonical, `provider.tool`."""
    alias: str
    """`^[a-zA-Z0-9_-]{1,64}$`, for places where a dot is not allowed."""
    description: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    outputs: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    tags: list[str] = Field(default_factory=list, sa_column=_texts())
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    security: list[list[dict[str, Any]]] = Field(default_factory=list, sa_column=_jsonb())
    deprecated: bool = False
    average_response_size: int | None = None
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=_moment())
    updated_at: datetime = Field(default_factory=now, sa_column=_moment())


class Override(SQLModel, table=True):
    """What a person changed on a tool; null means: as the source says. Survives a re-import."""

    __tablename__ = "overrides"
    tool_id: UUID = Field(
        sa_column=Column(ForeignKey("tools.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=_texts(nullable=True))
    enabled: bool | None = None


class Credential(Row, table=True):
    """A sealed upstream credential; `security.credentials.SealedCredential` is its form in memory."""

    __tablename__ = "credentials"
    __table_args__ = (
        UniqueConstraint("tenant_id", "provider_id", "slot", "principal", postgresql_nulls_not_distinct=True),
    )
    provider_id: UUID = Field(sa_column=_cascade("providers.id"))
    slot: str
    principal: str | None = None
    kind: str
    public: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())
    allowed_origins: list[str] = Field(default_factory=list, sa_column=_texts())
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    variable_names: list[str] = Field(default_factory=list, sa_column=_texts())
    """`${NAME}`s that stand in the sealed fields, already without namespace."""
    fingerprint: str
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=_moment())
    updated_at: datetime = Field(default_factory=now, sa_column=_moment())
    last_used_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


class Variable(Row, table=True):
    """`${NAME}`: of one provider, or of the tenant when `provider_id` is null."""

    __tablename__ = "variables"
    __table_args__ = (
        UniqueConstraint("tenant_id", "provider_id", "name", postgresql_nulls_not_distinct=True),
    )
    provider_id: UUID | None = Field(default=None, sa_column=_cascade("providers.id", nullable=True))
    name: str
    secret: bool = True
    value: str | None = None
    sealed: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    version: int = 1
    updated_at: datetime = Field(default_factory=now, sa_column=_moment())


class Key(Row, table=True):
    """A caller's API key: only an HMAC of it is stored."""

    __tablename__ = "keys"
    __table_args__ = (UniqueConstraint("tenant_id", "key_id"),)
    key_id: str
    name: str
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    scopes: list[str] = Field(default_factory=list, sa_column=_texts())
    providers: list[str] | None = Field(default=None, sa_column=_texts(nullable=True))
    tags: list[str] | None = Field(default=None, sa_column=_texts(nullable=True))
    expires_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=_moment())
    last_used_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


class Import(Row, table=True):
    """An import that was asked for with `Prefer: respond-async`."""

    __tablename__ = "imports"
    state: str = "running"
    """running, done or failed."""
    owner: str = ""
    result: dict[str, Any] | None = Field(default=None, sa_column=_jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=_moment())
    finished_at: datetime | None = Field(default=None, sa_column=_moment(nullable=True))


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
    at: datetime = Field(default_factory=now, sa_column=_moment())


class CallRecord(SQLModel, table=True):
    """One call of a tool; partitioned by day, no foreign keys, never arguments or results."""

    __tablename__ = "calls"
    __table_args__ = (
        Index("calls_by_tool", "tenant_id", "tool", "at"),
        {"postgresql_partition_by": "RANGE (at)"},
    )
    id: UUID = Field(default_factory=new_id, primary_key=True)
    at: datetime = Field(default_factory=now, sa_column=Column(DateTime(timezone=True), primary_key=True))
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    key_id: str
    provider: str
    tool: str
    outcome: str
    """ok, or the slug of the error."""
    status: int
    upstream_status: int | None = None
    duration_ms: float
    request_bytes: int = 0
    response_bytes: int = 0


class Event(Row, table=True):
    """Who changed what, when, on the control plane."""

    __tablename__ = "events"
    __table_args__ = (Index("events_at", "tenant_id", "at"),)
    at: datetime = Field(default_factory=now, sa_column=_moment())
    actor: str
    action: str
    object_type: str
    object_name: str
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=_jsonb())


COUNTER_ROW = text("INSERT INTO change_counter (id, last) VALUES (1, 0) ON CONFLICT DO NOTHING")
