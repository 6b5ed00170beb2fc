"""Compares two JSON Schemas: where the new one accepts more, less, or something else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

Effect = Literal["widened", "narrowed", "changed"]

Json = dict[str, Any]
_REF: Final = "#/$defs/"
MAX_PAIRS: Final = 5_000
"""Pairs of schemas that are compared for one tool; about 10 us each."""
_MAX_DEPTH: Final = 40
# Annotations for people and models, which do not affect validation.
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "examples", "example", "default", "deprecated", "$comment", "readOnly",
     "writeOnly", "format", "contentMediaType", "contentEncoding", "discriminator", "externalDocs", "xml",
     "$schema", "$defs"}
)  # fmt: skip
_LOWER_BOUNDS: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER_BOUNDS: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_SCALAR: Final = {"type", "enum", "const"} | _LOWER_BOUNDS | _UPPER_BOUNDS
_ALL_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference between two schemas; `pointer` (RFC 6901) is that of the value, with `*` for any
    item.
    """

    effect: Effect
    pointer: str
    detail: str
    member: Literal["added", "removed"] | None = None
    """Whether a property of an object was added or removed; None for other differences."""


def compare_schemas(old: Json, new: Json, *, max_pairs: int = MAX_PAIRS) -> list[SchemaChange]:
    """Return the differences, each once; [] where the schemas accept the same, as far as can be determined.

    Beyond `max_pairs` pairs of schemas, two that are not equal are reported as changed.
    """
    return list(dict.fromkeys(_Comparison(old, new, max_pairs).compare_nodes(old, new, "", _MAX_DEPTH)))


class _Comparison:
    def __init__(self, old: Json, new: Json, max_pairs: int) -> None:
        self._old, self._new = old, new
        self._max_pairs = max_pairs
        self._seen: set[tuple[int, int]] = set()

    def compare_nodes(self, old: Any, new: Any, location: str, depth: int) -> Iterator[SchemaChange]:
        """Yield the differences between two schemas at `location`, at most `depth` levels deep."""
        old, new = _dereference(old, self._old), _dereference(new, self._new)
        # A pair that was visited is being compared already: a cycle adds no differences.
        if old is new or (id(old), id(new)) in self._seen:
            return
        self._seen.add((id(old), id(new)))
        if depth == 0 or len(self._seen) > self._max_pairs:
            if old != new:
                yield SchemaChange("changed", location, "Too large or too deep to be compared further.")
            return
        old, new = _ensure_object(old), _ensure_object(new)
        if old is None or new is None:
            if old is not new:
                if new is None:
                    yield SchemaChange("narrowed", location, "No value is accepted any more.")
                else:
                    yield SchemaChange("widened", location, "Values are accepted now.")
            return
        yield from self._compare_objects(old, new, location, depth)

    def _compare_objects(self, old: Json, new: Json, location: str, depth: int) -> Iterator[SchemaChange]:
        """Compare two schemas that are objects."""
        effect = _compare_alternatives(old, new)
        if effect is not None:
            more = effect == "widened"
            detail = "There are further alternatives." if more else "There are fewer alternatives."
            yield SchemaChange(effect, location, detail)
            return
        yield from _compare_types(old, new, location)
        yield from _compare_values(old, new, location)
        yield from _compare_bounds(old, new, location)
        yield from self._compare_properties(old, new, location, depth)
        yield from self._compare_members(old, new, location, depth)
        yield from self._compare_rest(old, new, location, depth)

    def _compare_properties(self, old: Json, new: Json, location: str, depth: int) -> Iterator[SchemaChange]:
        before, after = _get_map(old, "properties"), _get_map(new, "properties")
        required_before, required_now = _list_required(old), _list_required(new)
        for name in sorted(required_now - required_before):
            yield SchemaChange(
                "narrowed", f"{location}/{_escape_name(name)}", "The property is required now."
            )
        for name in sorted(required_before - required_now):
            yield SchemaChange(
                "widened", f"{location}/{_escape_name(name)}", "The property is no longer required."
            )
        was_closed, is_closed = (one.get("additionalProperties") is False for one in (old, new))
        for name in [*before, *(name for name in after if name not in before)]:
            member_pointer = f"{location}/{_escape_name(name)}"
            if name not in after:
                yield SchemaChange(
                    "narrowed" if is_closed else "widened",
                    member_pointer,
                    "The property was removed.",
                    "removed",
                )
            elif name not in before:
                yield SchemaChange(
                    "widened" if was_closed else "narrowed", member_pointer, "The property is new.", "added"
                )
            else:
                yield from self.compare_nodes(before[name], after[name], member_pointer, depth - 1)

    def _compare_members(self, old: Json, new: Json, location: str, depth: int) -> Iterator[SchemaChange]:
        """Compare the items of arrays, and the values of additional properties."""
        for key, member_pointer in (("items", f"{location}/*"), ("additionalProperties", f"{location}/*")):
            yield from self.compare_nodes(old.get(key, True), new.get(key, True), member_pointer, depth - 1)

    def _compare_rest(self, old: Json, new: Json, location: str, depth: int) -> Iterator[SchemaChange]:
        for key in sorted((old.keys() | new.keys()) - _KNOWN):
            before: Any = old.get(key)
            after: Any = new.get(key)
            lists = isinstance(before, list) and isinstance(after, list)
            if key in ("allOf", "anyOf", "oneOf", "prefixItems") and lists and len(before) == len(after):
                for earlier, other in zip(before, after, strict=True):
                    yield from self.compare_nodes(earlier, other, location, depth - 1)
            elif key in ("anyOf", "oneOf") and lists and before == after[: len(before)]:
                yield SchemaChange("widened", location, "There are further alternatives.")
            elif key in ("anyOf", "oneOf") and lists and after == before[: len(after)]:
                yield SchemaChange("narrowed", location, "There are fewer alternatives.")
            elif key not in old:
                yield SchemaChange("narrowed", location, f"There is a {key} now.")
            elif key not in new:
                yield SchemaChange("widened", location, f"There is no {key} any more.")
            elif before != after:
                yield SchemaChange("changed", location, f"Its {key} changed.")


