"""All tables (SQLModel, PostgreSQL 15 and later).

Every table carries `tenant_id`, and has it in each unique key. Deleting a provider takes everything that
hangs on it along (`ON DELETE CASCADE`); only `calls` and `events`, the audit, have no foreign keys.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, Text, UniqueConstraint
from sqlmodel import Field, SQLModel

from app.models.base import TENANT, Row, cascading_key, jsonb, new_id, now, text_array, timestamp
from app.models.records import COUNTER_ROW, CallRecord, Change, ChangeCounter, Event

__all__ = [
    "COUNTER_ROW",
    "TENANT",
    "CallRecord",
    "Change",
    "ChangeCounter",
    "Credential",
    "DataKeyRow",
    "Event",
    "IdempotencyKey",
    "Import",
    "KeptOverride",
    "Key",
    "Override",
    "Provider",
    "Revision",
    "Row",
    "Source",
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
    """A registered API. `version` is its ETag; `active_revision` is what its tools come from."""

    __tablename__ = "providers"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    name: str
    title: str = ""
    description: str = ""
    protocol: str
    kind: str
    """Where its tools come from: openapi, manual (UTCP 0.x or 1.x) or hand."""
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    options: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    limits: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """connect, first_byte, idle and total seconds, response_bytes; rate, cache, idempotency_header."""
    slots: list[dict[str, Any]] = Field(default_factory=list, sa_column=jsonb())
    origins: list[str] = Field(default_factory=list, sa_column=text_array())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    """Tags that the registrar set: only these count for the tag limit of a key."""
    enabled: bool = True
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Source(Row, table=True):
    """The very bytes that were registered, kept for refresh and for a newer converter."""

    __tablename__ = "sources"
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    format: str
    url: str | None = None
    media_type: str = ""
    body: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sha256: str
    root: str | None = None
    """The document's path, where `body` is an archive of several files and that had to be named."""
    overlay: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    follows: bool = False
    """Whether files that the document refers to are fetched with it."""
    converter: str
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Revision(Row, table=True):
    """One import of a source: its report, and whether its tools are in use.

    One whose state is pending holds what waits for approval: its report says what, `held` how it would be.
    """

    __tablename__ = "revisions"
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    source_id: UUID | None = Field(default=None, sa_column=cascading_key("sources.id", nullable=True))
    state: str = "active"
    report: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    held: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Tool(Row, table=True):
    """A callable operation as its source describes it; what a person changed lies in `overrides`."""

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
    """Canonical, `provider.tool`."""
    alias: str
    """`^[a-zA-Z0-9_-]{1,64}$`, for places where a dot is not allowed."""
    description: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    outputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    security: list[list[dict[str, Any]]] = Field(default_factory=list, sa_column=jsonb())
    deprecated: bool = False
    average_response_size: int | None = Field(default=None, sa_column=Column(BigInteger))
    shown: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """What a model sees of a large one: description, inputs, outputs and the steps that led there."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Override(SQLModel, table=True):
    """What a person changed on a tool; null means: as the source says. Survives a re-import."""

    __tablename__ = "overrides"
    tool_id: UUID = Field(
        sa_column=Column(ForeignKey("tools.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    enabled: bool | None = None


class KeptOverride(SQLModel, table=True):
    """What a person changed on a tool that its source has no more, until the tool comes back."""

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
    """A sealed upstream credential; `security.credentials.SealedCredential` is its form in memory."""

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
    """`${NAME}`s that stand in the sealed fields, already without namespace."""
    fingerprint: str
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())
    last_used_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


class Variable(Row, table=True):
    """`${NAME}`: of one provider, or of the tenant when `provider_id` is null."""

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
    """A caller's API key: only an HMAC of it is stored."""

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
    """requests, per_seconds and burst; null: the gateway's default."""
    expires_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    last_used_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


class IdempotencyKey(Row, table=True):
    """A call that was made with an Idempotency-Key: that it runs, and how it ended (sealed)."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key_id", "digest"),
        Index("idempotency_keys_expire", "expires_at"),
    )
    key_id: str
    """Of the API key: two callers never meet in one row."""
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Of the caller's text, keyed."""
    fingerprint: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Of the tool and the arguments, keyed."""
    call_id: UUID
    sealed: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The outcome; null while nobody knows it."""
    leased_until: datetime = Field(sa_column=timestamp())
    """Until when the call may run; a row without an outcome after that is of a process that has gone."""
    expires_at: datetime = Field(sa_column=timestamp())
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Import(Row, table=True):
    """An import that was asked for with `Prefer: respond-async`."""

    __tablename__ = "imports"
    state: str = "running"
    """running, done or failed."""
    owner: str = ""
    result: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    finished_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
