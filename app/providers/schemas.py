"""What the control plane answers with: exact pydantic models; none of them has a place for a secret."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.providers.schemas_changes import Difference, Pending
from app.schemas import Problem


class StaticPlace(BaseModel):
    """Where a value of a call template belongs."""

    location: Literal["header", "query", "userinfo", "field"]
    name: str


class SlotView(BaseModel):
    """A place for a credential that tools need."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static", "any", "unsupported"]
    scheme: str | None = Field(default=None, description="Name of the security scheme in the document.")
    location: str | None = None
    name: str | None = None
    token_url: str | None = None
    scopes: list[str] = Field(default_factory=list)
    description: str | None = None
    values: list[StaticPlace] | None = Field(
        default=None, description="Of a slot of kind static: what a credential for it consists of."
    )
    stored: bool = Field(description="Whether a credential is stored for it.")


class CredentialView(BaseModel):
    """A stored credential without its values."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static"]
    public: dict[str, Any] = Field(description="Location and name, token URL, scope: what is not secret.")
    fingerprint: str = Field(description="8 hex digits of a keyed hash; equal ones are equal credentials.")
    version: int
    allowed_origins: list[str] = Field(description="The only origins that it is ever sent to.")
    variables: list[str] = Field(description="The variables that its sealed fields name.")
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class DestinationView(BaseModel):
    """Where the next credential of a slot goes that is stored without `allowed_origins`."""

    slot: str
    origins: list[str] = Field(description="Empty where `allowed_origins` must be given.")
    registered: list[str] = Field(description="The origins of the provider's source.")
    stored: bool = Field(description="Whether `origins` are those of the credential that is stored.")
    token_url: str | None = Field(description="That of the stored credential of kind oauth2.")


class CredentialList(BaseModel):
    """The credentials of a provider."""

    items: list[CredentialView]
    destinations: list[DestinationView]


class VariableView(BaseModel):
    """A variable; `value` is null where it is secret."""

    name: str
    secret: bool
    value: str | None
    version: int
    updated_at: datetime


class VariablePage(BaseModel):
    """A page of variables, by name."""

    items: list[VariableView]
    next_cursor: str | None


class VariablesImported(BaseModel):
    """What an import of a .env file stored."""

    stored: list[str]
    created: list[str] = Field(description="Those of `stored` that did not exist before.")


class Finding(BaseModel):
    """What makes a tool harder to choose or to call for a model."""

    rule: str = Field(examples=["no-description"])
    detail: str
    suggestion: str


class OperationVerdict(BaseModel):
    """What became of one operation or tool of a source."""

    source_key: str
    name: str
    verdict: Literal["accepted", "renamed", "skipped"]
    reason: str | None = None
    pointer: str
    notes: list[str]
    security: list[list[str]] | None = Field(
        default=None,
        description="Slots whose credentials satisfy it: one of the alternatives, all of its slots together.",
    )
    tokens: int | None = Field(default=None, description="About what it costs a model: bytes / 4.")
    slimmed: list[str] = Field(default_factory=list, description="How it was brought to what models see.")
    lint: list[Finding] = Field(default_factory=list)


class ReportCounts(BaseModel):
    """`accepted` counts renamed ones, too."""

    operations: int
    accepted: int
    renamed: int
    skipped: int


class Remark(BaseModel):
    """A remark on a part of the source."""

    pointer: str
    detail: str


class Report(BaseModel):
    """The report of an import."""

    counts: ReportCounts
    operations: list[OperationVerdict]
    warnings: list[Remark]
    tokens: int = Field(default=0, description="About what all tools together cost a model.")


class Consent(BaseModel):
    """Something that the source asks for and a credential does not do without its owner's word."""

    slot: str
    origins: list[str] = Field(description="Origins of tools that do not get the credential of this slot.")
    token_url: str | None = Field(default=None, description="A token URL of the source that is not used.")


class SourceView(BaseModel):
    """Where the tools came from."""

    format: str
    url: str | None
    media_type: str
    sha256: str = Field(description="Of the document; of a manual, which may hold secrets, a keyed hash.")
    bytes: int
    root: str | None = Field(description="Path of the document, where it had to be named in an archive.")
    overlay_sha256: str | None = Field(description="Of the overlay that is laid over at each refresh.")
    follow_references: bool


class ProviderSummary(BaseModel):
    """A registered API."""

    name: str
    title: str
    description: str
    protocol: str
    kind: Literal["openapi", "manual", "hand"]
    enabled: bool
    tags: list[str]
    origins: list[str] = Field(description="Where its tools are called.")
    tool_count: int
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime


class ProviderPage(BaseModel):
    """A page of providers, by name."""

    items: list[ProviderSummary]
    next_cursor: str | None


class ProviderView(ProviderSummary):
    """A registered API with everything but secrets."""

    limits: dict[str, Any]
    options: dict[str, Any]
    call_template: dict[str, Any] = Field(description="How its source is fetched; {} where it was uploaded.")
    slots: list[SlotView]
    credentials: list[CredentialView]
    source: SourceView | None
    report: Report | None
    pending: Pending | None = Field(default=None, description="What waits for `POST .../approve`.")


class Registered(ProviderView):
    """A registration's answer."""

    missing_slots: list[str] = Field(description="Slots that have no credential yet.")
    needs_consent: list[Consent]


class Refreshed(Registered):
    """A refresh's answer."""

    difference: Difference


class ToolPreview(BaseModel):
    """A tool that a registration would make."""

    name: str
    source_key: str
    description: str
    method: str
    url: str
    inputs: dict[str, Any]
    security: list[list[dict[str, Any]]]


class Preview(BaseModel):
    """What a registration would do. Nothing was stored."""

    name: str
    title: str
    description: str
    kind: Literal["openapi", "manual", "hand"]
    protocol: str
    exists: bool = Field(description="Whether a provider of this name exists; `difference` is against it.")
    origins: list[str]
    slots: list[SlotView]
    tools: list[ToolPreview]
    difference: Difference
    needs_consent: list[Consent]
    report: Report


class Entry(BaseModel):
    """The verdict on one entry of a list."""

    name: str | None
    verdict: Literal["registered", "previewed", "unchanged", "refused"]
    status: int = Field(description="The status that the entry alone would have had.")
    tool_count: int | None = None
    report: Report | None = None
    needs_consent: list[Consent] = Field(default_factory=list)
    problem: Problem | None = None


class EntryCounts(BaseModel):
    """How many entries had which verdict."""

    registered: int
    previewed: int
    unchanged: int
    refused: int


class Entries(BaseModel):
    """The verdicts on a list, in its order."""

    entries: list[Entry]
    counts: EntryCounts


class ImportView(BaseModel):
    """An import that runs beside the requests."""

    id: UUID
    state: Literal["running", "done", "failed"]
    status: int | None = Field(default=None, description="The status that waiting for it would have had.")
    result: dict[str, Any] | None = Field(
        default=None, description="The answer, or the problem, that waiting for it would have had."
    )
    created_at: datetime
    finished_at: datetime | None


class HandTool(BaseModel):
    """A tool that was written by hand."""

    name: str = Field(description="Canonical name, `provider.tool`.", examples=["library.echo"])
    alias: str
    provider: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tags: list[str]
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]]
    version: int
    created_at: datetime
