"""Slims a JSON Schema by levels, and cuts it to a size; see `slim`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from app.core import exact_json
from app.openapi.model import Json

LEVELS: Final = (
    "",
    "examples dropped",
    "descriptions shortened",
    "descriptions dropped",
    "long enumerations shortened",
    "descriptions of the inputs dropped",
)
"""What is done at each level, in addition to the levels before it."""

_EXAMPLES, _SHORT, _BARE, _ENUMS, _PLAIN = range(1, 6)
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "required", "dependentRequired"})
_CLOSING: Final = frozenset({"properties", "additionalProperties", "unevaluatedProperties", "propertyNames"})
# Keywords that accept less when a schema inside them accepts more.
_CONTRAVARIANT: Final = frozenset({"not", "if", "then", "else", "contains", "minContains", "maxContains"})
_ANNOTATIONS: Final = frozenset({"examples", "example", "$comment", "externalDocs", "xml"})
_REF: Final = "#/$defs/"
_MAX_DESCRIPTION: Final = 150
_MAX_DEFAULT: Final = 200
_MAX_ENUM: Final = 20
_ENUM_EXAMPLES: Final = 5
_MAX_LEAF: Final = 200
# The depth of optional branches that is tried first when a schema is cut.
_START_DEPTH: Final = 4

SizedSchema = tuple[Json, int]
"""A schema and its size in bytes."""


class SlimSchemas:
    """Slimmed schemas by level; those that tools share are computed once."""

    def __init__(self) -> None:
        # Keyed by identity, so each entry also keeps its node alive.
        self._made: tuple[dict[int, tuple[Any, SizedSchema]], ...] = tuple({} for _ in LEVELS)
        self._sizes: tuple[dict[int, int], ...] = tuple({} for _ in LEVELS)
        self._refs: dict[int, tuple[Any, dict[str, bool]]] = {}

    def of(self, schema: Any, level: int) -> SizedSchema:
        """Return the schema at a level, and its size in bytes."""
        known = self._made[level].get(id(schema))
        if known is None:
            form = with_size(slim_schema(schema, level))
            known = self._made[level][id(schema)] = (schema, form)
            self._sizes[level][id(schema)] = form[1]
        return known[1]

    def measure_definitions(self, defs: Mapping[str, Any], level: int) -> int:
        """Return the size in bytes of definitions at a level."""
        sizes = self._sizes[level]
        total = 0
        for name, schema in defs.items():
            size = sizes.get(id(schema))
            total += len(name) + 4 + (self.of(schema, level)[1] if size is None else size)
        return total

    def list_refs(self, form: Any) -> dict[str, bool]:
        """Return `definition_refs` of a schema that `of` returned, cached."""
        known = self._refs.get(id(form))
        if known is None:
            known = self._refs[id(form)] = (form, list_definition_refs(form))
        return known[1]


def list_definition_refs(schema: Any) -> dict[str, bool]:
    """Return the definitions that a schema refers to, and whether every reference to each is optional."""
    references: dict[str, bool] = {}
    for name, optional in list_schema_refs(schema):
        references[name] = optional and references.get(name, True)
    return references


def slim_schema(schema: Any, level: int, keep: int = 0) -> Any:
    """Return a copy of a schema at a level (an index of `LEVELS`).

    Descriptions are preserved for `keep` levels of nested properties, up to the last level but one.
    """
    if not isinstance(schema, dict) or level == 0:
        return schema
    slim: Json = {}
    listed = ""
    for key, value in _widen_members(schema, level >= _ENUMS):
        if _is_dropped(key, value, level, keep):
            continue
        if key == "description" and level >= _SHORT and isinstance(value, str):
            slim[key] = _shorten(value)
        elif key == "enum" and level >= _ENUMS and isinstance(value, list) and len(value) > _MAX_ENUM:
            listed = _summarise_enum(value)
        elif key in _MAPS and isinstance(value, dict):
            below = keep - 1 if key == "properties" else 0
            slim[key] = {name: slim_schema(member, level, below) for name, member in value.items()}
        elif key in _VALUES:
            slim[key] = value
        elif isinstance(value, list):
            slim[key] = [slim_schema(member, level) for member in value]
        else:
            slim[key] = slim_schema(value, level)
    if listed:
        slim["description"] = f"{slim.get('description', '')} {listed}".strip()
    return slim


def list_schema_refs(schema: Any, *, optional: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the definitions that a schema refers to, in order, and whether the reference is optional for
    a value.
    """
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        yield reference.removeprefix(_REF).replace("~1", "/").replace("~0", "~"), optional
    required = _list_required(schema)
    for key, value in schema.items():
        if key in _VALUES:
            continue
        if key in _MAPS and isinstance(value, dict):
            for name, member in value.items():
                inside = optional or key != "properties" or name not in required
                yield from list_schema_refs(member, optional=inside)
        elif isinstance(value, list):
            for member in value:
                yield from list_schema_refs(member, optional=optional or key != "allOf")
        else:
            yield from list_schema_refs(value, optional=True)


