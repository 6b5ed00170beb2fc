"""Response models of the control plane. None of them has a field for a secret."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.schemas import Problem


class StaticValueLocation(BaseModel):
    """Where a value of a static credential is put into the call template."""

    location: Literal["header", "query", "userinfo", "field"]
    name: str


class SlotView(BaseModel):
    """A named credential that tools need."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static", "any", "unsupported"]
    scheme: str | None = Field(default=None, description="Name of the security scheme in the document.")
    location: str | None = None
    name: str | None = None
    token_url: str | None = None
    scopes: list[str] = Field(default_factory=list)
    description: str | None = None
    values: list[StaticValueLocation] | None = Field(
        default=None, description="For a slot of kind static: the values that its credential consists of."
    )
    stored: bool = Field(description="Whether a credential is stored for it.")


class CredentialView(BaseModel):
    """A stored credential without its values."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static"]
    public: dict[str, Any] = Field(
        description="The fields that are not secret: location, name, token URL, scope."
    )
    fingerprint: str = Field(description="8 hex digits of a keyed hash; equal ones are equal credentials.")
    version: int
    allowed_origins: list[str] = Field(description="The only origins to which it is sent.")
    variables: list[str] = Field(description="The variables that its sealed fields name.")
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class DestinationView(BaseModel):
    """Where a credential of a slot would be sent that is stored without `allowed_origins`."""

    slot: str
    origins: list[str] = Field(description="Empty where `allowed_origins` must be given.")
    registered: list[str] = Field(description="The origins of the provider's source.")
    stored: bool = Field(description="Whether `origins` are those of a stored credential.")
    token_url: str | None = Field(description="The token URL of a stored credential of kind oauth2.")


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
    """The names of the variables that an import of a .env file stored."""

    stored: list[str]
    created: list[str] = Field(description="Those of `stored` that did not exist before.")


class FindingView(BaseModel):
    """Something that makes a tool harder for a model to choose or to call."""

    rule: str = Field(examples=["no-description"])
    detail: str
    suggestion: str


class OperationVerdict(BaseModel):
    """The outcome of one operation or tool of a source."""

    source_key: str
    name: str
    verdict: Literal["accepted", "renamed", "skipped"]
    reason: str | None = None
    pointer: str
    notes: list[str]
    security: list[list[str]] | None = Field(
        default=None,
        description="Slots whose credentials satisfy it: any one alternative, with all of its slots.",
    )
    tokens: int | None = Field(default=None, description="Estimated tokens that it costs a model: bytes / 4.")
    slimmed: list[str] = Field(
        default_factory=list, description="The steps by which a large tool was reduced for models."
    )
    lint: list[FindingView] = Field(default_factory=list)


class ReportCounts(BaseModel):
    """Operations by verdict. `accepted` includes the renamed ones."""

    operations: int
    accepted: int
    renamed: int
    skipped: int


class ReportWarning(BaseModel):
    """A warning about a part of the source."""

    pointer: str
    detail: str


class ImportReport(BaseModel):
    """The report of an import."""

    counts: ReportCounts
    operations: list[OperationVerdict]
    warnings: list[ReportWarning]
    tokens: int = Field(default=0, description="Estimated tokens that all tools together cost a model.")


class NeededConsent(BaseModel):
    """A use of a credential that the source requests and its owner has not permitted."""

    slot: str
    origins: list[str] = Field(
        description="Origins of tools to which the credential of this slot is not sent."
    )
    token_url: str | None = Field(default=None, description="A token URL of the source that is not used.")


class SourceView(BaseModel):
    """Where the tools came from."""

    format: str
    url: str | None
    media_type: str
    sha256: str = Field(
        description="SHA-256 of the document; of a manual, which may contain secrets, a keyed hash."
    )
    bytes: int
    root: str | None = Field(description="Path of the document in an archive, where the client named it.")
    overlay_sha256: str | None = Field(description="SHA-256 of the overlay that each refresh applies.")
    follow_references: bool


Verdict = Literal["breaking", "compatible"]


class AspectChange(BaseModel):
    """One difference between two versions of an operation."""

    aspect: Literal["input", "output", "auth", "server", "placing", "description"]
    effect: Literal["widened", "narrowed", "changed"]
    breaking: bool
    pointer: str = Field(description="Where in the input or output; `*` is any item.")
    detail: str


class OperationChange(BaseModel):
    """How a re-import changes one operation."""

    source_key: str
    change: Literal["added", "removed", "changed"]
    verdict: Verdict = Field(description="Whether calls written for the old version still work.")
    held: bool = Field(
        description="Whether it waits for approval because origin, token URL or security differ."
    )
    differences: list[AspectChange]


class SourceDifference(BaseModel):
    """The source keys of tools by what an import did with them, and the changes of each changed one."""

    added: list[str]
    changed: list[str]
    unchanged: list[str]
    removed: list[str]
    held: list[str] = Field(description="Source keys whose changes wait for approval.")
    verdict: Verdict
    operations: list[OperationChange]


class PendingChanges(BaseModel):
    """Changes that a refresh held back."""

    since: datetime
    operations: list[OperationChange]


class ProviderSummary(BaseModel):
    """A registered API."""

    name: str
    title: str
    description: str
    protocol: str
    kind: Literal["openapi", "manual", "custom"]
    enabled: bool
    tags: list[str]
    origins: list[str] = Field(description="The origins that its tools call.")
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
    call_template: dict[str, Any] = Field(
        description="The template with which its source is fetched; {} where it was uploaded."
    )
    slots: list[SlotView]
    credentials: list[CredentialView]
    source: SourceView | None
    report: ImportReport | None
    pending: PendingChanges | None = Field(
        default=None, description="Changes that wait for `POST .../approve`."
    )


class RegisteredProvider(ProviderView):
    """The response to a registration."""

    missing_slots: list[str] = Field(description="Slots that have no credential yet.")
    needs_consent: list[NeededConsent]


class RefreshedProvider(RegisteredProvider):
    """The response to a refresh."""

    difference: SourceDifference


class ToolPreview(BaseModel):
    """A tool that a registration would create."""

    name: str
    source_key: str
    description: str
    method: str
    url: str
    inputs: dict[str, Any]
    security: list[list[dict[str, Any]]]


class Preview(BaseModel):
    """The effect that a registration would have. Nothing was stored."""

    name: str
    title: str
    description: str
    kind: Literal["openapi", "manual", "custom"]
    protocol: str
    exists: bool = Field(
        description="Whether a provider of this name exists; then `difference` compares to it."
    )
    origins: list[str]
    slots: list[SlotView]
    tools: list[ToolPreview]
    difference: SourceDifference
    needs_consent: list[NeededConsent]
    report: ImportReport


class BatchEntry(BaseModel):
    """The result of one entry of a list."""

    name: str | None
    verdict: Literal["registered", "previewed", "unchanged", "failed"]
    status: int = Field(description="The HTTP status that a request with this entry alone would have had.")
    tool_count: int | None = None
    report: ImportReport | None = None
    needs_consent: list[NeededConsent] = Field(default_factory=list)
    problem: Problem | None = None


class BatchCounts(BaseModel):
    """The number of entries with each verdict."""

    registered: int
    previewed: int
    unchanged: int
    failed: int


class BatchResult(BaseModel):
    """The results of a list, in its order."""

    entries: list[BatchEntry]
    counts: BatchCounts


class ImportView(BaseModel):
    """An import that runs in the background."""

    id: UUID
    state: Literal["running", "done", "failed"]
    status: int | None = Field(
        default=None, description="The HTTP status that the response would have had without `respond-async`."
    )
    result: dict[str, Any] | None = Field(
        default=None,
        description="The body (or problem) that the response would have had without `respond-async`.",
    )
    created_at: datetime
    finished_at: datetime | None


class CustomTool(BaseModel):
    """A custom tool, created with `POST /tools`."""

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