_KNOWN: Final = (
    _ANNOTATIONS
    | _LOWER_BOUNDS
    | _UPPER_BOUNDS
    | {"type", "enum", "const", "properties", "required", "items", "additionalProperties"}
)


def _compare_alternatives(old: Json, new: Json) -> Effect | None:
    """Return the effect of `anyOf` around one of two schemas, None where it is something else.

    That is how a value becomes nullable, or is no longer, and how several texts become possible.
    """
    before, after = _list_alternatives(old), _list_alternatives(new)
    if before is None and after is not None:
        plain = _strip_annotations(old)
        if plain in after or any(_is_wider(plain, one) for one in after):
            return "widened"
    if after is None and before is not None and _strip_annotations(new) in before:
        return "narrowed"
    return None


def _is_wider(old: Json, new: Any) -> bool:
    """Return whether a schema accepts all that `old` does; only schemas of scalars are compared."""
    if not isinstance(new, dict) or not (old.keys() | new.keys()) <= _SCALAR:
        return False
    changes = (*_compare_types(old, new, ""), *_compare_values(old, new, ""), *_compare_bounds(old, new, ""))
    return all(change.effect == "widened" for change in changes)


def _list_alternatives(schema: Json) -> list[Any] | None:
    """Return the alternatives of a schema that consists of `anyOf`, None of another one."""
    listed = schema.get("anyOf")
    if not isinstance(listed, list) or schema.keys() - _ANNOTATIONS != {"anyOf"}:
        return None
    return [_strip_annotations(one) if isinstance(one, dict) else one for one in listed]


def _strip_annotations(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key not in _ANNOTATIONS}


def _compare_types(old: Json, new: Json, location: str) -> Iterator[SchemaChange]:
    before, after = _list_types(old), _list_types(new)
    if before == after:
        return
    names = " or ".join(sorted(after)) if after != _ALL_TYPES else "anything"
    if after > before:
        yield SchemaChange("widened", location, f"It may be {names} now.")
    elif after < before:
        yield SchemaChange("narrowed", location, f"It must be {names} now.")
    else:
        yield SchemaChange("changed", location, f"It is {names} instead of {' or '.join(sorted(before))}.")


def _compare_values(old: Json, new: Json, location: str) -> Iterator[SchemaChange]:
    before, after = _list_enum(old), _list_enum(new)
    if before == after:
        return
    if before is None:
        yield SchemaChange("narrowed", location, "Only listed values are accepted now.")
    elif after is None:
        yield SchemaChange("widened", location, "Other values than the listed ones are accepted now.")
    else:
        removed = [value for value in before if value not in after]
        added = [value for value in after if value not in before]
        if removed:
            yield SchemaChange("narrowed", location, f"{_write_values(removed)} no longer accepted.")
        if added:
            yield SchemaChange("widened", location, f"{_write_values(added)} accepted now.")


def _compare_bounds(old: Json, new: Json, location: str) -> Iterator[SchemaChange]:
    for key in sorted((_LOWER_BOUNDS | _UPPER_BOUNDS) & (old.keys() | new.keys())):
        before, after = old.get(key), new.get(key)
        if before == after:
            continue
        if after is None or before is None:
            what = "widened" if after is None else "narrowed"
        elif isinstance(before, int | float) and isinstance(after, int | float):
            what = "narrowed" if (after > before) == (key in _LOWER_BOUNDS) else "widened"
        else:
            what = "changed"
        effect: Effect = what  # type: ignore[assignment]
        yield SchemaChange(
            effect, location, f"{key} is {_limit_text(after)} instead of {_limit_text(before)}."
        )


def _dereference(schema: Any, root: Json) -> Any:
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith(_REF) or len(schema) > 1:
            return schema
        name = reference.removeprefix(_REF).replace("~1", "/").replace("~0", "~")
        schema = _get_map(root, "$defs").get(name, True)
    return schema


def _ensure_object(schema: Any) -> Json | None:
    """Return the schema as an object; None for `false`, which accepts nothing."""
    if schema is False:
        return None
    return schema if isinstance(schema, dict) else {}


def _list_types(schema: Json) -> frozenset[str]:
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else list(_ALL_TYPES)
    types = frozenset(name for name in names if isinstance(name, str))
    return types | {"integer"} if "number" in types else types


def _list_enum(schema: Json) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _list_required(schema: Json) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _get_map(schema: Json, key: str) -> Json:
    member = schema.get(key)
    return member if isinstance(member, dict) else {}


def _write_values(values: list[Any]) -> str:
    listed = ", ".join(repr(value)[:60] for value in values[:5])
    more = f" and {len(values) - 5} more" if len(values) > 5 else ""
    return f"{listed}{more} {'is' if len(values) == 1 else 'are'}"


def _limit_text(value: Any) -> str:
    return "without a limit" if value is None else str(value)[:60]


def _escape_name(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
