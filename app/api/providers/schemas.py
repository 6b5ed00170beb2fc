"""Response models of the control plane, none of which has a field for a secret, and queries of its lists."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.schemas import AspectChange, PageModel, Problem
from app.providers.registration.store import ProviderState
from app.providers.transfer.toolsets import ToolsetOutcome


class StaticValueView(BaseModel):
    """Where a value of a static credential is put into the call template."""

    location: Literal["header", "query", "userinfo", "field"]
    name: str


class SlotView(BaseModel):
    """A named credential that tools need."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static", "any", "unsupported"]
    exact_kind: str = Field(
        description="The kind itself: `kind` has values of release 0.2.0 only, in place of aws_sigv4, hmac, "
        "digest and google_service_account `any`, and in place of mutual_tls `unsupported`."
    )
    scheme: str | None = Field(default=None, description="Name of the security scheme in the document.")
    location: str | None = None
    name: str | None = None
    http_scheme: str | None = Field(
        default=None,
        description="For a slot of kind bearer: the authentication scheme that is sent in place of `Bearer`.",
    )
    token_url: str | None = None
    metadata_url: str | None = Field(
        default=None,
        description="Where the token endpoint is found if there is no `token_url`: OpenID Connect Discovery "
        "or RFC 8414.",
    )
    scopes: list[str] = Field(default_factory=list)
    description: str | None = None
    values: list[StaticValueView] | None = Field(
        default=None, description="For a slot of kind static: the values that its credential consists of."
    )
    stored: bool = Field(
        description="Whether a credential is stored for it; for one of kind mutual_tls, whether the provider "
        "has a client certificate."
    )


class CredentialView(BaseModel):
    """A stored credential without its values."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static"]
    exact_kind: str = Field(
        description="The kind itself: `kind` has values of release 0.2.0 only, in place of aws_sigv4, hmac, "
        "digest and google_service_account the most similar one."
    )
    public: dict[str, Any] = Field(
        description="The fields that are not secret: location, name, token URL, scope."
    )
    fingerprint: str = Field(description="8 hex digits of a keyed hash; equal ones are equal credentials.")
    version: int
    allowed_origins: list[str] = Field(description="The only origins to which it is sent.")
    variables: list[str] = Field(description="The variables that its sealed fields name.")
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None = Field(
        description="When a call has sent it last; null for never. Updated about once a minute."
    )


class DestinationView(BaseModel):
    """Where a credential of a slot would be sent that is stored without `allowed_origins`."""

    slot: str
    origins: list[str] = Field(description="Empty where `allowed_origins` must be given.")
    registered: list[str] = Field(description="The origins of the provider's source.")
    stored: bool = Field(description="Whether `origins` are those of a stored credential.")
    token_url: str | None = Field(
        description="The token URL of a stored credential of kind oauth2, or the URL of the metadata that "
        "name it."
    )


class CredentialList(BaseModel):
    """The credentials of a provider."""

    items: list[CredentialView]
    destinations: list[DestinationView]


class VariableView(BaseModel):
    """A variable; `value` is null where it is secret."""

    name: str
    secret: bool
    value: str | None
    allowed_origins: list[str] | None = Field(
        description="The only origins to which a secret that all providers share is sent; null until its "
        "first use, and for other variables."
    )
    version: int
    updated_at: datetime


class VariableQuery(PageQuery):
    """Order and filters of a list of variables. `q` searches the name, never the value."""

    sort: Literal["name", "-name", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )


class VariablePage(PageModel[VariableView]):
    """A page of variables."""


class VariablesImported(BaseModel):
    """The names of the variables that an import has stored."""

    stored: list[str]
    created: list[str] = Field(description="Those of `stored` that did not exist before.")


class FindingView(BaseModel):
    """Something that makes a tool harder for a model to choose or to call."""

    rule: str = Field(examples=["no-description"])
    detail: str
    suggestion: str


class OperationOutcomeView(BaseModel):
    """The outcome of one operation or tool of a source."""

    source_key: str
    name: str
    outcome: Literal["accepted", "renamed", "skipped"]
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
    """Numbers of operations by outcome. `accepted` includes the renamed ones."""

    operations: int
    accepted: int
    renamed: int
    skipped: int


class ReportWarning(BaseModel):
    """A warning about a part of the source."""

    pointer: str
    detail: str


class UnreadFieldView(BaseModel):
    """A field of the source's OpenAPI document that has no effect on its tools."""

    object: str = Field(description="The OpenAPI object that has the field, such as `Info Object`.")
    field: str
    count: int = Field(description="How often the document has it.")
    pointer: str = Field(description="JSON pointer to the first one.")
    reason: str = Field(description="Why it has no effect.")


class ServerVariableView(BaseModel):
    """A variable of a server URL; without a default it needs a value in `options.server_variables`."""

    default: str | None
    enum: list[str] = Field(description="The values that it can have; empty: any.")
    description: str


class ServerView(BaseModel):
    """A server of an OpenAPI document, as `options.server` chooses it."""

    url: str = Field(examples=["https://{tenant}.example.com"])
    name: str = Field(default="", description="Its name (OpenAPI 3.2).")
    description: str
    variables: dict[str, ServerVariableView]


