"""Converts the listed values of a schema, `enum` and `const`, to those that a dialect has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.formats.dialects.aliases import Rule
from app.formats.dialects.dialects import SchemaRules
from app.formats.dialects.losses import LossRecorder, shorten_json
from app.formats.dialects.source import list_named_types
from app.formats.dialects.values import accepts_enum, list_types_of_values

OF_ONE_TYPE: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format", "minLength",
     "maxLength", "pattern"}
)  # fmt: skip
"""Keywords about values of another type than the strings which stand for these values in an export."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What is made of one schema: the exported schema, the rule that undoes it, and sentences about it."""

    result: dict[str, Any] = field(default_factory=dict)
    rule: Rule = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def convert_literals(
    node: Mapping[str, Any], location: str, rules: SchemaRules, report: LossRecorder, parts: Parts
) -> None:
    """Add the listed values of the schema at the pointer `location` to what is made of it."""
    has_const = "const" in node
    if has_const and rules.const == "keep" and accepts_enum([node["const"]], rules.enum):
        parts.result["const"] = node["const"]
    elif has_const and "enum" not in node:
        report.lose(location, "const", node["const"], "converted", "none")
        _convert_enum([node["const"]], location, rules, report, parts)
    if "enum" in node:
        _convert_enum(node["enum"], location, rules, report, parts)


def _convert_enum(
    values: list[Any], location: str, rules: SchemaRules, report: LossRecorder, parts: Parts
) -> None:
    result = parts.result
    others = [value for value in values if value is not None]
    if accepts_enum(values, rules.enum):
        result["enum"] = values
        if rules.enum == "primitives" and "type" not in result:
            result["type"] = list_types_of_values(values)
    elif not others:
        result["type"] = "null"
    elif rules.enum == "strings":
        _write_as_strings(values, location, report, parts)
    elif rules.enum == "strings-and-numbers" and accepts_enum(others, rules.enum):
        result["enum"] = others
        report.lose(location, "enum", values, "converted", "narrower")
    else:
        parts.notes.append(report.describe_moved(location, "enum", values, "looser"))
        if not result.get("type"):
            result["type"] = list_types_of_values(values)


def _write_as_strings(values: list[Any], location: str, report: LossRecorder, parts: Parts) -> None:
    result = parts.result
    others = [value for value in values if value is not None]
    texts = {value if isinstance(value, str) else shorten_json(value): value for value in others}
    if any(not isinstance(value, str) for value in others):
        report.lose(
            location, "enum", values, "converted", "none" if len(texts) == len(others) else "narrower"
        )
        parts.rule["literals"] = {text: value for text, value in texts.items() if not isinstance(value, str)}
    for key in [key for key in result if key in OF_ONE_TYPE]:
        del result[key]
    result["enum"] = list(texts)
    has_null = len(others) < len(values) and "null" in list_named_types({"type": result.get("type", "null")})
    result["type"] = ["string", "null"] if has_null else "string"
    result.pop("properties", None)
