"""UTCP manuals and custom tools -> a ParsedSource, whose templates contain no secret."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.core.errors import InvalidInput, UnsetVariable
from app.core.text import pointer
from app.formats.utcp.auth import ApiKeyAuth
from app.formats.utcp.call_template import Template
from app.formats.utcp.names import make_legal_name
from app.openapi.report import OperationOutcome, SourceReport, SourceWarning
from app.protocols.manuals import Manual, ManualTool, RejectedTool
from app.providers.credentials.model import (
    DEFAULT_SLOT,
    DISCOVERY_SLOTS,
    CredentialDraft,
    CredentialSlot,
    Json,
    SecurityRequirements,
    SlotRequirement,
    slot_names,
)
from app.providers.credentials.slots import SlotAllocator
from app.providers.credentials.template_secrets import SplitTemplate, split_template, static_locations
from app.providers.credentials.variable_scope import MisplacedSecret, VariableScope
from app.providers.registration.model import ParsedSource, RegistrationSource, ToolDraft
from app.providers.registration.tool_checks import Prepare

_TOKEN: Final = "GATEWAY_TOKEN"
_DISCOVERY: Final = DISCOVERY_SLOTS[0]
_TEMPLATE_KEYS: Final = ("tool_call_template", "tool_provider", "provider", "tool_transport")


@dataclass(frozen=True, slots=True)
class ManualRules:
    """How the tools of a manual are read.

    `auth_tools` supplies the tools without auth of their own; `fallback_slot` is what such tools may use
    although the manual has auth elsewhere. `protocols` are the only ones that its tools may have, None for
    any; `allows_local`: whether they may work on this machine. `shared_slots` are those of the provider's own
    template, where that is its tools', too; `inherited_slots` the same for those tools only that have no
    template of their own. `identity` is this gateway's own; `has_discovery_credential`: whether the source
    was fetched with one. `at` is the JSON pointer of the manual in the request.
    """

    provider: str
    scope: VariableScope
    allocator: SlotAllocator
    prepare: Prepare
    at: str = ""
    auth_tools: CredentialDraft | None = None
    fallback_slot: str | None = None
    protocols: frozenset[str] | None = None
    allows_local: bool = False
    shared_slots: tuple[str, ...] = ()
    inherited_slots: tuple[str, ...] = ()
    identity: str = ""
    has_discovery_credential: bool = False


def from_manual(manual: Manual, *, raw: Any, rules: ManualRules, source: RegistrationSource) -> ParsedSource:
    """Return the tools of a manual; `raw` is its JSON value, `source` what is stored of it.

    A tool that is not supported, or names a variable without a value, is skipped with the reason. Raises
    UnsetVariable, naming all variables without a value, where no tool is left; and MisplacedSecret where none
    is left of a manual that the registrar wrote.
    """
    drafts: dict[str, ToolDraft] = {}
    outcomes = [_report_rejected(rejected) for rejected in manual.rejected_tools]
    unset: dict[str, UnsetVariable] = {}
    misplaced: list[MisplacedSecret] = []
    names: set[str] = set()
    fallback = _choose_fallback(manual, rules)
    for tool in manual.tools:
        try:
            draft = _build_draft(tool, raw=raw, rules=rules, fallback=fallback, names=names, drafts=drafts)
        except InvalidInput as error:
            if isinstance(error, UnsetVariable):
                unset[tool.name] = error
            elif isinstance(error, MisplacedSecret) and not rules.scope.is_fetched:
                misplaced.append(error)
            error_pointer = error.errors[0].pointer.removeprefix(rules.at) if error.errors else tool.pointer
            outcomes.append(
                OperationOutcome.of(tool.name, pointer=error_pointer, reason=error.detail, notes=tool.notes)
            )
            continue
        drafts[draft.source_key] = draft
        names.add(draft.name)
        outcomes.append(OperationOutcome.of(tool.name, draft.name, pointer=tool.pointer, notes=tool.notes))
    if unset and not drafts:
        raise joined(unset.values())
    if misplaced and not drafts:
        raise misplaced[0]
    warnings = tuple(SourceWarning(warning.detail, warning.pointer) for warning in manual.warnings)
    return ParsedSource(
        kind="manual",
        format="manual",
        source=source,
        tools=tuple(drafts.values()),
        report=SourceReport(tuple(outcomes), warnings),
        language=manual.language,
        slots=slots_of_tools(rules.allocator, drafts.values(), fallback=fallback[0]),
        inline=rules.allocator.assignments,
        unset_variables=unset,
    )


def _report_rejected(rejected: RejectedTool) -> OperationOutcome:
    """Return the entry of the report for a tool that cannot be parsed: what is wrong, and where."""
    where, reason = rejected.pointer, rejected.detail
    if rejected.errors:
        where = rejected.errors[0].pointer
        reason = f"{reason.rstrip('.')}: {rejected.errors[0].detail}"
    return OperationOutcome.of(rejected.name or rejected.pointer, pointer=where, reason=reason)


class UnsupportedTool(InvalidInput):
    """This gateway cannot call the tool."""

    title = "The tool is not supported"


def joined(errors: Collection[UnsetVariable]) -> UnsetVariable:
    """Return one error that names every variable without a value."""
    names = list(dict.fromkeys(name for error in errors for name in error.extra.get("variables", ())))
    problems = [problem for error in errors for problem in error.errors]
    return UnsetVariable(
        f"These variables have no value: {', '.join(names)}", errors=problems, extra={"variables": names}
    )


def open_template(
    template: Template, *, scope: VariableScope, prepare: Prepare, at: str
) -> tuple[SplitTemplate, str]:
    """Return a tool's template with its secrets apart, and its origin, which must not depend on arguments.

    Raises UnsupportedTool, pointing below `at`, for one that could never be called.
    """
    split = split_template(template.model, scope=scope, at=at)
    try:
        return split, prepare(scope.resolved(split.fields))
    except InvalidInput as error:
        problems = [replace(problem, pointer=at + problem.pointer) for problem in error.errors]
        reason = problems[0].detail if problems else error.detail
        raise UnsupportedTool(f"It could never be called: {reason}", errors=problems) from None


def tool_security(
    split: SplitTemplate,
    origin: str,
    *,
    allocator: SlotAllocator,
    fallback: str | None,
    optional: bool = False,
) -> SecurityRequirements:
    """Return what a tool needs: its own auth, else the fallback slot; always its template's own values."""
    static = () if split.static is None else (SlotRequirement(allocator.assign(split.static, origin=origin)),)
    if split.auth is not None:
        return ((*static, SlotRequirement(allocator.assign(split.auth, origin=origin))),)
    if fallback is None:
        return (static,) if static else ()
    # The alternative with the credential stands first, because the first one that is stored is taken.
    return ((*static, SlotRequirement(fallback)), *((static,) if optional else ()))