class ImportReport(BaseModel):
    """The report of an import."""

    counts: ReportCounts
    operations: list[OperationOutcomeView]
    warnings: list[ReportWarning]
    tokens: int = Field(default=0, description="Estimated tokens that all tools together cost a model.")
    unread: list[UnreadFieldView] = Field(
        default=[], description="Fields of an OpenAPI document that have no effect on its tools."
    )
    servers: list[ServerView] = Field(
        default_factory=list,
        description="The servers of an OpenAPI document, if it has several or their URLs have variables.",
    )
    final_url: str | None = Field(
        default=None,
        description="Where the URL of the source redirected to, without its query; null where it did not.",
    )


class NeededConsent(BaseModel):
    """A use of a credential that the source requests and its owner has not permitted."""

    slot: str
    origins: list[str] = Field(
        description="Origins of tools to which the credential of this slot is not sent."
    )
    token_url: str | None = Field(
        default=None, description="A token URL of the source, or that of its metadata, that is not used."
    )


class SourceView(BaseModel):
    """The source of a provider's tools."""

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


Compatibility = Literal["breaking", "compatible"]


class OperationChange(BaseModel):
    """How a re-import changes one operation."""

    source_key: str
    change: Literal["added", "removed", "changed"]
    compatibility: Compatibility = Field(description="Whether calls written for the old version still work.")
    pending_approval: bool = Field(
        description="Whether it needs approval because origin, token URL or security differ."
    )
    differences: list[AspectChange]


class SourceDifference(BaseModel):
    """The source keys of tools by what an import did with them, and the changes of each changed one."""

    added: list[str]
    changed: list[str]
    unchanged: list[str]
    removed: list[str]
    pending_approval: list[str] = Field(description="Source keys whose changes need approval.")
    compatibility: Compatibility
    operations: list[OperationChange]


class PendingChanges(BaseModel):
    """Changes that a refresh found and that need approval."""

    approval_id: UUID = Field(description="The approval, `GET /approvals/{id}`.")
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
    language: str | None = Field(
        default=None,
        description="The language of the texts of its tools (BCP 47): the registrar's, else its document's; "
        "null where nobody says one.",
        examples=["de"],
    )
    origins: list[str] = Field(description="The origins that its tools call.")
    tool_count: int
    version: int = Field(description="Its ETag is this number in quotes.")
    created_at: datetime
    updated_at: datetime


class ProviderQuery(PageQuery):
    """Order and filters of a list of providers. `q` searches name, title and description."""

    sort: Literal["name", "-name", "created_at", "-created_at", "updated_at", "-updated_at"] = Field(
        "name", description="Order of the items; `-` for descending."
    )
    state: ProviderState | None = Field(
        None, description="Only enabled or disabled providers; `pending`: those with changes to approve."
    )


class ProviderPage(PageModel[ProviderSummary]):
    """A page of providers."""


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
        default=None, description="Changes that `POST .../approve` applies."
    )
    executor_owner: str | None = Field(
        default=None,
        description="The id of the API key to which the executor of this name belongs, of a rotated key that "
        "of the first; null for other providers, and until an executor has registered.",
    )
    executor_keys: list[str] = Field(
        default_factory=list, description="The ids of further keys that may connect as this executor."
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
    keywords: list[str] = Field(default_factory=list)
    security: list[list[dict[str, Any]]]


class Preview(BaseModel):
    """The effect that a registration would have. Nothing was stored."""

    name: str
    title: str
    description: str
    kind: Literal["openapi", "manual", "custom"]
    protocol: str
    language: str | None = Field(
        default=None,
        description="The language of the texts of its tools (BCP 47): the registrar's, else its document's; "
        "null where nobody says one.",
        examples=["de"],
    )
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
    outcome: Literal["registered", "previewed", "unchanged", "failed"]
    status: int = Field(description="The HTTP status that a request with this entry alone would have had.")
    tool_count: int | None = None
    report: ImportReport | None = None
    needs_consent: list[NeededConsent] = Field(default_factory=list)
    problem: Problem | None = None


class BatchCounts(BaseModel):
    """The number of entries with each outcome."""

    registered: int
    previewed: int
    unchanged: int
    failed: int


class ToolsetEntry(BaseModel):
    """What became of a toolset of an import."""

    name: str | None
    outcome: ToolsetOutcome
    status: int = Field(description="The status of a request with this toolset alone.")
    problem: dict[str, Any] | None = Field(None, description="Why it was not imported (RFC 9457).")


class BatchResult(BaseModel):
    """The results of a list, in its order."""

    entries: list[BatchEntry]
    counts: BatchCounts
    toolsets: list[ToolsetEntry] | None = Field(
        None, description="Of `POST /import`: the outcomes of the toolsets of an export that has any."
    )


class ProgressView(BaseModel):
    """How far an import of a list is."""

    done: int = Field(description="Entries that have ended.")
    total: int


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
    progress: ProgressView | None = Field(
        default=None, description="Of a list while it runs, updated about once a second."
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
    keywords: list[str] = Field(default_factory=list)
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]]
    version: int
    created_at: datetime
