"""Parses manuals of UTCP 0.x and 1.x, so that an invalid tool does not affect the others; detects the kind of
a document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.core.errors import FieldError, InvalidDocument, InvalidInput
from app.core.language_tags import read_document_language
from app.core.text import (
    NAME_LIMIT,
    clean_text,
    pointer,
    reject_unstorable,
    remove_unstorable,
)
from app.core.tool_keywords import KEYWORDS_EXTENSION, MAX_KEYWORDS, drop_repeated, read_keywords
from app.formats.json_schema.normalize import normalize_inputs, normalize_schema
from app.formats.utcp.call_template import Template
from app.protocols.call_templates import for_tool, read_template

DocumentKind = Literal[
    "manual_v1", "manual_v0", "openapi", "provider_v0", "call_template_v1", "providers_list",
    "manual_call_templates", "canonical", "unknown",
]  # fmt: skip

# The members of the released models first, then those that were only ever documented.
_TEMPLATE_KEYS: Final = ("tool_call_template", "tool_provider", "provider", "tool_transport")
_MAX_TAGS: Final = 64
_MAX_TAG_LENGTH: Final = 100
_MAX_WARNINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class ManualTool:
    """One tool of a manual. `name` is the manual's own; `inputs` and `outputs` are valid JSON Schema
    2020-12.
    """

    pointer: str
    name: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tags: tuple[str, ...]
    template: Template
    keywords: tuple[str, ...] = ()
    average_response_size: int | None = None
    notes: tuple[str, ...] = ()
    inherited: bool = False
    """Whether `template` is the manual's own template, because the tool has none that can be parsed."""


@dataclass(frozen=True, slots=True)
class RejectedTool:
    """A tool that could not be parsed, and why. `name` is None where not even that could be read."""

    pointer: str
    name: str | None
    detail: str
    errors: tuple[FieldError, ...] = ()


@dataclass(frozen=True, slots=True)
class Manual:
    """A parsed manual: `version` is its format, `declared` the version that it names, `language` the language
    tag of its texts, where it says one.
    """

    version: Literal["manual_v1", "manual_v0"]
    declared: str
    tools: tuple[ManualTool, ...]
    rejected_tools: tuple[RejectedTool, ...] = ()
    warnings: tuple[FieldError, ...] = ()
    language: str | None = None


def detect_kind(raw: Any) -> DocumentKind:
    """Return which of the kinds of document that can be registered this is, by its keys alone.

    Never raises.
    """
    if isinstance(raw, list):
        return "providers_list"
    if not isinstance(raw, Mapping):
        return "unknown"
    if isinstance(raw.get("call_template_type"), str):
        return "call_template_v1"
    if isinstance(raw.get("provider_type"), str):
        return "provider_v0"
    if "source" in raw and ("name" in raw or "options" in raw or len(raw) == 1):
        return "canonical"
    if isinstance(raw.get("manual_call_templates"), list):
        return "manual_call_templates"
    if "openapi" in raw or "swagger" in raw:
        return "openapi"
    if isinstance(raw.get("tools"), list):
        return _manual_kind(raw)
    return "openapi" if isinstance(raw.get("paths"), Mapping) else "unknown"


