"""Builds the response models of the control plane from rows and import results."""

from collections.abc import Set as AbstractSet

from app.api.providers.schemas import (
    CredentialView,
    CustomTool,
    ImportReport,
    NeededConsent,
    OperationChange,
    OperationOutcomeView,
    PendingChanges,
    Preview,
    ProviderSummary,
    ProviderView,
    RefreshedProvider,
    RegisteredProvider,
    ReportCounts,
    ReportWarning,
    ServerView,
    SlotView,
    SourceDifference,
    SourceView,
    StaticValueView,
    ToolPreview,
    ToolsetEntry,
    UnreadFieldView,
    VariableView,
)
from app.catalog.tools import ToolView
from app.openapi.report import SourceReport
from app.protocols.call_templates import protocol_of
from app.providers.credentials.model import EGRESS_SLOT, CredentialSlot, Json, security_json
from app.providers.registration.model import RegistrationResult
from app.providers.registration.persist import HIDDEN_OPTIONS, language_of
from app.providers.registration.repository import SourceSummary, changes_of, slots_of
from app.providers.registration.store import ProviderDetails
from app.providers.transfer.toolsets import ImportedToolset
from app.security.sealed_credentials import RELEASED_KINDS
from app.storage.models import Credential, Provider, Revision, Variable


def summary_of(details: ProviderDetails) -> ProviderSummary:
    """Return a provider as an item of a list."""
    return ProviderSummary(**_summary(details.provider, details.tool_count))


def view_of(details: ProviderDetails) -> ProviderView:
    """Return a provider with everything but secrets."""
    view = _view(details.provider, details.tool_count, list(details.credentials))
    pending = pending_of(details.pending)
    report = None if details.report is None else report_of(details.report)
    return ProviderView(**view, source=_source(details.source), report=report, pending=pending)


def registered_of(imported: RegistrationResult, *, source: SourceSummary | None) -> RegisteredProvider:
    """Return the response to a registration."""
    return RegisteredProvider(**_registered(imported, source))


def refreshed_of(imported: RegistrationResult, *, source: SourceSummary | None) -> RefreshedProvider:
    """Return the response to a refresh."""
    view = _registered(imported, source)
    return RefreshedProvider(**view, difference=difference_of(imported), pending=pending_of(imported.pending))


def difference_of(imported: RegistrationResult) -> SourceDifference:
    """Return the difference that a refresh or a preview found."""
    diff = imported.diff
    operations = [OperationChange.model_validate(one.to_json()) for one in diff.changes]
    return SourceDifference.model_validate(
        {**diff.keys(), "compatibility": diff.compatibility, "operations": operations}
    )


def pending_of(row: Revision | None) -> PendingChanges | None:
    """Return the changes of a pending revision, if there is one."""
    if row is None:
        return None
    operations = [OperationChange.model_validate(change.to_json()) for change in changes_of(row)]
    return PendingChanges(approval_id=row.id, since=row.created_at, operations=operations)


def preview_of(imported: RegistrationResult) -> Preview:
    """Return the response to a preview."""
    provider = imported.provider
    tools = [
        ToolPreview(
            name=imported.names.get(tool.source_key, tool.name),
            source_key=tool.source_key,
            description=tool.description,
            method=str(tool.call_template.get("http_method") or protocol_of(tool.call_template)),
            url=str(tool.call_template.get("url") or tool.origin),
            inputs=tool.inputs,
            keywords=list(tool.keywords),
            security=security_json(tool.security),
        )
        for tool in imported.plan.parsed.tools
    ]
    stored = {*imported.plan.credentials, *(row.slot for row in imported.credentials)}
    return Preview(
        name=provider.name,
        title=provider.title,
        description=provider.description,
        kind=provider.kind,
        protocol=provider.protocol,
        language=language_of(provider),
        exists=imported.provider_exists,
        origins=provider.origins,
        slots=_list_slots(provider, stored),
        tools=tools,
        difference=difference_of(imported),
        needs_consent=consents_of(imported),
        report=report_of(imported.report),
    )


def consents_of(imported: RegistrationResult) -> list[NeededConsent]:
    """Return what the source asks of credentials and these do not do until their owner consents."""
    return [NeededConsent(**one.to_json()) for one in imported.plan.needs_consent]


def report_of(report: SourceReport) -> ImportReport:
    """Return the view of a report.

    Operations are validated one by one: all at once would hold the global interpreter lock for too long.
    """
    operations = [OperationOutcomeView.model_validate(one.to_json()) for one in report.operations]
    return ImportReport(
        counts=ReportCounts.model_validate(report.counts.to_json()),
        operations=operations,
        warnings=[ReportWarning.model_validate(one.to_json()) for one in report.warnings],
        tokens=report.tokens or 0,
        unread=[UnreadFieldView.model_validate(one.to_json()) for one in report.unread],
        servers=[ServerView.model_validate(one.to_json()) for one in report.servers],
        final_url=report.final_url,
    )


