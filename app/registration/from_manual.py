"""UTCP manuals and hand-written tools -> a ToolSet, with every secret of their templates taken out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from app.credentials.model import DEFAULT_SLOT, DISCOVERY_SLOTS, GivenCredential, Json, Security
from app.credentials.slots import SlotBook, slots_of
from app.credentials.template_secrets import SplitTemplate, split_template, static_places
from app.credentials.variable_scope import MisplacedSecret, VariableScope
from app.errors import InvalidInput, UnsetVariable
from app.protocols.manuals import Manual, ManualTool
from app.registration.callable_filter import Prepare
from app.registration.model import StoredSource, ToolDraft, ToolSet
from app.registration.report import report, verdict, warning
from app.text import pointer
from app.utcp.auth import ApiKeyAuth
from app.utcp.call_template import Template
from app.utcp.names import legal_name

_TOKEN: Final = "GATEWAY_TOKEN"
_DISCOVERY: Final = DISCOVERY_SLOTS[0]
_TEMPLATE_KEYS: Final = ("tool_call_template", "tool_provider", "provider", "tool_transport")


@dataclass(frozen=True, slots=True)
class ManualReading:
    """How a manual is read. `auth_tools` supplies the tools without auth of their own.

    `fallback_slot`: what such tools may use although the manual has auth elsewhere. `protocols`: the only
    ones that its tools may have, where it was fetched; `runs_programs`: whether they may work on this
    machine. `shared` are slots of the provider's own template, where that is its tools', too; `inherited` the
    same for those tools only that have none of their own. `identity` is this gateway's own, `discovery`
    whether there is a credential for the source.
    """

    provider: str
    scope: VariableScope
    book: SlotBook
    prepare: Prepare
    at: str = ""
    auth_tools: GivenCredential | None = None
    fallback_slot: str | None = None
    protocols: frozenset[str] | None = None
    runs_programs: bool = False
    shared: tuple[str, ...] = ()
    inherited: tuple[str, ...] = ()
    identity: str = ""
    discovery: bool = False


def read_tools(manual: Manual, *, raw: Any, how: ManualReading, source: StoredSource) -> ToolSet:
    """The tools of a manual.

    Raises UnsetVariable naming all variables without a value. A tool that cannot be served is skipped with
    the reason; only in a manual that the registrar wrote is a misplaced secret variable an InvalidInput.
    """
    drafts: dict[str, ToolDraft] = {}
    verdicts = [
        verdict(fault.name or fault.pointer, pointer=fault.pointer, reason=fault.detail)
        for fault in manual.faults
    ]
    unset: list[UnsetVariable] = []
    names: set[str] = set()
    fallback = _fallback(manual, how)
    for tool in manual.tools:
        try:
            draft = _draft(tool, raw=raw, how=how, fallback=fallback, names=names, drafts=drafts)
        except UnsetVariable as error:
            unset.append(error)
            continue
        except InvalidInput as error:
            if isinstance(error, MisplacedSecret) and not how.scope.fetched:
                raise
            place = error.errors[0].pointer.removeprefix(how.at) if error.errors else tool.pointer
            verdicts.append(verdict(tool.name, pointer=place, reason=error.detail, notes=tool.notes))
            continue
        drafts[draft.source_key] = draft
        names.add(draft.name)
        verdicts.append(verdict(tool.name, name=draft.name, pointer=tool.pointer, notes=tool.notes))
    if unset:
        raise joined(unset)
    warnings = [warning(fault.detail, pointer=fault.pointer) for fault in manual.warnings]
    return ToolSet(
        kind="manual",
        tools=tuple(drafts.values()),
        report=report(verdicts, warnings=warnings),
        source=source,
        slots=tuple(slot_entries(how.book, tuple(drafts.values()), fallback=fallback[0])),
        inline=how.book.entries(),
    )


class NotServed(InvalidInput):
    """This tool or provider cannot be called by this gateway."""

    title = "The tool cannot be served"


def joined(errors: list[UnsetVariable]) -> UnsetVariable:
    """One error that names every variable without a value."""
    names = list(dict.fromkeys(name for error in errors for name in error.extra.get("variables", ())))
    faults = [fault for error in errors for fault in error.errors]
    return UnsetVariable(
        f"These variables have no value: {', '.join(names)}", errors=faults, extra={"variables": names}
    )


def open_template(
    template: Template, *, scope: VariableScope, prepare: Prepare, at: str
) -> tuple[SplitTemplate, str]:
    """A tool's template with its secrets apart, and its origin, which must not depend on arguments.

    Raises InvalidInput, pointing below `at`, for one that could never be called.
    """
    split = split_template(template.model, scope=scope, at=at)
    try:
        return split, prepare(scope.resolved(split.fields))
    except InvalidInput as error:
        faults = [replace(fault, pointer=at + fault.pointer) for fault in error.errors]
        reason = faults[0].detail if faults else error.detail
        raise NotServed(f"It could never be called: {reason}", errors=faults) from None


def tool_security(
    split: SplitTemplate, origin: str, *, book: SlotBook, fallback: str | None, optional: bool = False
) -> Security:
    """What the tool needs: its own auth, else the fallback slot; and always its template's own values."""
    static = [] if split.static is None else [_need(book.place(split.static, origin=origin))]
    if split.auth is not None:
        return [[*static, _need(book.place(split.auth, origin=origin))]]
    if fallback is None:
        return [static] if static else []
    # The alternative with the credential stands first, because the first one that is stored is taken.
    return [[*static, _need(fallback)], *([static] if optional else [])]


