"""Builds the response models of the control plane from rows and import results."""

from app.credentials.model import EGRESS_SLOT, Json, security_json
from app.models import Credential, Provider, Revision, Variable
from app.protocols.call_templates import protocol_of
from app.providers.provider_store import ProviderDetails
from app.providers.schemas import (
    CredentialView,
    ImportReport,
    NeededConsent,
    OperationChange,
    OperationVerdict,
    Preview,
    ProviderSummary,
    ProviderView,
    RefreshedProvider,
    RegisteredProvider,
    SlotView,
    ToolPreview,
    VariableView,
)
from app.registration.model import RegistrationResult
from app.registration.persist import HIDDEN_OPTIONS


def summary_of(facts: ProviderDetails) -> ProviderSummary:
    """Return a provider as an item of a list."""
    return ProviderSummary(**_summary(facts.provider, facts.tool_count))


def view_of(facts: ProviderDetails) -> ProviderView:
    """Return a provider with everything but secrets."""
    view = _view(facts.provider, facts.tool_count, list(facts.credentials))
    pending = pending_of(facts.pending)
    report = None if facts.report is None else report_of(facts.report)
    return ProviderView(**view, source=facts.source, report=report, pending=pending)


def registered_of(imported: RegistrationResult, *, source: Json | None) -> RegisteredProvider:
    """Return the response to a registration."""
    return RegisteredProvider(**_registered(imported, source))


def refreshed_of(imported: RegistrationResult, *, source: Json | None) -> RefreshedProvider:
    """Return the response to a refresh."""
    view = _registered(imported, source)
    return RefreshedProvider(**view, difference=difference_of(imported), pending=pending_of(imported.pending))


def difference_of(imported: RegistrationResult) -> Json:
    """Return the difference that a refresh or a preview found, as the members of a SourceDifference."""
    diff = imported.diff
    operations = [OperationChange.model_validate(one.to_json()) for one in diff.changes]
    return {**diff.keys(), "verdict": diff.verdict, "operations": operations}


def pending_of(row: Revision | None) -> Json | None:
    """Return the pending changes of a revision as the members of a PendingChanges, or None."""
    return None if row is None else {"since": row.created_at, "operations": row.report["operations"]}


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
            security=security_json(tool.security),
        )
        for tool in imported.plan.parsed.tools
    ]
    stored = set(imported.plan.credentials)
    return Preview(
        name=provider.name,
        title=provider.title,
        description=provider.description,
        kind=provider.kind,
        protocol=provider.protocol,
        exists=imported.provider_exists,
        origins=provider.origins,
        slots=[_slot(slot, stored) for slot in provider.slots],
        tools=tools,
        difference=difference_of(imported),
        needs_consent=consents_of(imported),
        report=report_of(imported.report.to_json()),
    )


def consents_of(imported: RegistrationResult) -> list[NeededConsent]:
    """Return what the source asks of credentials and these do not do until their owner consents."""
    return [NeededConsent(**one.to_json()) for one in imported.plan.needs_consent]


def report_of(form: Json) -> ImportReport:
    """Return the model of a stored report.

    Operations are validated one by one: all at once would hold the global interpreter lock for too long.
    """
    operations = [OperationVerdict.model_validate(one) for one in form["operations"]]
    return ImportReport.model_validate({**form, "operations": operations})


def credential_of(row: Credential) -> CredentialView:
    """Return a stored credential without its values."""
    return CredentialView(
        slot=row.slot,
        kind=row.kind,
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
        version=row.version,
        updated_at=row.updated_at,
    )


def _summary(provider: Provider, tool_count: int) -> Json:
    names = ("name", "title", "description", "protocol", "kind", "enabled", "tags", "origins", "version",
             "created_at", "updated_at")  # fmt: skip
    return {**{name: getattr(provider, name) for name in names}, "tool_count": tool_count}


def _view(provider: Provider, tool_count: int, credentials: list[Credential]) -> Json:
    shown = [credential_of(row) for row in credentials if row.slot != EGRESS_SLOT]
    return {
        **_summary(provider, tool_count),
        "limits": provider.limits,
        "options": {key: value for key, value in provider.options.items() if key not in HIDDEN_OPTIONS},
        "call_template": provider.call_template,
        "slots": [_slot(slot, {row.slot for row in credentials}) for slot in provider.slots],
        "credentials": shown,
    }


def _registered(imported: RegistrationResult, source: Json | None) -> Json:
    credentials = list(imported.credentials)
    stored = {row.slot for row in credentials}
    return {
        **_view(imported.provider, imported.tool_count, credentials),
        "source": source,
        "report": report_of(imported.report.to_json()),
        "missing_slots": [slot["slot"] for slot in imported.provider.slots if slot["slot"] not in stored],
        "needs_consent": consents_of(imported),
    }


def _slot(slot: Json, stored: set[str]) -> SlotView:
    shown = {key: slot[key] for key in SlotView.model_fields if key in slot}
    return SlotView(**{**shown, "stored": slot["slot"] in stored})
