"""All tables (SQLModel, PostgreSQL 15 and later).

Every table has a column `tenant_id`, which is part of each unique key. Deleting a provider deletes everything
that refers to it (`ON DELETE CASCADE`); only `calls` and `events`, the audit, and `approvals` have no foreign
keys.
"""

from datetime import datetime
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
    SmallInteger,
    Text,
    UniqueConstraint,
    text,
)
from sqlmodel import Field, SQLModel

from app.core.uuid7 import uuid7
from app.storage.models.base import (
    TENANT,
    Row,
    cascading_key,
    jsonb,
    now,
    text_array,
    timestamp,
)
from app.storage.models.search_usage import PendingSearch, SearchLabel, SearchQuery, SearchUsageState
from app.storage.models.search_words import PinnedResultRow, SynonymSetRow
from app.storage.models.sessions import ConsoleSessionRow, SignInTokenRow

__all__ = [
    "COUNTER_ROW",
    "TENANT",
    "Approval",
    "ApprovalRequirementRow",
    "CallRecord",
    "CallStat",
    "ChangeCounter",
    "ChangeRow",
    "ConsoleSessionRow",
    "Credential",
    "DataKeyRow",
    "Event",
    "IdempotencyKey",
    "ImportJobRow",
    "Key",
    "Override",
    "PendingSearch",
    "PinnedResultRow",
    "Provider",
    "ProviderCheckRow",
    "RecordedInteractionRow",
    "RecordingRow",
    "ReplayRunRow",
    "RetainedOverride",
    "Revision",
    "Row",
    "SearchLabel",
    "SearchQuery",
    "SearchUsageState",
    "SearchVectorRow",
    "SignInTokenRow",
    "SourceRow",
    "SynonymSetRow",
    "Tool",
    "ToolHistoryEntry",
    "ToolsetRow",
    "Variable",
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
    """The source of its tools: openapi, manual (UTCP 0.x or 1.x) or custom."""
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    options: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    limits: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """Members: connect, first_byte, idle and total (seconds), response_bytes, rate, cache,
    idempotency_header.
    """
    language: str | None = None
    """The language tag (BCP 47) that the registrar gave to its texts; null for the document's."""
    document_language: str | None = None
    """The language tag that its document, or the response with it, says; null where none ever did."""
    slots: list[dict[str, Any]] = Field(default_factory=list, sa_column=jsonb())
    origins: list[str] = Field(default_factory=list, sa_column=text_array())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    """Tags that the registrar set: only these count for a key's restriction to tags."""
    executor_owner: str | None = None
    """The lineage (`Principal.lineage`) of the API key to which the name belongs as that of an executor; null
    for other providers, and until an executor has connected.
    """
    executor_keys: list[str] = Field(
        default_factory=list, sa_column=Column(ARRAY(Text), nullable=False, server_default="{}")
    )
    """The lineages of further keys that may connect as this executor."""
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
    """The path of the root document, where `body` is an archive and the request named the path."""
    overlay: str | None = Field(default=None, sa_column=Column(Text, nullable=True))
    follow_references: bool = False
    """Whether external files that the document refers to are fetched with it."""
    converter: str
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Revision(Row, table=True):
    """One import of a source: its report, and whether its tools are in use.

    A revision in state pending waits for approval: `report` has its changes,
    `pending_definitions` the resulting tools and slots.
    """

    __tablename__ = "revisions"
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    source_id: UUID | None = Field(default=None, sa_column=cascading_key("sources.id", nullable=True))
    state: str = "active"
    report: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    pending_definitions: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Tool(Row, table=True):
    """A callable operation as its source describes it; changes by a person are in `overrides`."""

    __tablename__ = "tools"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name"),
        UniqueConstraint("tenant_id", "alias"),
        UniqueConstraint("tenant_id", "agent_name", name="tools_tenant_id_agent_name_key"),
        UniqueConstraint("tenant_id", "provider_id", "source_key"),
        Index("tools_created", "tenant_id", "created_at", "id"),
        Index("tools_updated", "tenant_id", "updated_at", "id"),
        Index("tools_deprecated", "tenant_id", "name", postgresql_where=text("deprecated")),
    )
    provider_id: UUID = Field(sa_column=cascading_key("providers.id"))
    revision_id: UUID | None = Field(default=None, sa_column=cascading_key("revisions.id", nullable=True))
    source_key: str
    name: str
    """The canonical name, `provider.tool`."""
    alias: str
    """A name of the form `^[a-zA-Z0-9_-]{1,64}$`, for clients that do not allow a dot."""
    agent_name: str | None = None
    """The name that agents see: the alias in at most 45 characters, since hosts put a prefix before it; null
    for a tool that a worker of release 0.2 has stored.
    """
    description: str = ""
    inputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    outputs: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    tags: list[str] = Field(default_factory=list, sa_column=text_array())
    call_template: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    security: list[list[dict[str, Any]]] = Field(default_factory=list, sa_column=jsonb())
    deprecated: bool = False
    average_response_size: int | None = Field(default=None, sa_column=Column(BigInteger))
    slimmed: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """What a model sees of a large tool: description, inputs, outputs, and the steps that slimmed them."""
    keywords: list[str] = Field(
        default_factory=list, sa_column=Column(ARRAY(Text), nullable=False, server_default="{}")
    )
    """Further words by which search finds it."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class SearchVectorRow(SQLModel, table=True):
    """The vector of a text of tools, by which searches rank; it has no reference to the tools that have the
    text.
    """

    __tablename__ = "search_vectors"
    tenant_id: UUID = Field(default=TENANT, primary_key=True)
    digest: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    """The SHA-256 of the model's digest and the text."""
    model: str
    """The digest of the model."""
    vector: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Its numbers as float16, little-endian."""
    created_at: datetime = Field(
        default_factory=now,
        sa_column=Column(DateTime(timezone=True), nullable=False, server_default=text("now()")),
    )


class Override(SQLModel, table=True):
    """What a person changed of a tool; null means the value of the source. It is retained by a re-import."""

    __tablename__ = "overrides"
    tool_id: UUID = Field(
        sa_column=Column(ForeignKey("tools.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    keywords: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    enabled: bool | None = None
    requires_approval: bool | None = None
    annotations: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: read_only, destructive, idempotent, open_world and header_inputs."""
    publish_output_schema: bool | None = None
    """Whether agents see the schema of the tool's responses, which are validated then."""
    response_options: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: all_pages and poll."""
    output_deviations: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Number of results that deviated from the output schema while it was published."""
    deviations_schema: str | None = None
    """The SHA-256, in hexadecimal digits, of the output schema that they deviated from."""
    output_schema_withdrawn_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    """When the gateway withdrew the output schema because of them; null where it did not."""


