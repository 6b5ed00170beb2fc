"""Reading a manifest: TOML, its sections, and the checks across them.

Everything that a call cannot honour is rejected, with a JSON pointer into the manifest: a section that is not
known, a session or browser, a manifest without a backend, a placeholder that nothing gives a value.
"""

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError

from app.core.errors import FieldError, InvalidDocument
from app.core.text import MAX_DEPTH, pointer, reject_unstorable
from app.formats.toolclad.argument_types import (
    ArgumentSection,
    CustomType,
    build_argument_schema,
    resolve_type,
)
from app.formats.toolclad.command_words import split_template
from app.formats.toolclad.conditions import parse_condition
from app.formats.toolclad.contract import (
    BUILT_IN_PARSERS,
    MAX_TIMEOUT_SECONDS,
    ArgumentName,
    CedarSection,
    CommandRecord,
    Conditional,
    Contract,
    ContractArgument,
    EvidenceSection,
    HttpSection,
    ManifestModel,
    McpSection,
    OutputFormat,
    OutputRule,
    RiskTier,
    Scalar,
    TemplateText,
)
from app.formats.toolclad.placeholders import (
    Reference,
    SecretReference,
    list_references,
    list_secret_names,
    parse_pieces,
)

MAX_MANIFEST_BYTES: Final = 256 << 10
INJECTED: Final = frozenset({"_scan_id", "_output_file", "_evidence_dir", "_output_dir"})
"""The names of what is injected into a command."""
_TITLE: Final = "The ToolClad manifest is not valid"
_INTERACTIVE: Final = {
    "session": "A session is interactive, and a call of a tool is not: give the tool [command].",
    "browser": "A browser is interactive, and a call of a tool is not: give the tool [http] or [command].",
}
_PLACE: Final = re.compile(r"line [0-9]+, column [0-9]+|end of document")
_BACKENDS: Final = ("http", "command", "mcp")


class ToolSection(ManifestModel):
    """`[tool]`."""

    name: str = Field(min_length=1, max_length=512)
    version: str = Field(default="", max_length=100)
    description: str = Field(min_length=1, max_length=16_384)
    binary: str = Field(default="", max_length=4_096)
    mode: Literal["oneshot"] = "oneshot"
    dispatch: Literal["exec", "callback"] = "exec"
    timeout_seconds: int = Field(default=60, ge=1, le=MAX_TIMEOUT_SECONDS)
    risk_tier: RiskTier = "low"
    human_approval: bool = False
    cedar: CedarSection = Field(default_factory=CedarSection)
    evidence: EvidenceSection = Field(default_factory=EvidenceSection)


class ConditionalSection(ManifestModel):
    """`[command.conditionals.NAME]`."""

    when: str = Field(min_length=1, max_length=2_000)
    template: TemplateText


class CommandSection(ManifestModel):
    """`[command]`."""

    exec: list[TemplateText] = Field(default_factory=list, max_length=1_000)
    template: TemplateText = ""
    executor: str = Field(default="", max_length=4_096)
    defaults: dict[ArgumentName, Scalar] = Field(default_factory=dict, max_length=200)
    mappings: dict[ArgumentName, dict[str, TemplateText]] = Field(default_factory=dict, max_length=200)
    conditionals: dict[ArgumentName, ConditionalSection] = Field(default_factory=dict, max_length=200)

    def record(self) -> CommandRecord:
        """Return the section as a contract has it: with its conditionals in the order of declaration."""
        conditionals = [
            Conditional(name=name, when=one.when, template=one.template)
            for name, one in self.conditionals.items()
        ]
        return CommandRecord(
            exec=self.exec,
            template=self.template,
            executor=self.executor,
            defaults=self.defaults,
            mappings=self.mappings,
            conditionals=conditionals,
        )


class OutputSection(ManifestModel):
    """`[output]`, and its JSON Schema `[output.schema]`."""

    format: OutputFormat = "text"
    parser: str = Field(default="", max_length=4_096)
    envelope: bool = True
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")


class ManifestSections(ManifestModel):
    """All sections of a manifest that the gateway reads."""

    tool: ToolSection
    args: dict[ArgumentName, ArgumentSection] = Field(default_factory=dict, max_length=200)
    command: CommandSection | None = None
    http: HttpSection | None = None
    mcp: McpSection | None = None
    output: OutputSection | None = None


