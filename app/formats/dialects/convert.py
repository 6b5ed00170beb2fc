"""Converts the schema of a tool's arguments to a dialect: one walk over it applies the dialect's rules.

Each result has its losses, and the record by which a call is converted back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from app.formats.dialects.aliases import AliasRecord
from app.formats.dialects.dialects import Dialect, Limits, SchemaRules, Strict
from app.formats.dialects.losses import Loss
from app.formats.dialects.measure import SchemaSize, measure
from app.formats.dialects.portable import Portable, make_portable
from app.formats.dialects.roots import flatten_root
from app.formats.dialects.sanitize import Sanitized, UnusableSchema, sanitize_inputs
from app.formats.dialects.walk import Walk

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Converted:
    """A schema in a dialect. `strict_reason` says why it is not strict; None where it is, or nobody asked."""

    schema: Schema = field(repr=False)
    record: AliasRecord = field(repr=False)
    losses: tuple[Loss, ...]
    is_strict: bool
    strict_reason: str | None
    size: SchemaSize


def convert_inputs(
    inputs: Mapping[str, Any], dialect: Dialect, strict: Strict = "auto", *, is_whole: bool = False
) -> Converted:
    """Return the schema of arguments in a dialect; raise UnusableSchema where it is no schema of arguments.

    With `auto` it is strict where nothing is lost; with `true` also where it then accepts more or fewer
    calls: maps become lists of pairs, and free-form values become JSON text. Where the dialect cannot have it
    strict, it is not, and the reason is given. With `is_whole` a verbatim dialect has the whole schema.
    """
    sanitized = sanitize_inputs(dict(inputs))
    try:
        return _convert(sanitized, dialect, strict, is_whole=is_whole)
    except RecursionError:
        raise UnusableSchema("The schema includes itself in a way that the format cannot have.") from None


def _convert(sanitized: Sanitized, dialect: Dialect, strict: Strict, *, is_whole: bool) -> Converted:
    if dialect.verbatim:
        record = AliasRecord(body=sanitized.is_wrapped)
        shown = Portable(sanitized.schema) if is_whole else make_portable(sanitized.schema)
        size = measure(shown.schema)
        return Converted(shown.schema, record, shown.losses, False, dialect.strict_note, size)
    rules, reason = _choose_strict_rules(dialect, strict)
    if rules is not None:
        converted, blocker = _convert_schema(sanitized.schema, dialect, rules)
        reason = (
            blocker
            or _explain_first_loss(converted.losses, strict)
            or describe_excess(converted.size, dialect.limits)
        )
        if reason is None:
            converted.record.body = sanitized.is_wrapped
            return replace(converted, is_strict=True)
    converted, _ = _convert_schema(sanitized.schema, dialect, dialect.plain)
    converted.record.body = sanitized.is_wrapped
    return replace(converted, strict_reason=reason)


def _choose_strict_rules(dialect: Dialect, strict: Strict) -> tuple[SchemaRules | None, str | None]:
    if strict == "false":
        return None, None
    if dialect.strict is None or (strict == "auto" and not dialect.auto_strict):
        return None, dialect.strict_note or "the format has no strict mode"
    if strict == "auto":
        return dialect.strict, None
    return replace(dialect.strict, maps="pairs", free_form="json-text"), None


def _convert_schema(schema: Schema, dialect: Dialect, rules: SchemaRules) -> tuple[Converted, str | None]:
    walk = Walk(
        schema,
        rules,
        property_pattern=dialect.property_pattern,
        description_max=dialect.property_description_max,
    )
    converted, rule = walk.convert_root(flatten_root(walk))
    record = AliasRecord(rule=rule, definitions=walk.definition_rules if rule else {})
    if rule:
        record.schemas = walk.definitions
    if walk.definitions:
        converted = {**converted, "$defs": walk.definitions}
    size = measure(converted)
    if rules.types == "nullable":
        converted = convert_to_openapi_form(converted)
    result = Converted(converted, record, tuple(walk.report.losses), False, None, size)
    return result, walk.report.blockers[0] if walk.report.blockers else None


def _explain_first_loss(losses: tuple[Loss, ...], strict: Strict) -> str | None:
    if strict == "true":
        return None
    lost = next((loss for loss in losses if loss.effect in ("looser", "narrower")), None)
    return None if lost is None else f"{lost.keyword} at {lost.pointer or '/'} cannot be expressed"


def describe_excess(size: SchemaSize, limits: Limits) -> str | None:
    """Return which limit of a single strict schema is exceeded, with both numbers; None for none."""
    for name, value, limit in (
        ("levels", size.depth, limits.depth),
        ("properties", size.properties, limits.properties),
        ("values of enum", size.enum_values, limits.enum_values),
        ("characters of names and values", size.characters, limits.characters),
        ("characters in an enum of more than 250 strings", size.enum_characters, limits.enum_characters),
        ("optional properties", size.optional, limits.optional),
        ("unions", size.unions, limits.unions),
    ):
        if limit is not None and value > limit:
            return f"it has {value} {name}, and at most {limit} are accepted"
    return None


def convert_to_openapi_form(schema: Schema) -> Schema:
    """Return a schema in the form of Gemini's `Schema`: types in upper case, `nullable` instead of null.

    Its properties are a map of protocol buffers, which has no order: `propertyOrdering` has that of the
    source.
    """
    result: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: convert_to_openapi_form(member) for name, member in value.items()}
            if len(value) > 1:
                result["propertyOrdering"] = list(value)
        elif key == "items":
            result[key] = convert_to_openapi_form(value)
        elif key == "anyOf":
            _convert_any_of(result, value)
        elif key == "type":
            names = [value] if isinstance(value, str) else value
            others = [name for name in names if name != "null"]
            result["type"] = (others or ["null"])[0].upper()
            if others and len(others) < len(names):
                result["nullable"] = True
        else:
            result[key] = value
    return result


def _convert_any_of(result: Schema, branches: list[Schema]) -> None:
    others = [convert_to_openapi_form(branch) for branch in branches if branch.get("type") != "null"]
    if len(others) < len(branches):
        result["nullable"] = True
    if len(others) == 1:
        result.update({key: value for key, value in others[0].items() if key not in result})
    else:
        result["anyOf"] = others