class RetainedOverride(SQLModel, table=True):
    """What a person changed of a tool that its source no longer has, retained until the tool is back."""

    __tablename__ = "retained_overrides"
    provider_id: UUID = Field(
        sa_column=Column(ForeignKey("providers.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    source_key: str = Field(primary_key=True)
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    description: str | None = None
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    keywords: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    enabled: bool | None = None
    requires_approval: bool | None = None
    annotations: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: read_only, destructive, idempotent, open_world and header_inputs."""
    publish_output_schema: bool | None = None
    """Whether agents see the schema of the tool's responses, which are validated then."""
    response_options: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: all_pages and poll."""
    output_deviations: int = Field(default=0, sa_column_kwargs={"server_default": "0"})
    """Number of results that deviated from the output schema while it was published."""
    deviations_schema: str | None = None
    """The SHA-256, in hexadecimal digits, of the output schema that they deviated from."""
    output_schema_withdrawn_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    """When the gateway withdrew the output schema because of them; null where it did not."""


class ApprovalRequirementRow(Row, table=True):
    """An operation whose calls require approval, whatever tool makes them, also when its provider is gone
    (`app.providers.registration.approval_requirements`).
    """

    __tablename__ = "approval_requirements"
    __table_args__ = (UniqueConstraint("tenant_id", "digest"),)
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """The SHA-256 of the operation: of the five columns that follow."""
    protocol: str
    origin: str
    """Where its calls go; empty where variables decide that."""
    method: str
    path: str | None = None
    """The path of its HTTP requests: `{}` is a placeholder, `*` an unknown path; null without HTTP."""
    operations: list[str] = Field(default_factory=list, sa_column=text_array())
    """The protocol's own names of what is done."""
    tool: str
    """The canonical name of the tool for which approval was required."""
    provider: str
    created_by: str
    """Id of the key that required approval, or of the one whose change let it be kept."""
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())


class ToolsetRow(Row, table=True):
    """A named view of the registry (`app.toolsets`). `version` is its ETag."""

    __tablename__ = "toolsets"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    name: str
    title: str = ""
    description: str = ""
    definition: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """The members of `ToolsetDefinition`."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class RecordingRow(Row, table=True):
    """A named collection of recorded responses of upstreams (`app.calls.recordings`). `version` is its
    ETag.
    """

    __tablename__ = "recordings"
    __table_args__ = (UniqueConstraint("tenant_id", "name"),)
    name: str
    description: str = ""
    options: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """The members of `RecordingOptions`."""
    interactions: int = 0
    """The number of its interactions."""
    bytes: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    """The size of their sealed columns."""
    last_position: int = 0
    """The position of the last interaction that was added."""
    omitted: int = 0
    """Calls in mode `record` whose response was not stored, because it would have exceeded a limit."""
    version: int = 1
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())
    used_at: datetime = Field(default_factory=now, sa_column=timestamp())
    """When it was last recorded to or replayed, to the hour: it is deleted long after that."""


class RecordedInteractionRow(Row, table=True):
    """A recorded call: its arguments, with secrets masked, and what its upstream gave; both are sealed with
    the ids of the row and its recording.
    """

    __tablename__ = "recorded_interactions"
    __table_args__ = (
        UniqueConstraint("recording_id", "position"),
        Index("recorded_interactions_request", "recording_id", "digest", "position"),
    )
    recording_id: UUID = Field(
        sa_column=Column(ForeignKey("recordings.id", ondelete="CASCADE"), nullable=False)
    )
    position: int
    """Its place in the recording, from 1; interactions of the same request are replayed in this order."""
    tool: str
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Keyed digest of the tool and the arguments that count for matching."""
    definition: str
    """The SHA-256, in hexadecimal digits, of the tool's definition when it was recorded."""
    kind: str
    """body, events or error."""
    status: int
    """The status of the upstream's response; 0 where there was none."""
    size: int
    """The length of the response in bytes."""
    sealed_arguments: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    sealed_response: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    recorded_at: datetime = Field(default_factory=now, sa_column=timestamp())


class ReplayRunRow(SQLModel, table=True):
    """How often a run has replayed one request: which of its recorded responses comes next."""

    __tablename__ = "replay_runs"
    __table_args__ = (Index("replay_runs_used", "used_at"),)
    recording_id: UUID = Field(
        sa_column=Column(ForeignKey("recordings.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    run: str = Field(primary_key=True)
    digest: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    replayed: int
    used_at: datetime = Field(default_factory=now, sa_column=timestamp())


class ToolHistoryEntry(Row, table=True):
    """One change of a tool: by an import, an approval or a person
    (`app.providers.registration.tool_history`).

    It belongs to the tool's source key: a tool that its source removes and adds again has one history.
    """

    __tablename__ = "tool_history"
    __table_args__ = (Index("tool_history_by_tool", "provider_id", "source_key", "at", "id"),)
    provider_id: UUID = Field(
        sa_column=Column(ForeignKey("providers.id", ondelete="CASCADE"), nullable=False)
    )
    source_key: str
    """Empty for the first import of a provider, which is one entry for all tools that it created."""
    at: datetime = Field(default_factory=now, sa_column=timestamp())
    actor: str
    action: str
    """imported, added, changed, removed, approved, created, overridden or deleted."""
    revision_id: UUID | None = None
    """The revision that the tool came from; without a foreign key, since the history is for reading only."""
    breaking: bool = False
    differences: list[dict[str, Any]] = Field(default_factory=list, sa_column=jsonb())
    """The members of each are those of `ToolDifference`."""
    changes: list[dict[str, Any]] = Field(default_factory=list, sa_column=jsonb())
    """Members of each: field, before, after and truncated."""


class ProviderCheckRow(SQLModel, table=True):
    """The result of the last check of a provider (`POST /providers/{name}/check`), without secrets."""

    __tablename__ = "provider_checks"
    provider_id: UUID = Field(
        sa_column=Column(ForeignKey("providers.id", ondelete="CASCADE"), primary_key=True, nullable=False)
    )
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    checked_at: datetime = Field(sa_column=timestamp())
    status: str
    """ok, degraded or failed."""
    certificate_expires_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    """When the first of the certificates of its origins expires; null where no origin has one."""
    result: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())


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
    allowed_origins: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    """The only origins to which a secret of the tenant is sent; null until its first use, and for others."""
    version: int = 1
    updated_at: datetime = Field(default_factory=now, sa_column=timestamp())


class Key(Row, table=True):
    """An API key of a client: only an HMAC of its text is stored."""

    __tablename__ = "keys"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key_id"),
        Index("keys_key_id", "key_id", unique=True),
        Index(
            "keys_expiring",
            "expires_at",
            postgresql_where=text("revoked_at IS NULL AND expires_at IS NOT NULL"),
        ),
    )
    key_id: str
    name: str
    owner: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """Who answers for the key, e.g. a team or an address."""
    purpose: str = Field(default="", sa_column_kwargs={"server_default": ""})
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    scopes: list[str] = Field(default_factory=list, sa_column=text_array())
    providers: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    tags: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    toolsets: list[str] | None = Field(default=None, sa_column=text_array(nullable=True))
    """Names of the toolsets through which alone the key sees and calls tools; null for no such limit."""
    argument_repair: str | None = None
    """off, safe or on; null for the default of the interface."""
    upstream: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: mode (live, record, replay or mock), recording and seed; null for live."""
    schemas: str | None = None
    """portable or full: how it sees the schemas of tools; null for the default of the toolset."""
    rate_limit: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Members: requests, per_seconds and burst; null for the gateway's default."""
    expires_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    revoked_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    rotated_from: str | None = None
    """Id of the key that this one succeeds."""
    successor_id: str | None = None
    """Id of the key that succeeds this one."""
    rate_limit_id: str | None = None
    """Id of the first key of a chain of rotations, under which the calls of all of them are counted; null
    for a key that succeeds none.
    """
    version: int = Field(default=1, sa_column_kwargs={"server_default": "1"})
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


class AgentTestRow(Row, table=True):
    """A run of an agent test (`app.agents.tests.runs`)."""

    __tablename__ = "agent_tests"
    __table_args__ = (Index("agent_tests_created", "created_at"),)
    state: str = "running"
    """running, done, failed or cancelled."""
    key_id: str
    """The public id of the API key that started it."""
    name: str = ""
    done: int = 0
    """How many of its conversations with models have ended."""
    total: int
    cancel_requested: bool = False
    """The worker that runs it reads this with each heartbeat."""
    beat_at: datetime = Field(default_factory=now, sa_column=timestamp())
    sealed_result: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The results as JSON, sealed with the id of the row."""
    problem: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    finished_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))


class Approval(Row, table=True):
    """What waits for a decision, and how it was decided (`app.calls.approvals`).

    The approval of pending changes of a provider has the id of their revision. What a call needs is sealed
    with the id of its row.
    """

    __tablename__ = "approvals"
    __table_args__ = (
        UniqueConstraint("tenant_id", "requested_by", "idempotency_digest"),
        Index("approvals_requested", "tenant_id", "requested_at", "id"),
        Index("approvals_undecided", "expires_at", postgresql_where=text("state IN ('pending', 'approved')")),
        Index("approvals_provider", "provider_id", postgresql_where=text("state = 'pending'")),
    )
    kind: str
    """origin, credential, definition or call."""
    state: str = "pending"
    """pending; approved while a call is made; then executed, failed, rejected or expired."""
    subject_type: str
    """tool or provider."""
    subject_name: str
    provider: str
    provider_id: UUID
    requested_by: str
    requested_at: datetime = Field(default_factory=now, sa_column=timestamp())
    expires_at: datetime = Field(sa_column=timestamp())
    decided_by: str | None = None
    decided_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    comment: str = ""
    ended_at: datetime | None = Field(default=None, sa_column=timestamp(nullable=True))
    """When it was executed, failed, was rejected or expired."""
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())
    """What is approved, as far as it is public: the changes of a provider."""
    failure: dict[str, Any] | None = Field(default=None, sa_column=jsonb(nullable=True))
    """Why it failed or expired: type, title, status and detail of a problem, without an upstream's text."""
    call_id: UUID | None = None
    sealed_request: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """What the call is made with; null once it is decided."""
    sealed_arguments: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The arguments as they are shown, with secrets masked."""
    sealed_result: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The result of the call, or its problem, for the key that requested it."""
    fingerprint: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """Keyed digest of the tool's definition when the call was requested."""
    idempotency_digest: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """Keyed digest of the client's Idempotency-Key."""
    content_digest: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """Keyed digest of the tool and the arguments."""


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
    """provider, tool, credential, variable, key, toolset, import, recording or search-usage."""
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
        Index("calls_stored", "stored_at", "id", postgresql_where=text("stored_at IS NOT NULL")),
        {"postgresql_partition_by": "RANGE (at)"},
    )
    id: UUID = Field(default_factory=uuid7, primary_key=True)
    at: datetime = Field(default_factory=now, sa_column=Column(DateTime(timezone=True), primary_key=True))
    tenant_id: UUID = Field(default=TENANT, nullable=False)
    key_id: str
    interface: str = Field(default="rest", sa_column_kwargs={"server_default": "rest"})
    """The interface by which the call came (`app.calls.log.entries.Interface`)."""
    toolset: str = Field(default="", sa_column_kwargs={"server_default": ""})
    """The name of the toolset by whose address the call came; empty for calls by other addresses."""
    source: str = Field(default="upstream", sa_column_kwargs={"server_default": "upstream"})
    """What the response came from: upstream, recording or mock."""
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
    evidence: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
    """The evidence of a call of a ToolClad tool (`app.formats.toolclad.envelope`), sealed as the bodies
    are.
    """
    replaced_outcome: str | None = None
    """The outcome that this record has replaced: running or unknown; null where it is the first one."""
    stored_at: datetime | None = Field(
        default=None,
        sa_column=Column(DateTime(timezone=True), nullable=True, server_default=text("clock_timestamp()")),
    )
    """When this outcome was stored, by the clock of the database; null in records of earlier releases."""


class CallStat(SQLModel, table=True):
    """Counts of the calls that began in one minute or hour (`app.calls.stats.rollup`)."""

    __tablename__ = "call_stats"
    __table_args__ = (Index("call_stats_shards", "at", postgresql_where=text("shard <> 0")),)
    resolution: str = Field(primary_key=True)
    """minute or hour."""
    at: datetime = Field(sa_column=Column(DateTime(timezone=True), primary_key=True))
    """When the minute or hour begins."""
    tenant_id: UUID = Field(default=TENANT, primary_key=True)
    provider: str = Field(primary_key=True)
    """Empty, and `tool` too, for calls of tools that did not exist."""
    tool: str = Field(primary_key=True)
    key_id: str = Field(primary_key=True)
    interface: str = Field(default="rest", primary_key=True, sa_column_kwargs={"server_default": "rest"})
    toolset: str = Field(default="", primary_key=True, sa_column_kwargs={"server_default": ""})
    source: str = Field(default="upstream", primary_key=True, sa_column_kwargs={"server_default": "upstream"})
    outcome: str = Field(primary_key=True)
    bin: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    """The bin of the calls' durations (`app.calls.stats.histogram`)."""
    shard: int = Field(sa_column=Column(SmallInteger, primary_key=True, autoincrement=False))
    calls: int = Field(sa_column=Column(BigInteger, nullable=False))
    duration_ms: float
    """The sum of the durations; also max_duration_ms in milliseconds."""
    max_duration_ms: float
    request_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    response_bytes: int = Field(sa_column=Column(BigInteger, nullable=False))


class Event(Row, table=True):
    """An audit event of the control plane: who changed what, and when."""

    __tablename__ = "events"
    __table_args__ = (
        Index("events_at", "tenant_id", "at"),
        Index("events_object", "tenant_id", "object_type", "object_name"),
    )
    at: datetime = Field(default_factory=now, sa_column=timestamp())
    actor: str
    action: str
    object_type: str
    object_name: str
    detail: dict[str, Any] = Field(default_factory=dict, sa_column=jsonb())


COUNTER_ROW = text("INSERT INTO change_counter (id, last) VALUES (1, 0) ON CONFLICT DO NOTHING")