class ProjectSections(ManifestModel):
    """`toolclad.toml`. Sections besides `[types]` belong to other programs."""

    types: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")], CustomType] = Field(
        default_factory=dict, max_length=500
    )


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest that was read: the parts of a tool, and its contract."""

    name: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    contract: Contract
    notes: tuple[str, ...] = ()


def read_project(text: bytes) -> dict[str, CustomType]:
    """Return the types of a project file, by name; raise InvalidDocument."""
    raw = _parse_toml(text)
    try:
        return ProjectSections.model_validate({"types": raw.get("types", {})}).types
    except ValidationError as error:
        raise InvalidDocument(
            "The project file toolclad.toml is not valid", errors=_list_errors(error)
        ) from None


def read_manifest(text: bytes, types: dict[str, CustomType]) -> Manifest:
    """Return a manifest whose arguments may have the types of a project; raise InvalidDocument."""
    raw = _parse_toml(text)
    reject_unstorable(raw, location="")
    _reject_beyond_json(raw, "")
    _reject_interactive(raw)
    try:
        sections = ManifestSections.model_validate(raw)
    except ValidationError as error:
        raise InvalidDocument(_TITLE, errors=_list_errors(error)) from None
    arguments = {
        name: resolve_type(section, types, location=pointer("/args", name))
        for name, section in sections.args.items()
    }
    _check_backend(sections)
    output = _get_output(sections)
    contract = Contract(
        tool=sections.tool.name,
        version=sections.tool.version,
        risk_tier=sections.tool.risk_tier,
        human_approval=sections.tool.human_approval,
        timeout_seconds=sections.tool.timeout_seconds,
        cedar=sections.tool.cedar,
        evidence=sections.tool.evidence,
        arguments={},
        output=OutputRule(format=output.format, parser=output.parser, envelope=output.envelope),
        http=sections.http,
        command=None if sections.command is None else sections.command.record(),
        mcp=sections.mcp,
    )
    inputs, described = _build_inputs(arguments)
    contract = contract.model_copy(update={"arguments": described})
    errors = list(_list_template_errors(contract, arguments))
    if errors:
        raise InvalidDocument(_TITLE, errors=errors)
    return Manifest(
        name=sections.tool.name,
        description=sections.tool.description,
        inputs=inputs,
        outputs=output.json_schema or {},
        contract=contract,
        notes=tuple(_list_notes(sections)),
    )


def _parse_toml(text: bytes) -> dict[str, Any]:
    if len(text) > MAX_MANIFEST_BYTES:
        raise InvalidDocument(
            _TITLE, errors=[FieldError("", f"Must have at most {MAX_MANIFEST_BYTES} bytes.")]
        )
    try:
        decoded = text.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError:
        raise InvalidDocument(_TITLE, errors=[FieldError("", "Must be UTF-8, as TOML requires.")]) from None
    try:
        raw = tomllib.loads(decoded)
    except tomllib.TOMLDecodeError as error:
        # The message of the parser may repeat text of the manifest; its place is enough.
        where = _place(error)
        raise InvalidDocument(_TITLE, errors=[FieldError("", f"This is not TOML 1.0{where}.")]) from None
    except (ValueError, RecursionError):
        detail = "It is nested too deeply, or has a number of too many digits."
        raise InvalidDocument(_TITLE, errors=[FieldError("", detail)]) from None
    if _exceeds_depth(raw):
        raise InvalidDocument(_TITLE, errors=[FieldError("", f"Nested more than {MAX_DEPTH} levels deep.")])
    return raw


def _reject_beyond_json(value: Any, location: str) -> None:
    """Raise InvalidDocument for what TOML has and JSON has not: dates, `inf`, `nan`, long integers."""
    if isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            _reject_beyond_json(member, pointer(location, key))
        return
    if isinstance(value, float):
        is_json = math.isfinite(value)
    else:
        is_json = isinstance(value, str) or (isinstance(value, int) and -(2**63) <= value < 2**63)
    if not is_json:
        detail = "Write a value of JSON: no date, no time, no inf or nan, and integers of 64 bits."
        raise InvalidDocument(_TITLE, errors=[FieldError(location, detail)])


def _place(error: tomllib.TOMLDecodeError) -> str:
    """Return ` (at line 3, column 5)` of the message of an error, "" where it has none."""
    _, opened, place = str(error).rpartition("(at ")
    inside = place.removesuffix(")")
    return f" (at {inside})" if opened and _PLACE.fullmatch(inside) else ""


def _exceeds_depth(raw: Any) -> bool:
    level = [raw]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return False
    return True


def _list_errors(error: ValidationError) -> list[FieldError]:
    return [
        FieldError(pointer("", *detail["loc"]), _write_sentence(detail["type"], detail["msg"]))
        for detail in error.errors(include_url=False, include_input=False, include_context=False)[:50]
    ]


def _write_sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "The gateway does not know this member of a manifest."
    return message.removeprefix("Value error, ")


def _reject_interactive(raw: dict[str, Any]) -> None:
    tool = raw.get("tool")
    mode = tool.get("mode") if isinstance(tool, dict) else None
    errors = [FieldError(f"/{name}", reason) for name, reason in _INTERACTIVE.items() if name in raw]
    if mode in _INTERACTIVE and not errors:
        errors = [FieldError("/tool/mode", _INTERACTIVE[str(mode)])]
    if errors:
        raise InvalidDocument("The gateway does not run interactive tools", errors=errors)


def _check_backend(sections: ManifestSections) -> None:
    present = [name for name in _BACKENDS if getattr(sections, name) is not None]
    command = sections.command
    if command is not None and not (command.exec or command.template or command.executor):
        detail = "Give exec, template or executor."
        raise InvalidDocument(_TITLE, errors=[FieldError("/command", detail)])
    if not present:
        location, detail = "", "Give a backend: [http], [command] or [mcp]."
        if sections.tool.dispatch == "callback":
            location = "/tool/dispatch"
            detail = "A callback is executed by the program that reads the manifest. Give a backend: [http], "
            detail += "[command] or [mcp]."
        raise InvalidDocument("The manifest has no backend", errors=[FieldError(location, detail)])
    if len(present) > 1:
        errors = [FieldError(f"/{name}", "Give one backend.") for name in present[1:]]
        raise InvalidDocument("The manifest has several backends", errors=errors)


def _get_output(sections: ManifestSections) -> OutputSection:
    output = sections.output
    if output is None:
        if sections.tool.dispatch == "callback":
            return OutputSection(format="text")
        raise InvalidDocument(_TITLE, errors=[FieldError("/output", "Must say how the output is read.")])
    if output.json_schema is None and sections.tool.dispatch == "exec":
        detail = "Give the JSON Schema of the results: it is mandatory for tools that are executed."
        raise InvalidDocument(_TITLE, errors=[FieldError("/output/schema", detail)])
    if output.parser.startswith("builtin:") and output.parser not in BUILT_IN_PARSERS:
        error = FieldError("/output/parser", "There is no such built-in parser.", sorted(BUILT_IN_PARSERS))
        raise InvalidDocument(_TITLE, errors=[error])
    if output.parser and not output.parser.startswith("builtin:") and sections.command is None:
        detail = "A parser that is a program is run with [command] only."
        raise InvalidDocument(_TITLE, errors=[FieldError("/output/parser", detail)])
    return output


def _build_inputs(
    arguments: dict[str, ArgumentSection],
) -> tuple[dict[str, Any], dict[str, ContractArgument]]:
    """Return the JSON Schema of the arguments, in the order of their positions, and those of the contract."""
    properties: dict[str, Any] = {}
    described: dict[str, ContractArgument] = {}
    errors: list[FieldError] = []
    ordered = sorted(arguments.items(), key=lambda item: item[1].position)
    for name, section in ordered:
        try:
            schema = build_argument_schema(section, location=pointer("/args", name))
        except InvalidDocument as error:
            errors += error.errors
            continue
        properties[name] = schema
        described[name] = ContractArgument(
            type=section.built_in,
            default=schema.get("default"),
            clamp=section.clamp,
        )
    if errors:
        raise InvalidDocument(_TITLE, errors=errors)
    required = [name for name, section in ordered if section.required and section.default is None]
    inputs: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        inputs["required"] = required
    return {**inputs, "additionalProperties": False}, described


def _list_template_errors(contract: Contract, arguments: dict[str, ArgumentSection]) -> Iterator[FieldError]:
    """Yield the errors of the texts with placeholders."""
    if contract.http is not None:
        yield from _list_http_errors(contract.http, arguments)
    elif contract.command is not None:
        yield from _list_command_errors(contract.command, arguments)
    elif contract.mcp is not None:
        unknown = [name for name in contract.mcp.field_map if name not in arguments]
        for name in unknown:
            yield FieldError(pointer("/mcp/field_map", name), "There is no such argument.")
        names = [contract.mcp.field_map.get(name, name) for name in arguments]
        if len(set(names)) < len(names):
            yield FieldError("/mcp/field_map", "Two arguments get the same name.")
    if contract.command is None:
        for name, section in arguments.items():
            if section.type == "credential_file":
                detail = "A file of the gateway's machine goes with [command] only."
                yield FieldError(pointer("/args", name, "type"), detail)


def _list_http_errors(http: HttpSection, arguments: dict[str, ArgumentSection]) -> Iterator[FieldError]:
    texts = [("/http/url", http.url), *((pointer("/http/headers", n), v) for n, v in http.headers.items())]
    for location, text in texts:
        for name in list_references(text):
            if name not in arguments:
                yield FieldError(location, f"The placeholder {{{name}}} is no argument.")
    authority = http.url.partition("://")[2].partition("/")[0].partition("?")[0]
    if any(not isinstance(piece, str) for piece in parse_pieces(authority)):
        yield FieldError("/http/url", "No argument and no secret chooses the host: write it out.")
    path = http.url.partition("?")[0]
    for name in list_references(path):
        section = arguments.get(name)
        if section is not None and not section.required and section.default in (None, ""):
            yield FieldError(
                pointer("/args", name), "It is part of a path: make it required, or give a default."
            )


def _list_command_errors(
    command: CommandRecord, arguments: dict[str, ArgumentSection]
) -> Iterator[FieldError]:
    flags = {f"_{name}_flags" for name in command.mappings} | ({"_scan_flags"} if command.mappings else set())
    values = {*arguments, *command.defaults, *INJECTED}
    known = values | flags | {f"_{conditional.name}" for conditional in command.conditionals}
    for name in command.mappings:
        if name not in arguments and name not in command.defaults:
            yield FieldError(pointer("/command/mappings", name), "There is no such argument.")
    for key, text in (("template", command.template), *(("exec", item) for item in command.exec)):
        yield from _list_text_errors(text, f"/command/{key}", known)
    for name, table in command.mappings.items():
        for value, text in table.items():
            location = pointer("/command/mappings", name, value)
            yield from _list_text_errors(text, location, values)
            yield from _split_errors(text, location)
    for conditional in command.conditionals:
        location = pointer("/command/conditionals", conditional.name)
        try:
            compared = parse_condition(conditional.when)
        except ValueError as error:
            yield FieldError(f"{location}/when", str(error))
            continue
        for comparison in compared:
            if comparison.name not in arguments and comparison.name not in command.defaults:
                yield FieldError(f"{location}/when", f"There is no argument {comparison.name}.")
        yield from _list_text_errors(conditional.template, f"{location}/template", values | flags)
        yield from _split_errors(conditional.template, f"{location}/template")
    if not command.exec and command.template:
        yield from _split_errors(command.template, "/command/template")
    yield from _list_program_errors(command)


def _list_program_errors(command: CommandRecord) -> Iterator[FieldError]:
    location, first = "/command/exec/0", command.exec[0] if command.exec else None
    if first is None and command.template:
        location = "/command/template"
        words = command.template.split()
        first = words[0] if words else ""
    if first is not None and (not first or any(not isinstance(one, str) for one in parse_pieces(first))):
        yield FieldError(location, "It begins with a program, which no argument can choose.")


def _list_text_errors(text: str, location: str, known: set[str]) -> Iterator[FieldError]:
    for piece in parse_pieces(text):
        if isinstance(piece, SecretReference):
            detail = "The words of a command are visible to other programs: a secret goes with [http] only."
            yield FieldError(location, detail)
        elif isinstance(piece, Reference) and piece.name not in known:
            yield FieldError(location, f"The placeholder {{{piece.name}}} has no value.")


def _split_errors(text: str, location: str) -> Iterator[FieldError]:
    try:
        split_template(text)
    except ValueError as error:
        yield FieldError(location, str(error))


def _list_notes(sections: ManifestSections) -> Iterator[str]:
    secrets = () if sections.http is None else list_secret_names(sections.http.url)
    for name in dict.fromkeys(secrets):
        yield f"The secret {name} is part of the URL, which servers write into their logs."
    if sections.tool.binary and sections.command is None:
        yield "`binary` has no effect without [command]."
    if not sections.tool.evidence.capture:
        yield "`capture = false` has no effect: the output of each call is hashed."