def cut_to_size(schema: Json, budget: int) -> tuple[Json, int, bool]:
    """Return the schema cut to `budget` bytes, its size, and whether properties were dropped.

    Where nothing fits, it is a leaf, the type alone, or `{}`, which may be larger.
    """
    for depth in range(_START_DEPTH, -1, -1):
        cut = _cut_to_depth(schema, depth)
        size = len(exact_json.dumps(cut))
        if size <= budget:
            return cut, size, False
    cut = _with_fewer_properties(_cut_to_depth(schema, 0), budget)
    size = len(exact_json.dumps(cut))
    return (
        (cut, size, True)
        if size <= budget
        else (_reduce_to_leaf(schema), len(exact_json.dumps(_reduce_to_leaf(schema))), True)
    )


def _widen_members(schema: Json, widen: bool) -> Iterator[tuple[str, Any]]:
    """Yield the members of a schema; with `widen`, without those that would accept less when their
    subschemas accept more, and with `oneOf` as `anyOf`.
    """
    for key, value in schema.items():
        if widen and key in _CONTRAVARIANT:
            continue
        if widen and key == "oneOf":
            if "anyOf" not in schema:
                yield "anyOf", value
            continue
        yield key, value


def _is_dropped(key: str, value: Any, level: int, keep: int) -> bool:
    if level >= _EXAMPLES:
        if key in _ANNOTATIONS:
            return True
        if key == "default" and len(exact_json.dumps(value)) > _MAX_DEFAULT:
            return True
    return (
        level >= _BARE
        and (keep <= 0 or level >= _PLAIN)
        and key in ("description", "title")
        and isinstance(value, str)
    )


def _shorten(text: str) -> str:
    if len(text) <= _MAX_DESCRIPTION:
        return text
    return text[: _MAX_DESCRIPTION - 1].rstrip() + "…"


def _summarise_enum(values: list[Any]) -> str:
    some = ", ".join(exact_json.dumps(value).decode()[:60] for value in values[:_ENUM_EXAMPLES])
    return f"One of {len(values)} values, such as {some}."


def _cut_to_depth(schema: Any, depth: int) -> Any:
    """Return a copy whose optional branches end after `depth` steps, in `{}` or in their type alone."""
    if not isinstance(schema, dict):
        return schema
    if depth < 0:
        return _reduce_to_leaf(schema)
    cut: Json = {}
    required = _list_required(schema)
    for key, value in _widen_members(schema, True):
        if key in _VALUES:
            cut[key] = value
        elif key in _MAPS and isinstance(value, dict):
            cut[key] = {
                name: _cut_to_depth(member, depth if key == "properties" and name in required else depth - 1)
                for name, member in value.items()
            }
        elif isinstance(value, list):
            cut[key] = [_cut_to_depth(member, depth if key == "allOf" else depth - 1) for member in value]
        else:
            cut[key] = _cut_to_depth(value, depth - 1)
    return cut


def _reduce_to_leaf(schema: Json) -> Json:
    """Return a leaf unchanged; of a branch, its type alone, which accepts whatever the branch accepts."""
    branches = any(isinstance(value, dict | list) for key, value in schema.items() if key not in _VALUES)
    if not branches and "$ref" not in schema and len(exact_json.dumps(schema)) <= _MAX_LEAF:
        return schema
    return {"type": schema["type"]} if isinstance(schema.get("type"), str | list) else {}


def _with_fewer_properties(schema: Json, budget: int) -> Json:
    """Return the schema with as many properties as fit, the required ones first."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    required = _list_required(schema)
    retained: Json = {}
    rest = {key: value for key, value in schema.items() if key not in _CLOSING}
    left = budget - len(exact_json.dumps(rest)) - 20
    for name in sorted(properties, key=lambda name: name not in required):
        left -= len(exact_json.dumps(properties[name])) + len(exact_json.dumps(name)) + 2
        if left < 0:
            break
        retained[name] = properties[name]
    return {**rest, "properties": {name: retained[name] for name in properties if name in retained}}


def _list_required(schema: Mapping[str, Any]) -> frozenset[str]:
    required = schema.get("required")
    if not isinstance(required, list):
        return frozenset()
    return frozenset(name for name in required if isinstance(name, str))


def with_size(form: Any) -> SizedSchema:
    """Return a schema and its size in bytes."""
    return form, len(exact_json.dumps(form))