def entry_of_toolset(toolset: ImportedToolset) -> ToolsetEntry:
    """Return the outcome of a toolset of an import."""
    problem = None if toolset.error is None else toolset.error.as_problem()
    return ToolsetEntry(name=toolset.name, outcome=toolset.outcome, status=toolset.status, problem=problem)


def credential_of(row: Credential) -> CredentialView:
    """Return a stored credential without its values."""
    return CredentialView(
        slot=row.slot,
        kind=RELEASED_KINDS.get(row.kind, row.kind),
        exact_kind=row.kind,
        public={key: value for key, value in row.public.items() if value is not None},
        fingerprint=row.fingerprint,
        version=row.version,
        allowed_origins=row.allowed_origins,
        variables=row.variable_names,
        created_at=row.created_at,
        updated_at=row.updated_at,
        last_used_at=row.last_used_at,
    )


def variable_of(row: Variable) -> VariableView:
    """Return a variable, without its value where it is secret."""
    return VariableView(
        name=row.name,
        secret=row.secret,
        value=None if row.secret else row.value,
        allowed_origins=row.allowed_origins,
        version=row.version,
        updated_at=row.updated_at,
    )


def _summary(provider: Provider, tool_count: int) -> Json:
    names = ("name", "title", "description", "protocol", "kind", "enabled", "tags", "origins", "version",
             "created_at", "updated_at")  # fmt: skip
    language = language_of(provider)
    return {
        **{name: getattr(provider, name) for name in names},
        "language": language,
        "tool_count": tool_count,
    }


def _view(provider: Provider, tool_count: int, credentials: list[Credential]) -> Json:
    views = [credential_of(row) for row in credentials if row.slot != EGRESS_SLOT]
    return {
        **_summary(provider, tool_count),
        "limits": provider.limits,
        "options": {key: value for key, value in provider.options.items() if key not in HIDDEN_OPTIONS},
        "call_template": provider.call_template,
        "slots": _list_slots(provider, {row.slot for row in credentials}),
        "credentials": views,
        "executor_owner": provider.executor_owner,
        "executor_keys": provider.executor_keys,
    }


def _registered(imported: RegistrationResult, source: SourceSummary | None) -> Json:
    credentials = list(imported.credentials)
    stored = {row.slot for row in credentials}
    return {
        **_view(imported.provider, imported.tool_count, credentials),
        "source": _source(source),
        "report": report_of(imported.report),
        "missing_slots": [slot.name for slot in slots_of(imported.provider) if slot.name not in stored],
        "needs_consent": consents_of(imported),
    }


def custom_tool_of(tool: ToolView) -> CustomTool:
    """Return the response to the creation of a custom tool."""
    return CustomTool(
        name=tool.name,
        alias=tool.alias,
        provider=tool.provider,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tool.tags,
        keywords=tool.keywords,
        call_template=tool.call_template,
        security=security_json(tool.security),
        version=tool.version,
        created_at=tool.created_at,
    )


def _source(source: SourceSummary | None) -> SourceView | None:
    if source is None:
        return None
    return SourceView(
        format=source.format,
        url=source.url,
        media_type=source.media_type,
        sha256=source.sha256,
        bytes=source.size,
        root=source.root,
        overlay_sha256=source.overlay_sha256,
        follow_references=source.follow_references,
    )


def _list_slots(provider: Provider, stored: AbstractSet[str]) -> list[SlotView]:
    has_certificate = provider.options.get("client_certificate") is not None
    return [
        _slot(slot, stored=has_certificate if slot.kind == "mutual_tls" else slot.name in stored)
        for slot in slots_of(provider)
    ]


def _slot(slot: CredentialSlot, *, stored: bool) -> SlotView:
    values = [StaticValueView.model_validate(value.to_json()) for value in slot.values]
    return SlotView(
        slot=slot.name,
        kind="any"
        if slot.kind in RELEASED_KINDS
        else "unsupported"
        if slot.kind == "mutual_tls"
        else slot.kind,
        exact_kind=slot.kind,
        scheme=slot.scheme,
        location=slot.location,
        name=slot.parameter,
        http_scheme=slot.http_scheme,
        token_url=slot.token_url,
        metadata_url=slot.metadata_url,
        scopes=list(slot.scopes or ()),
        description=slot.description,
        values=values or None,
        stored=stored,
    )
