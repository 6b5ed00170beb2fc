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
    return list(dict.fromkeys(_Comparison(old, new, max_pairs).nodes(old, new, "", _MAX_DEPTH)))


class _Comparison:
    def __init__(self, old: Json, new: Json, max_pairs: int) -> None:
        self._old, self._new = old, new
        self._max_pairs = max_pairs
        self._seen: set[tuple[int, int]] = set()

    def nodes(self, old: Any, new: Any, at: str, depth: int) -> Iterator[SchemaChange]:
        """Yield the differences between two schemas at the pointer `at`, at most `depth` levels deep."""
        old, new = _dereferenced(old, self._old), _dereferenced(new, self._new)
        # A pair that was visited is being compared already: a cycle adds no differences.
        if old is new or (id(old), id(new)) in self._seen:
            return
        self._seen.add((id(old), id(new)))
        if depth == 0 or len(self._seen) > self._max_pairs:
            if old != new:
                yield SchemaChange("changed", at, "Too large or too deep to be compared further.")
            return
        old, new = _object(old), _object(new)
        if old is None or new is None:
            if old is not new:
                if new is None:
                    yield SchemaChange("narrowed", at, "No value is accepted any more.")
                else:
                    yield SchemaChange("widened", at, "Values are accepted now.")
            return
        yield from self._accepting(old, new, at, depth)

    def _accepting(self, old: Json, new: Json, at: str, depth: int) -> Iterator[SchemaChange]:
        """Compare two schemas that are objects."""
        effect = _added_alternatives(old, new)
        if effect is not None:
            more = effect == "widened"
            detail = "There are further alternatives." if more else "There are fewer alternatives."
            yield SchemaChange(effect, at, detail)
            return
        yield from _types(old, new, at)
        yield from _values(old, new, at)
        yield from _bounds(old, new, at)
        yield from self._properties(old, new, at, depth)
        yield from self._inside(old, new, at, depth)
        yield from self._rest(old, new, at, depth)

    def _properties(self, old: Json, new: Json, at: str, depth: int) -> Iterator[SchemaChange]:
        before, after = _map(old, "properties"), _map(new, "properties")
        required_before, required_now = _names(old), _names(new)
        for name in sorted(required_now - required_before):
            yield SchemaChange("narrowed", f"{at}/{_escaped(name)}", "The property is required now.")
        for name in sorted(required_before - required_now):
            yield SchemaChange("widened", f"{at}/{_escaped(name)}", "The property is no longer required.")
        was_closed, is_closed = (one.get("additionalProperties") is False for one in (old, new))
        for name in [*before, *(name for name in after if name not in before)]:
            member_pointer = f"{at}/{_escaped(name)}"
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
                yield from self.nodes(before[name], after[name], member_pointer, depth - 1)

    def _inside(self, old: Json, new: Json, at: str, depth: int) -> Iterator[SchemaChange]:
        """Compare the items of arrays, and the values of additional properties."""
        for key, member_pointer in (("items", f"{at}/*"), ("additionalProperties", f"{at}/*")):
            yield from self.nodes(old.get(key, True), new.get(key, True), member_pointer, depth - 1)

    def _rest(self, old: Json, new: Json, at: str, depth: int) -> Iterator[SchemaChange]:
        for key in sorted((old.keys() | new.keys()) - _KNOWN):
            before: Any = old.get(key)
            after: Any = new.get(key)
            lists = isinstance(before, list) and isinstance(after, list)
            if key in ("allOf", "anyOf", "oneOf", "prefixItems") and lists and len(before) == len(after):
                for one, other in zip(before, after, strict=True):
                    yield from self.nodes(one, other, at, depth - 1)
            elif key in ("anyOf", "oneOf") and lists and before == after[: len(before)]:
                yield SchemaChange("widened", at, "There are further alternatives.")
            elif key in ("anyOf", "oneOf") and lists and after == before[: len(after)]:
                yield SchemaChange("narrowed", at, "There are fewer alternatives.")
            elif key not in old:
                yield SchemaChange("narrowed", at, f"There is a {key} now.")
            elif key not in new:
                yield SchemaChange("widened", at, f"There is no {key} any more.")
            elif before != after:
                yield SchemaChange("changed", at, f"Its {key} changed.")