def read_manual(raw: Any, *, max_tools: int = 100_000, inherited: Mapping[str, Any] | None = None) -> Manual:
    """Parse a manual of either version, or a mixture of both. A tool that cannot be parsed becomes a
    RejectedTool.

    `inherited` is the call template with which the manual was fetched, for protocols whose clients call with
    it those tools that have no valid template of their own.

    Raise InvalidDocument for a document that is not a manual or has more than `max_tools` tools.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("tools"), list):
        raise InvalidDocument(
            "A manual must have a list of tools", errors=[FieldError("/tools", "Give a list.", "array")]
        )
    entries = raw["tools"]
    if len(entries) > max_tools:
        raise InvalidDocument(
            "The manual has too many tools", errors=[FieldError("/tools", f"At most {max_tools}.")]
        )
    kind = _manual_kind(raw)
    declared = raw.get("utcp_version" if kind == "manual_v1" else "version", "")
    tools: list[ManualTool] = []
    rejected: list[RejectedTool] = []
    language, warnings = read_document_language(raw)
    common, problems = read_keywords(raw.get(KEYWORDS_EXTENSION), location=pointer("", KEYWORDS_EXTENSION))
    warnings += problems
    for index, entry in enumerate(entries):
        at = pointer("/tools", index)
        try:
            tools.append(_tool(entry, at, inherited, common=common, warnings=warnings))
        except InvalidInput as error:
            rejected.append(RejectedTool(at, _readable_name(entry), error.detail, error.errors))
    version: Literal["manual_v1", "manual_v0"] = "manual_v0" if kind == "manual_v0" else "manual_v1"
    return Manual(
        version,
        str(declared)[:64],
        tuple(tools),
        tuple(rejected),
        (*warnings, *_warnings(raw, tools)),
        language,
    )


def _manual_kind(raw: Mapping[str, Any]) -> Literal["manual_v1", "manual_v0", "unknown"]:
    if "utcp_version" in raw or "manual_version" in raw:
        return "manual_v1"
    if "version" in raw:
        return "manual_v0"
    for entry in raw["tools"]:
        if isinstance(entry, Mapping) and any(key in entry for key in _TEMPLATE_KEYS):
            return "manual_v1" if _TEMPLATE_KEYS[0] in entry else "manual_v0"
    return "unknown"


def _warnings(raw: Mapping[str, Any], tools: list[ManualTool]) -> list[FieldError]:
    warnings = [
        FieldError(pointer("", key), f"UTCP clients ignore {key} at the top of a manual; it is not used.")
        for key in ("auth", "variables")
        if raw.get(key)
    ]
    seen: set[str] = set()
    for tool in tools:
        if tool.name in seen:
            warnings.append(FieldError(pointer(tool.pointer, "name"), "Another tool has the same name."))
        seen.add(tool.name)
    return warnings


def _readable_name(entry: Any) -> str | None:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    return remove_unstorable(name)[:NAME_LIMIT] if isinstance(name, str) else None


def _tool(
    entry: Any,
    at: str,
    inherited: Mapping[str, Any] | None,
    *,
    common: tuple[str, ...],
    warnings: list[FieldError],
) -> ManualTool:
    if not isinstance(entry, Mapping):
        raise InvalidDocument(
            "A tool must be an object", errors=[FieldError(at, "Give an object.", "object")]
        )
    notes: list[str] = []
    name = _name(entry, at)
    inputs_key = "inputs" if entry.get("inputs") is not None else "parameters"
    for key in (inputs_key, "outputs"):
        reject_unstorable(entry.get(key), location=pointer(at, key))
    inputs, input_notes = normalize_inputs(entry.get(inputs_key), location=pointer(at, inputs_key))
    outputs, output_notes = normalize_schema(entry.get("outputs"), location=pointer(at, "outputs"))
    template, is_own = _template_or(inherited, entry, at, notes)
    template = for_tool(template, name, at=pointer(at, _template_key(entry)))
    size = entry.get("average_response_size")
    keywords, problems = read_keywords(
        entry.get(KEYWORDS_EXTENSION), location=pointer(at, KEYWORDS_EXTENSION)
    )
    warnings += problems[: max(0, _MAX_WARNINGS - len(warnings))]
    return ManualTool(
        pointer=at,
        name=name,
        description=_description(entry.get("description"), pointer(at, "description")),
        inputs=inputs,
        outputs=outputs,
        tags=_tags(entry.get("tags"), pointer(at, "tags")),
        template=template,
        keywords=drop_repeated((*keywords, *common))[:MAX_KEYWORDS],
        average_response_size=size if isinstance(size, int) and 0 < size < 2**53 else None,
        notes=(*notes, *template.notes, *input_notes, *output_notes),
        inherited=not is_own,
    )


def _name(entry: Mapping[str, Any], at: str) -> str:
    raw = entry.get("name")
    name = (
        clean_text(raw, pointer=pointer(at, "name"), limit=NAME_LIMIT + 1).strip()
        if isinstance(raw, str)
        else ""
    )
    if not name or len(name) > NAME_LIMIT:
        detail = f"Give a name of 1 to {NAME_LIMIT} characters."
        raise InvalidDocument("The tool has no usable name", errors=[FieldError(pointer(at, "name"), detail)])
    return name


def _description(raw: Any, at: str) -> str:
    return clean_text(raw, pointer=at).strip() if isinstance(raw, str) else ""


def _tags(raw: Any, at: str) -> tuple[str, ...]:
    listed = [raw] if isinstance(raw, str) else raw if isinstance(raw, list) else []
    tags = [
        clean_text(tag, pointer=at, limit=_MAX_TAG_LENGTH).strip() for tag in listed if isinstance(tag, str)
    ]
    return tuple(dict.fromkeys(tag for tag in tags if tag))[:_MAX_TAGS]


def _template_or(
    inherited: Mapping[str, Any] | None, entry: Mapping[str, Any], at: str, notes: list[str]
) -> tuple[Template, bool]:
    """Return the call template of a tool, and whether it is its own (or else the inherited one)."""
    try:
        return _template(entry, at, notes), True
    except InvalidInput:
        if inherited is None:
            raise
    notes.append("The tool has no valid call template; the manual's own is used.")
    return read_template(inherited, at=pointer(at, _TEMPLATE_KEYS[0])), False


def _template_key(entry: Mapping[str, Any]) -> str:
    """Return the member that holds a tool's call template; that of UTCP 1.x where there is none."""
    return next((key for key in _TEMPLATE_KEYS if isinstance(entry.get(key), Mapping)), _TEMPLATE_KEYS[0])


def _template(entry: Mapping[str, Any], at: str, notes: list[str]) -> Template:
    key = _template_key(entry)
    if not isinstance(entry.get(key), Mapping):
        error = FieldError(pointer(at, key), "Give a call template.", "object")
        raise InvalidDocument("The tool has no call template", errors=[error])
    raw = entry[key]
    if isinstance(entry.get("auth"), Mapping) and raw.get("auth") is None:
        notes.append("The tool's auth was moved into its call template.")
        raw = {**raw, "auth": entry["auth"]}
    return read_template(raw, at=pointer(at, key))
