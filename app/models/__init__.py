"""All tables (SQLModel, PostgreSQL 15 and later).

Every table has a column `tenant_id`, which is part of each unique key. Deleting a provider deletes everything
that refers to it (`ON DELETE CASCADE`); only `calls` and `events`, the audit, have no foreign keys.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import (
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
from sqlmodel import Field, SQLModel

from app.models.base import TENANT, Row, cascading_key, jsonb, new_id, now, text_array, timestamp

__all__ = [
    "COUNTER_ROW",
    "TENANT",
    "CallRecord",
    "ChangeCounter",
    "ChangeRow",
    "Credential",
    "DataKeyRow",
    "Event",
    "IdempotencyKey",
    "ImportJobRow",
    "Key",
    "Override",
    "Provider",
    "RetainedOverride",
    "Revision",
    "Row",
    "SourceRow",
    "Tool",
    "Variable",
    "new_id",
    "now",
]


class DataKeyRow(Row, table=True):
    """A data key, wrapped by a key of the ring (`security.vault`)."""

    __tablename__ = "data_keys"
    purpose: str
    kek_id: str
    wrapped: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Provider(Row, table=True):
    """A registered API. `version` is its ETag; its tools are those of its active revision."""

    __tablename__ = "providers"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    name: str
    title: str = ""
    description: str = ""
    protocol: str
    kind: str
    """The source of its tools: openapi, manual (UTCP 0.x or 1.x) or hand (custom tools)."""
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    options: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    limits: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """Members: connect, first_byte, idle and total (seconds), response_bytes, rate, cache,
    idempotency_header.
    """
    slots: list[dict[str, Any]] = Field(default_factory=list, sa_column=jsonb())
    origins: list[str] = Field(default_factory=list, sa_column=text_array())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    """Tags that the registrar set: only these count for a key's restriction to tags."""
    enabled: bool = True
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class SourceRow(Row, table=True):
    """The bytes of a registered source, stored for refreshes and for newer converters."""

    __tablename__ = "sources"
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    format: str
    url: str | None = None
    media_type: str = ""
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sha256: str
    root: str | None = None
    """The path of the root document, where `body` is an archive of several files and the path had to be
    given.
    """
    overlay: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    follows: bool = False
    """Whether external files that the document refers to are fetched with it."""
    converter: str
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Revision(Row, table=True):
    """One import of a source: its report, and whether its tools are in use.

    A revision in state pending waits for approval: `report` has its changes, `held` has the resulting tools.
    """

    __tablename__ = "revisions"
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    source_id: UUID | None = Field(default=None, sa_column=cascading_key("sources.id", nullable=True))
    state: str = "active"
    report: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    held: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Tool(Row, table=True):
    """A callable operation as its source describes it; changes by a person are in `overrides`."""

    __tablename__ = "tools"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        UniqueConstraint("tenant_id", "alias"),
        UniqueConstraint("tenant_id", "provider_id", "source_key"),
    )
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    revision_id: UUID | None = Field(default=None, sa_column=cascading_key("revisions.id", nullable=True))
    source_key: str
    name: str
    """The canonical name, `provider.tool`."""
    alias: str
    """A name of the form `^[a-zA-Z0-9_-]{1,64}$`, for clients that do not allow a dot."""
    description: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    outputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    security: list[list[dict[str, Any]]] = Field(default_factory=list, sa_column=jsonb())
    deprecated: bool = False
    average_response_size: int | None = Field(default=None, sa_column=Column(BigInteger))
    shown: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """What a model is shown of a large tool: description, inputs, outputs, and the steps that reduced them.
    """
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Override(SQLModel, table=True):
    """What a person changed of a tool; null means the value of the source. It is retained by a re-import."""

    __tablename__ = "overrides"
    tool_id: UUID = Field(
        sa_column=Column(ForeignKey("tools.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    enabled: bool | None = None


class RetainedOverride(SQLModel, table=True):
    """What a person changed of a tool that its source no longer has, retained until the tool is back."""

    __tablename__ = "kept_overrides"
    provider_id: UUID = Field(
        sa_column=Column(ForeignKey("providers.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    source_key: str = Field(primary_key=True)
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    enabled: bool | None = None


class Credential(Row, table=True):
    """A sealed credential for an upstream; in memory it is a `security.credentials.SealedCredential`."""

    __tablename__ = "credentials"
    __table_args__ = (
        UniqueConstraint("tenant_id", "provider_id", "slot", "principal", postgresql_nulls_not_distinct=True),
    )
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    slot: str
    principal: str | None = None
    kind: str
    public: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    allowed_origins: list[str] = Field(default_factory=list, sa_column=text_array())
    sealed: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    variable_names: list[str] = Field(default_factory=list, sa_column=text_array())
    """Names of the variables (`${NAME}`) in the sealed fields, without namespace."""
    fingerprint: str
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())
    last_used_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


class Variable(Row, table=True):
    """The value of `${NAME}`: for one provider, or for the whole tenant when `provider_id` is null."""

    __tablename__ = "variables"
    __table_args__ = (
        UniqueConstraint("tenant_id", "provider_id", "name", postgresql_nulls_not_distinct=True),
    )
    provider_id: UUID | None = Field(default=None, sa_column=cascading_key("providers.id", nullable=True))
    name: str
    secret: bool = True
    value: str | None = None
    sealed: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    version: int = 1
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Key(Row, table=True):
    """An API key of a client: only an HMAC of its text is stored."""

    __tablename__ = "keys"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key_id"),
        Index("keys_key_id", "key_id", unique=True),
    )
    key_id: str
    name: str
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    scopes: list[str] = Field(default_factory=list, sa_column=text_array())
    providers: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    rate_limit: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: requests, per_seconds and burst; null for the gateway's default."""
    expires_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    last_used_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


class IdempotencyKey(Row, table=True):
    """A call with an Idempotency-Key: its lease while it runs, and its sealed outcome."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key_id", "digest"),
        Index("idempotency_keys_expire", "expires_at"),
    )
    key_id: str
    """Id of the API key: different clients never share a row."""
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Keyed digest of the client's Idempotency-Key."""
    fingerprint: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Keyed digest of the tool and the arguments."""
    call_id: UUID
    sealed: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The sealed outcome; null while it is unknown."""
    leased_until: datetime = Field(sa_column=timestamp())
    """Until when the call may run; a row without an outcome after that belongs to a process that has ended.
    """
    expires_at: datetime = Field(sa_column=timestamp())
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class ImportJobRow(Row, table=True):
    """An import that was requested with `Prefer: respond-async`."""

    __tablename__ = "imports"
    state: str = "running"
    """running, done or failed."""
    owner: str = ""
    result: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    finished_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


# Append-only tables: the change feed, and the audit, which has no foreign keys.


class ChangeCounter(SQLModel, table=True):
    """One row, locked by each writing transaction: changes are numbered without gaps, in commit order."""

    __tablename__ = "change_counter"
    id: int = Field(default=1, primary_key=True)
    last: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))


class ChangeRow(SQLModel, table=True):
    """A change of the control plane, for the change feed: what every worker must drop from its caches or
    reload.
    """

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
    """One tool call; partitioned by day, without foreign keys. Arguments and results are stored only where a
    setting enables it, and sealed.
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
    """`ok`, or the slug of the error; `running` before the end is known, `unknown` if it was never recorded.
    """
    status: int
    upstream_status: int | None = None
    duration_ms: float
    request_bytes: int = 0
    response_bytes: int = 0
    attempts: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Requests that were started to the upstream; also 0 in records of releases that did not count them."""
    safe: bool | None = None
    """Whether the tool's method is safe (RFC 9110 section 9.2.1); null where no tool was found."""
    deadline: datetime | None = Field(default=None, sa_column=Column(DateTime(timezone=True), nullable=True))
    """When a call that was recorded before it was made must have ended."""
    arguments: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    result: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))


class Event(Row, table=True):
    """An audit event of the control plane: who changed what, and when."""

    __tablename__ = "events"
    __table_args__ = (Index("events_at", "tenant_id", "at"),)
    at: datetime = Field(default_factory=now, sa_column=timestamp())
    actor: str
    action: str
    object_type: str
    object_name: str
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())


COUNTER_ROW = text("INSERT INTO change_counter (id, last) VALUES (1, 0) ON CONFLICT DO NOTHING")