def strict_inputs(inputs: Json, template: Template) -> Json:
    """Return the inputs of a tool, which takes no others where its protocol could not tell them apart."""
    if not template.model.takes_any_argument or "additionalProperties" in inputs:
        return inputs
    return {**inputs, "additionalProperties": False}


def slots_of_tools(
    allocator: SlotAllocator, tools: Iterable[ToolDraft], *, fallback: str | None = None
) -> tuple[CredentialSlot, ...]:
    """Return the slots of tools from templates: those that were assigned, then the others that they need."""
    slots: dict[str, CredentialSlot] = {}
    for assignment in allocator.assignments:
        credential = assignment.credential
        slots[assignment.slot] = CredentialSlot(
            assignment.slot,
            credential.kind,
            location=credential.public.get("location"),
            parameter=credential.public.get("name"),
            token_url=credential.public.get("token_url"),
            values=static_locations(credential.secrets) if credential.kind == "static" else (),
            # What was assigned for no tool in particular is `auth_tools`: the registrar's, not the manual's.
            fingerprint=assignment.fingerprint if assignment.origins else None,
        )
    for tool in tools:
        for name in sorted(slot_names(tool.security)):
            slots.setdefault(name, CredentialSlot(name, "any"))
    if fallback is not None and fallback in slots:
        slots[fallback] = replace(slots[fallback], is_fallback=True)
    return tuple(slots.values())


