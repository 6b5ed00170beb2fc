"""UTCP manuals and custom tools -> a ParsedSource, with every secret of their templates taken out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.credentials.model import (
    DEFAULT_SLOT,
    DISCOVERY_SLOTS,
    CredentialDraft,
    CredentialSlot,
    Json,
    SecurityRequirements,
    SlotRequirement,
    slot_names,
)
from app.credentials.slots import SlotAllocator
from app.credentials.template_secrets import SplitTemplate, split_template, static_locations
from app.credentials.variable_scope import MisplacedSecret, VariableScope
from app.errors import InvalidInput, UnsetVariable
from app.protocols.manuals import Manual, ManualTool
from app.registration.model import ParsedSource, RegistrationSource, ToolDraft
from app.registration.report import SourceReport, SourceWarning, ToolVerdict
from app.registration.tool_checks import Prepare
from app.text import pointer
from app.utcp.auth import ApiKeyAuth
from app.utcp.call_template import Template
from app.utcp.names import legal_name

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

    Raises UnsetVariable naming all variables without a value. A tool that cannot be served is skipped with
    the reason; only in a manual that the registrar wrote is a misplaced secret variable an InvalidInput.
    """
    drafts: dict[str, ToolDraft] = {}
    verdicts = [
        ToolVerdict.of(fault.name or fault.pointer, pointer=fault.pointer, reason=fault.detail)
        for fault in manual.rejected_tools
    ]
    unset: list[UnsetVariable] = []
    names: set[str] = set()
    fallback = _fallback(manual, rules)
    for tool in manual.tools:
        try:
            draft = _draft(tool, raw=raw, rules=rules, fallback=fallback, names=names, drafts=drafts)
        except UnsetVariable as error:
            unset.append(error)
            continue
        except InvalidInput as error:
            if isinstance(error, MisplacedSecret) and not rules.scope.is_fetched:
                raise
            at = error.errors[0].pointer.removeprefix(rules.at) if error.errors else tool.pointer
            verdicts.append(ToolVerdict.of(tool.name, pointer=at, reason=error.detail, notes=tool.notes))
            continue
        drafts[draft.source_key] = draft
        names.add(draft.name)
        verdicts.append(ToolVerdict.of(tool.name, draft.name, pointer=tool.pointer, notes=tool.notes))
    if unset:
        raise joined(unset)
    warnings = tuple(SourceWarning(fault.detail, fault.pointer) for fault in manual.warnings)
    return ParsedSource(
        kind="manual",
        format="manual",
        source=source,
        tools=tuple(drafts.values()),
        report=SourceReport(tuple(verdicts), warnings),
        slots=slots_of_tools(rules.allocator, drafts.values(), fallback=fallback[0]),
        inline=rules.allocator.assignments,
    )


class NotServed(InvalidInput):
    """This tool or provider cannot be called by this gateway."""

    title = "The tool cannot be served"


def joined(errors: list[UnsetVariable]) -> UnsetVariable:
    """Return one error that names every variable without a value."""
    names = list(dict.fromkeys(name for error in errors for name in error.extra.get("variables", ())))
    faults = [fault for error in errors for fault in error.errors]
    return UnsetVariable(
        f"These variables have no value: {', '.join(names)}", errors=faults, extra={"variables": names}
    )


def open_template(
    template: Template, *, scope: VariableScope, prepare: Prepare, at: str
) -> tuple[SplitTemplate, str]:
    """Return a tool's template with its secrets apart, and its origin, which must not depend on arguments.

    Raises NotServed, pointing below `at`, for one that could never be called.
    """
    split = split_template(template.model, scope=scope, at=at)
    try:
        return split, prepare(scope.resolved(split.fields))
    except InvalidInput as error:
        faults = [replace(fault, pointer=at + fault.pointer) for fault in error.errors]
        reason = faults[0].detail if faults else error.detail
        raise NotServed(f"It could never be called: {reason}", errors=faults) from None


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


def _fallback(manual: Manual, rules: ManualRules) -> tuple[str | None, bool]:
    """Return the slot of tools without auth of their own, and whether they can do without it."""
    if rules.auth_tools is not None:
        return rules.allocator.assign(rules.auth_tools), True
    if rules.fallback_slot is not None:
        return rules.fallback_slot, True
    inline = any(tool.template.model.auth for tool in manual.tools)
    return (None, False) if inline else (DEFAULT_SLOT, True)


def _draft(
    tool: ManualTool,
    *,
    raw: Any,
    rules: ManualRules,
    fallback: tuple[str | None, bool],
    names: set[str],
    drafts: Mapping[str, ToolDraft],
) -> ToolDraft:
    if tool.name in drafts:
        raise NotServed("Another tool has this name, too.")
    at = rules.at + _template_pointer(raw, tool.pointer)
    _check_protocol(tool.template, rules)
    # The manual's own template is the registrar's text, wherever its tools come from.
    scope = replace(rules.scope, is_fetched=False) if tool.inherited else rules.scope
    template = tool.template
    if template.model.passed_gateways:
        template, uses_discovery = _of_gateway(template, rules)
        fallback = (_DISCOVERY, False) if uses_discovery else fallback
    split, origin = open_template(template, scope=scope, prepare=rules.prepare, at=at)
    local = tool.name.removeprefix(f"{rules.provider}.")
    security = tool_security(
        split, origin, allocator=rules.allocator, fallback=fallback[0], optional=fallback[1]
    )
    shared = (*rules.shared_slots, *rules.inherited_slots) if tool.inherited else rules.shared_slots
    return ToolDraft(
        source_key=tool.name,
        name=legal_name(local, names),
        description=tool.description,
        inputs=strict_inputs(tool.inputs, tool.template),
        outputs=tool.outputs,
        tags=tool.tags,
        call_template=split.fields,
        security=_with_shared(security, shared),
        origin=origin,
        average_response_size=tool.average_response_size,
        source_name=local,
    )


def _template_pointer(raw: Any, at: str) -> str:
    index = int(at.rpartition("/")[2])
    entry = raw["tools"][index]
    key = next((key for key in _TEMPLATE_KEYS if isinstance(entry.get(key), Mapping)), _TEMPLATE_KEYS[0])
    return pointer(at, key)


def _check_protocol(template: Template, rules: ManualRules) -> None:
    if rules.protocols is None:
        return
    if template.protocol not in rules.protocols or (template.model.is_local and not rules.allows_local):
        raise NotServed(
            f"A fetched manual may not have tools of protocol {template.protocol}, unless the provider's "
            "allowed_communication_protocols name it."
        )


def _of_gateway(template: Template, rules: ManualRules) -> tuple[Template, bool]:
    """Return how a tool of another gateway is called, and whether with the credential of its source.

    Its manual names the variable GATEWAY_TOKEN. Where that has no value, the credential that fetched the
    manual is used for its tools. Raises NotServed for a tool that would come back here.
    """
    if rules.identity in template.model.passed_gateways:
        raise NotServed("The tool is this gateway's own, by way of another one.")
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