_KNOWN: Final = (
    _ANNOTATIONS
    | _LOWER_BOUNDS
    | _UPPER_BOUNDS
    | {"type", "enum", "const", "properties", "required", "items", "additionalProperties"}
)


def _added_alternatives(old: Json, new: Json) -> Effect | None:
    """Return the effect of `anyOf` around one of two schemas, None where it is something else.

    That is how a value becomes nullable, or is no longer, and how several texts become possible.
    """
    before, after = _alternatives(old), _alternatives(new)
    if before is None and after is not None:
        plain = _plain(old)
        if plain in after or any(_is_wider(plain, one) for one in after):
            return "widened"
    if after is None and before is not None and _plain(new) in before:
        return "narrowed"
    return None


def _is_wider(old: Json, new: Any) -> bool:
    """Return whether a schema accepts all that `old` does; only schemas of scalars are compared."""
    if not isinstance(new, dict) or not (old.keys() | new.keys()) <= _SCALAR:
        return False
    changes = (*_types(old, new, ""), *_values(old, new, ""), *_bounds(old, new, ""))
    return all(change.effect == "widened" for change in changes)


def _alternatives(schema: Json) -> list[Any] | None:
    """Return the alternatives of a schema that consists of `anyOf`, None of another one."""
    listed = schema.get("anyOf")
    if not isinstance(listed, list) or schema.keys() - _ANNOTATIONS != {"anyOf"}:
        return None
    return [_plain(one) if isinstance(one, dict) else one for one in listed]


def _plain(schema: Json) -> Json:
    return {key: value for key, value in schema.items() if key not in _ANNOTATIONS}


def _types(old: Json, new: Json, at: str) -> Iterator[SchemaChange]:
    before, after = _type_set(old), _type_set(new)
    if before == after:
        return
    names = " or ".join(sorted(after)) if after != _ALL_TYPES else "anything"
    if after > before:
        yield SchemaChange("widened", at, f"It may be {names} now.")
    elif after < before:
        yield SchemaChange("narrowed", at, f"It must be {names} now.")
    else:
        yield SchemaChange("changed", at, f"It is {names} instead of {' or '.join(sorted(before))}.")


def _values(old: Json, new: Json, at: str) -> Iterator[SchemaChange]:
    before, after = _enum(old), _enum(new)
    if before == after:
        return
    if before is None:
        yield SchemaChange("narrowed", at, "Only listed values are accepted now.")
    elif after is None:
        yield SchemaChange("widened", at, "Other values than the listed ones are accepted now.")
    else:
        removed = [value for value in before if value not in after]
        added = [value for value in after if value not in before]
        if removed:
            yield SchemaChange("narrowed", at, f"{_value_list(removed)} no longer accepted.")
        if added:
            yield SchemaChange("widened", at, f"{_value_list(added)} accepted now.")


def _bounds(old: Json, new: Json, at: str) -> Iterator[SchemaChange]:
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
        yield SchemaChange(effect, at, f"{key} is {_limit_text(after)} instead of {_limit_text(before)}.")


def _dereferenced(schema: Any, root: Json) -> Any:
    for _ in range(_MAX_DEPTH):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith(_REF) or len(schema) > 1:
            return schema
        name = reference.removeprefix(_REF).replace("~1", "/").replace("~0", "~")
        schema = _map(root, "$defs").get(name, True)
    return schema


def _object(schema: Any) -> Json | None:
    """Return the schema as an object; None for `false`, which accepts nothing."""
    if schema is False:
        return None
    return schema if isinstance(schema, dict) else {}


def _type_set(schema: Json) -> frozenset[str]:
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else list(_ALL_TYPES)
    found = frozenset(name for name in names if isinstance(name, str))
    return found | {"integer"} if "number" in found else found


def _enum(schema: Json) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _names(schema: Json) -> set[str]:
    required = schema.get("required")
    return {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()


def _map(schema: Json, key: str) -> Json:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def _value_list(values: list[Any]) -> str:
    listed = ", ".join(repr(value)[:60] for value in values[:5])
    more = f" and {len(values) - 5} more" if len(values) > 5 else ""
    return f"{listed}{more} {'is' if len(values) == 1 else 'are'}"


def _limit_text(value: Any) -> str:
    return "without a limit" if value is None else str(value)[:60]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