def closed_inputs(inputs: Json, template: Template) -> Json:
    """The inputs of a tool, which takes no others where its protocol could not tell them apart."""
    if not template.model.takes_any_argument or "additionalProperties" in inputs:
        return inputs
    return {**inputs, "additionalProperties": False}


def slot_entries(book: SlotBook, tools: tuple[ToolDraft, ...], *, fallback: str | None = None) -> list[Json]:
    """The slots of a manual, with the fingerprint of what stood in it, as the provider keeps them."""
    entries: list[Json] = []
    for inline in book.entries():
        public = inline.given.public
        shown: Json = {key: public[key] for key in ("location", "name", "token_url") if public.get(key)}
        if inline.given.kind == "static":
            shown["values"] = static_places(inline.given.secrets)
        entry: Json = {"slot": inline.slot, "kind": inline.given.kind, **shown}
        # What was placed for no tool in particular is `auth_tools`: the registrar's, not the manual's.
        entries.append({**entry, "inline": inline.fingerprint} if inline.origins else entry)
    named = {entry["slot"] for entry in entries}
    used = dict.fromkeys(slot for tool in tools for slot in sorted(slots_of(tool.security)))
    entries += ({"slot": slot, "kind": "any"} for slot in used if slot not in named)
    return [{**entry, "fallback": True} if entry["slot"] == fallback else entry for entry in entries]


def _fallback(manual: Manual, how: ManualReading) -> tuple[str | None, bool]:
    """The slot of tools without auth of their own, and whether they can do without it."""
    if how.auth_tools is not None:
        return how.book.place(how.auth_tools), True
    if how.fallback_slot is not None:
        return how.fallback_slot, True
    inline = any(tool.template.model.auth for tool in manual.tools)
    return (None, False) if inline else (DEFAULT_SLOT, True)


def _draft(
    tool: ManualTool,
    *,
    raw: Any,
    how: ManualReading,
    fallback: tuple[str | None, bool],
    names: set[str],
    drafts: Mapping[str, ToolDraft],
) -> ToolDraft:
    if tool.name in drafts:
        raise NotServed("Another tool has this name, too.")
    at = how.at + _template_pointer(raw, tool.pointer)
    _refuse_protocol(tool.template, how)
    # The manual's own template is the registrar's text, wherever its tools come from.
    scope = replace(how.scope, fetched=False) if tool.inherited else how.scope
    template = tool.template
    if template.model.passed_gateways:
        template, borrows = _of_gateway(template, how)
        fallback = (_DISCOVERY, False) if borrows else fallback
    split, origin = open_template(template, scope=scope, prepare=how.prepare, at=at)
    local = tool.name.removeprefix(f"{how.provider}.")
    return ToolDraft(
        source_key=tool.name,
        name=legal_name(local, names),
        description=tool.description,
        inputs=closed_inputs(tool.inputs, tool.template),
        outputs=tool.outputs,
        tags=tool.tags,
        call_template=split.fields,
        security=_with_shared(
            tool_security(split, origin, book=how.book, fallback=fallback[0], optional=fallback[1]),
            (*how.shared, *how.inherited) if tool.inherited else how.shared,
        ),
        origin=origin,
        average_response_size=tool.average_response_size,
        wanted=local,
    )


def _template_pointer(raw: Any, at: str) -> str:
    index = int(at.rpartition("/")[2])
    entry = raw["tools"][index]
    key = next((key for key in _TEMPLATE_KEYS if isinstance(entry.get(key), Mapping)), _TEMPLATE_KEYS[0])
    return pointer(at, key)


def _refuse_protocol(template: Template, how: ManualReading) -> None:
    if how.protocols is None:
        return
    if template.protocol not in how.protocols or (template.model.is_local and not how.runs_programs):
        raise NotServed(
            f"A fetched manual may not have tools of protocol {template.protocol}, unless the provider's "
            "allowed_communication_protocols name it."
        )


def _of_gateway(template: Template, how: ManualReading) -> tuple[Template, bool]:
    """A tool of another gateway: how it is called from here, and whether with the credential of its source.

    Its manual asks for the variable GATEWAY_TOKEN. Where there is none, what opened the manual is what opens
    its tools. Raises NotServed for a tool that would come back here.
    """
    if how.identity in template.model.passed_gateways:
        raise NotServed("The tool is this gateway's own, by way of another one.")
    auth = template.model.auth
    borrows = (
        how.discovery
        and isinstance(auth, ApiKeyAuth)
        and auth.api_key == f"Bearer ${{{_TOKEN}}}"
        and how.scope.find(_TOKEN) is None
    )
    return replace(template, model=template.model.through_gateway(keeps_auth=not borrows)), borrows


def _with_shared(security: Security, shared: tuple[str, ...]) -> Security:
    if not shared:
        return security
    needs = [_need(slot) for slot in shared]
    return [[*needs, *alternative] for alternative in security or [[]]]


def _need(slot: str) -> Json:
    return {"slot": slot, "scopes": []}
