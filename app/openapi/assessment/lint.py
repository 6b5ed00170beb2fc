"""Checks how easily a model can choose and call a tool; each finding has a suggestion."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from app.openapi.assessment.slim import SlimmedTool
from app.openapi.model import Json

MAX_INPUTS: Final = 20
LONG_ENUM: Final = 100
_MIN_DESCRIPTION: Final = 12
# Finding similar names takes a text per letter of each name; beyond this many tools only equal forms are
# found.
_MAX_COMPARED: Final = 5_000
_MIN_COMPARED_LENGTH: Final = 6
_MIN_UNDESCRIBED: Final = 3
_MAX_DEPTH: Final = 12
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_REF: Final = "#/$defs/"


class LintableTool(Protocol):
    """The parts of a tool that are checked."""

    @property
    def source_key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def inputs(self) -> Json: ...
    @property
    def deprecated(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One thing that makes a tool harder for a model to choose or to call, and what to do about it."""

    rule: str
    detail: str
    suggestion: str

    def to_json(self) -> Json:
        """Return the finding as a member of the `lint` of an outcome."""
        return {"rule": self.rule, "detail": self.detail, "suggestion": self.suggestion}


class Linter:
    """Checks the tools of one source, whose names and descriptions it compares with each other."""

    def __init__(self, tools: Sequence[LintableTool]) -> None:
        self._similar = _find_similar_names(tools)
        self._descriptions = Counter(tool.description for tool in tools)
        # By identity, so each entry keeps its node alive.
        self._enums: dict[int, tuple[Any, int]] = {}

    def list_findings(self, tool: LintableTool, slimmed: SlimmedTool | None) -> tuple[LintFinding, ...]:
        """Return the findings on a tool; `slimmed` is its slimmed form, if it has one."""
        return tuple(
            finding
            for finding in (
                self._check_description(tool),
                self._check_name(tool),
                _check_inputs(tool),
                _check_undescribed(tool),
                self._check_enum(tool),
                _check_size(slimmed),
                _check_deprecation(tool),
            )
            if finding is not None
        )

    def _check_description(self, tool: LintableTool) -> LintFinding | None:
        text = tool.description.strip()
        if not text or text == tool.source_key:
            advice = "Say in one sentence what it does and when to use it; an overlay can add it."
            return LintFinding("no-description", "It has no description.", advice)
        if len(text) < _MIN_DESCRIPTION and len(text.split()) < 3:
            advice = "Say what it does, to what, and when to use it."
            return LintFinding("short-description", f"Its description is only {text!r}.", advice)
        same = self._descriptions[tool.description] - 1
        if same:
            advice = "Say how it differs from the others."
            return LintFinding(
                "same-description", f"{_count_tools(same)} described in the same words.", advice
            )
        return None

    def _check_name(self, tool: LintableTool) -> LintFinding | None:
        others = self._similar.get(tool.source_key)
        if not others:
            return None
        names = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
        advice = "Use names that differ in a word, or disable those that are not needed."
        return LintFinding("similar-name", f"Its name is easily confused with {names}.", advice)

    def _check_enum(self, tool: LintableTool) -> LintFinding | None:
        longest = max((self._measure_longest_enum(part) for part in _list_parts(tool.inputs)), default=0)
        if longest < LONG_ENUM:
            return None
        advice = "Accept the values as text with a pattern or an example, or offer a tool that looks them up."
        return LintFinding("long-enum", f"It lists {longest} values for one input.", advice)

    def _measure_longest_enum(self, schema: Any) -> int:
        known = self._enums.get(id(schema))
        if known is None:
            known = self._enums[id(schema)] = (schema, _find_longest_enum(schema, _MAX_DEPTH))
        return known[1]


def _check_inputs(tool: LintableTool) -> LintFinding | None:
    count = sum(1 for _ in _list_arguments(tool.inputs))
    if count <= MAX_INPUTS:
        return None
    advice = "Remove optional ones that agents do not need; an overlay can."
    return LintFinding("many-inputs", f"It takes {count} inputs, including those of its body.", advice)


def _check_undescribed(tool: LintableTool) -> LintFinding | None:
    arguments = [schema for name, schema in _list_arguments(tool.inputs) if name]
    bare = sum(not (isinstance(one, dict) and ("description" in one or "$ref" in one)) for one in arguments)
    if bare < _MIN_UNDESCRIBED or bare * 2 <= len(arguments):
        return None
    advice = "Describe at least those whose name does not say what they mean, with their format."
    return LintFinding(
        "undescribed-inputs", f"{bare} of {len(arguments)} inputs have no description.", advice
    )


def _check_size(slimmed: SlimmedTool | None) -> LintFinding | None:
    if slimmed is None:
        return None
    advice = "Remove what agents do not need from its schemas; an overlay can."
    steps = ", ".join(slimmed.steps)
    return LintFinding("large", f"It is too large to be shown completely: {steps}.", advice)


def _check_deprecation(tool: LintableTool) -> LintFinding | None:
    if not tool.deprecated:
        return None
    return LintFinding("deprecated", "It is deprecated.", "Disable it where another tool does the same.")


def _list_arguments(inputs: Json) -> Iterator[tuple[str, Any]]:
    """Yield the names and schemas of the inputs, with the members of `body` in its place."""
    properties = inputs.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        members = _dereference(schema, inputs).get("properties") if name == "body" else None
        if isinstance(members, dict) and members:
            yield from members.items()
        else:
            yield name, schema


def _dereference(schema: Any, inputs: Json) -> Json:
    """Return the schema, or the definition that it refers to."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if isinstance(reference, str) and reference.startswith(_REF):
        defs = inputs.get("$defs")
        schema = defs.get(reference.removeprefix(_REF)) if isinstance(defs, dict) else None
    return schema if isinstance(schema, dict) else {}


def _list_parts(inputs: Json) -> Iterator[Any]:
    for key in ("properties", "$defs"):
        members = inputs.get(key)
        if isinstance(members, dict):
            yield from members.values()


def _find_longest_enum(schema: Any, depth: int) -> int:
    if depth == 0 or not isinstance(schema, dict | list):
        return 0
    members = schema.values() if isinstance(schema, dict) else schema
    values = schema.get("enum") if isinstance(schema, dict) else None
    length = len(values) if isinstance(values, list) else 0
    return max(length, max((_find_longest_enum(member, depth - 1) for member in members), default=0))


def _find_similar_names(tools: Sequence[LintableTool]) -> dict[str, list[str]]:
    """Return, by source key, the names that differ only in case, separators, plural or one letter."""
    groups: dict[str, dict[str, str]] = {}
    for tool in tools:
        form = _normalize_name(tool.name)
        keys = {form}
        if len(tools) <= _MAX_COMPARED and len(form) >= _MIN_COMPARED_LENGTH:
            # Two texts that differ in one letter become equal when that letter is removed from both.
            keys |= {form[:n] + form[n + 1 :] for n in range(len(form))}
        for key in keys:
            groups.setdefault(key, {})[tool.source_key] = tool.name
    similar: dict[str, dict[str, None]] = {}
    for group in groups.values():
        if len(group) < 2:
            continue
        for source_key in group:
            names = similar.setdefault(source_key, {})
            names.update(dict.fromkeys(name for other, name in group.items() if other != source_key))
    return {source_key: sorted(names) for source_key, names in similar.items()}


def _normalize_name(name: str) -> str:
    words = (word.lower() for word in _WORDS.findall(name))
    return "".join(word[:-1] if len(word) > 3 and word.endswith("s") else word for word in words) or name


def _count_tools(count: int) -> str:
    return "Another tool is" if count == 1 else f"{count} other tools are"