def _choose_fallback(manual: Manual, rules: ManualRules) -> tuple[str | None, bool]:
    """Return the slot of tools without auth of their own, and whether they can do without it."""
    if rules.auth_tools is not None:
        return rules.allocator.assign(rules.auth_tools), True
    if rules.fallback_slot is not None:
        return rules.fallback_slot, True
    inline = any(tool.template.model.auth for tool in manual.tools)
    return (None, False) if inline else (DEFAULT_SLOT, True)


def _build_draft(
    tool: ManualTool,
    *,
    raw: Any,
    rules: ManualRules,
    fallback: tuple[str | None, bool],
    names: set[str],
    drafts: Mapping[str, ToolDraft],
) -> ToolDraft:
    if tool.name in drafts:
        raise UnsupportedTool("Another tool has this name, too.")
    template_pointer = rules.at + _find_template_pointer(raw, tool.pointer)
    _check_protocol(tool.template, rules)
    # The manual's own template is the registrar's text, wherever its tools come from.
    scope = replace(rules.scope, is_fetched=False) if tool.inherited else rules.scope
    template = tool.template
    if template.model.passed_gateways:
        template, uses_discovery = _of_gateway(template, rules)
        fallback = (_DISCOVERY, False) if uses_discovery else fallback
    split, origin = open_template(template, scope=scope, prepare=rules.prepare, at=template_pointer)
    local = tool.name.removeprefix(f"{rules.provider}.")
    security = tool_security(
        split, origin, allocator=rules.allocator, fallback=fallback[0], optional=fallback[1]
    )
    shared = (*rules.shared_slots, *rules.inherited_slots) if tool.inherited else rules.shared_slots
    return ToolDraft(
        source_key=tool.name,
        name=make_legal_name(local, names),
        description=tool.description,
        inputs=strict_inputs(tool.inputs, tool.template),
        outputs=tool.outputs,
        tags=tool.tags,
        call_template=split.fields,
        security=_with_shared(security, shared),
        origin=origin,
        average_response_size=tool.average_response_size,
        keywords=tool.keywords,
        source_name=local,
    )


def _find_template_pointer(raw: Any, tool_pointer: str) -> str:
    index = int(tool_pointer.rpartition("/")[2])
    entry = raw["tools"][index]
    key = next((key for key in _TEMPLATE_KEYS if isinstance(entry.get(key), Mapping)), _TEMPLATE_KEYS[0])
    return pointer(tool_pointer, key)


def _check_protocol(template: Template, rules: ManualRules) -> None:
    if rules.protocols is None:
        return
    if template.protocol not in rules.protocols or (template.model.is_local and not rules.allows_local):
        raise UnsupportedTool(
            f"A fetched manual may not have tools of protocol {template.protocol}, unless the provider's "
            "allowed_communication_protocols name it."
        )


def _of_gateway(template: Template, rules: ManualRules) -> tuple[Template, bool]:
    """Return how a tool of another gateway is called, and whether with the credential of its source.

    Its manual names the variable GATEWAY_TOKEN. Where that has no value, the credential that fetched the
    manual is used for its tools. Raises UnsupportedTool for a tool that would come back here.
    """
    if rules.identity in template.model.passed_gateways:
        raise UnsupportedTool("The tool is this gateway's own, by way of another one.")
    auth = template.model.auth
    uses_discovery = (
        rules.has_discovery_credential
        and isinstance(auth, ApiKeyAuth)
        and auth.api_key == f"Bearer ${{{_TOKEN}}}"
        and rules.scope.find(_TOKEN) is None
    )
    changed = template.model.through_gateway(keeps_auth=not uses_discovery)
    return replace(template, model=changed), uses_discovery


def _with_shared(security: SecurityRequirements, shared: tuple[str, ...]) -> SecurityRequirements:
    if not shared:
        return security
    needs = tuple(SlotRequirement(slot) for slot in shared)
    return tuple((*needs, *alternative) for alternative in security or ((),))
