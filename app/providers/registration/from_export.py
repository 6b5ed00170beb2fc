"""The tools of an export -> a ParsedSource. Templates with secrets are rejected, and nothing is fetched."""

from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from app.core.errors import FieldError, InvalidInput
from app.core.schemas import Keywords, ShortText, StrictModel, Text
from app.core.text import pointer
from app.formats.json_schema.normalize import normalize_inputs, normalize_schema
from app.formats.utcp.auth import AUTH_SCHEME
from app.openapi.report import OperationOutcome, SourceReport, SourceWarning
from app.protocols.call_templates import read_template
from app.protocols.origins import template_origin
from app.protocols.registry import DEFAULT
from app.protocols.variables import variables_of, with_variables
from app.providers.credentials.input_models import SlotName, Tags
from app.providers.credentials.model import CredentialSlot, Json, SlotRequirement
from app.providers.credentials.template_secrets import has_plaintext_secrets
from app.providers.credentials.validation_errors import validated
from app.providers.credentials.variable_scope import VariableScope
from app.providers.registration.model import ParsedSource, RegistrationSource, ToolDraft
from app.security.sealed_credentials import CREDENTIAL_KINDS

_SLOT_KINDS: Final = (*CREDENTIAL_KINDS, "mutual_tls", "any", "unsupported")


class NeedForm(StrictModel):
    """One slot of a tool's security."""

    slot: SlotName
    scopes: Annotated[list[ShortText], Field(max_length=200)] = Field(default_factory=list)
    certificate: bool = False


class ValueLocationForm(StrictModel):
    """A value of a slot of kind `static`: where it belongs."""

    location: Annotated[str, Field(pattern="^(header|query|userinfo|field)$")]
    name: Annotated[str, Field(min_length=1, max_length=256)]


class SlotForm(StrictModel):
    """A slot of a provider."""

    slot: SlotName
    kind: Annotated[str, Field(pattern=f"^({'|'.join(_SLOT_KINDS)})$")]
    scheme: ShortText | None = None
    location: Annotated[str, Field(pattern="^(header|query|cookie)$")] | None = None
    name: ShortText | None = None
    http_scheme: Annotated[str, Field(pattern=AUTH_SCHEME)] | None = None
    token_url: Annotated[str, Field(max_length=2048)] | None = None
    metadata_url: Annotated[str, Field(max_length=2048)] | None = None
    scopes: Annotated[list[ShortText], Field(max_length=1000)] | None = None
    description: Text | None = None
    fallback: bool | None = None
    values: Annotated[list[ValueLocationForm], Field(max_length=1000)] | None = None


class ToolForm(StrictModel):
    """A tool of an export."""

    source_key: Annotated[str, Field(min_length=1, max_length=2000)]
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    description: Text = ""
    inputs: dict[str, Any] = Field(default_factory=dict)
    outputs: dict[str, Any] = Field(default_factory=dict)
    tags: Tags = Field(default_factory=list)
    keywords: Keywords = Field(default_factory=list)
    call_template: dict[str, Any]
    security: Annotated[list[list[NeedForm]], Field(max_length=100)] = Field(default_factory=list)
    custom: bool = False


def from_export(value: Json, *, scope: VariableScope, at: str) -> ParsedSource:
    """Return the tools and slots of one provider; raise InvalidInput with pointers below `at`.

    A tool is stored although a variable of it has no value, because a provider's own can be set only once it
    is there; the report names it.
    """
    slots: list[CredentialSlot] = []
    for index, slot in enumerate(value["slots"]):
        form = validated(SlotForm, slot, at=pointer(at, "slots", index))
        slots.append(CredentialSlot.from_json(form.model_dump(exclude_none=True)))
    tools = [
        _read_draft(tool, scope=scope, tool_pointer=pointer(at, "tools", n))
        for n, tool in enumerate(value["tools"])
    ]
    keys = {tool.source_key for tool in tools}
    if len(keys) < len(tools):
        raise InvalidInput(
            "Two tools have one key.", errors=[FieldError(pointer(at, "tools"), "Give each once.")]
        )
    unset = {tool.source_key: _find_unset(tool.call_template, scope) for tool in tools}
    outcomes = (
        OperationOutcome.of(tool.source_key, tool.name, pointer="", notes=unset[tool.source_key])
        for tool in tools
    )
    missing = dict.fromkeys(note for notes in unset.values() for note in notes)
    return ParsedSource(
        kind="custom" if all(tool.is_custom for tool in tools) else "manual",
        format="export",
        source=RegistrationSource("tools", at=at),
        tools=tuple(tools),
        report=SourceReport(tuple(outcomes), tuple(SourceWarning(note) for note in missing)),
        slots=tuple(slots),
    )


def open_fields(raw: Any, *, at: str) -> Json:
    """Return a template that holds no secret as it is stored; raise InvalidInput for any other."""
    template = read_template(raw, at=at).model
    if has_plaintext_secrets(template):
        problem = FieldError(at, "Register it instead, or store its secrets as credentials.")
        raise InvalidInput(
            "A template of an export holds no auth, no headers but plain ones and no environment.",
            errors=[problem],
        )
    return {key: value for key, value in template.stored().items() if key != "headers" or value}


def _read_draft(raw: Any, *, scope: VariableScope, tool_pointer: str) -> ToolDraft:
    form = validated(ToolForm, raw, at=tool_pointer)
    template_pointer = pointer(tool_pointer, "call_template")
    fields = open_fields({"call_template_type": DEFAULT, **form.call_template}, at=template_pointer)
    fields.pop("name", None)
    fields = _rewrite_variables(fields, scope=scope, template_pointer=template_pointer)
    resolved = scope.resolved(fields)
    origin = "" if variables_of(resolved) else _read_origin(resolved, template_pointer)
    inputs, _ = normalize_inputs(form.inputs, location=pointer(tool_pointer, "inputs"))
    outputs, _ = normalize_schema(form.outputs, location=pointer(tool_pointer, "outputs"))
    return ToolDraft(
        source_key=form.source_key,
        name=form.name,
        description=form.description,
        inputs=inputs,
        outputs=outputs,
        tags=tuple(form.tags),
        call_template=fields,
        security=tuple(
            tuple(
                SlotRequirement(need.slot, tuple(need.scopes), certificate=need.certificate)
                for need in alternative
            )
            for alternative in form.security
        ),
        origin=origin,
        keywords=tuple(form.keywords),
        is_custom=form.custom,
        source_name=form.name,
    )


def _read_origin(fields: Json, template_pointer: str) -> str:
    try:
        return template_origin(fields)
    except InvalidInput as error:
        problems = [replace(problem, pointer=template_pointer + problem.pointer) for problem in error.errors]
        raise InvalidInput(error.detail, errors=problems) from None


def _rewrite_variables(fields: Json, *, scope: VariableScope, template_pointer: str) -> Json:
    """Return the template with its variables as they are stored; raise MisplacedSecret for a secret one."""

    def name_variable(name: str) -> str:
        known = scope.find(name)
        return f"${{{name if known is None else known.name}}}"

    if "parameters" not in fields:
        scope.reject_secrets(fields, at=template_pointer)
    spelled: Json = with_variables(fields, name_variable)
    return spelled


def _find_unset(fields: Json, scope: VariableScope) -> list[str]:
    return [
        f"The variable {name} has no value: set it before calling."
        for name in variables_of(fields)
        if scope.find(name) is None
    ]
