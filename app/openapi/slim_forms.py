"""A JSON Schema at each level of slimming, and cut to a size; see `slim`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from app.openapi.model import Json

LEVELS: Final = (
    "",
    "examples dropped",
    "descriptions shortened",
    "descriptions dropped",
    "long enumerations shortened",
    "descriptions of the inputs dropped",
)
"""What is done at each level, on top of what is done at those before it."""

_EXAMPLES, _SHORT, _BARE, _ENUMS, _PLAIN = range(1, 6)
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "required", "dependentRequired"})
_CLOSING: Final = frozenset({"properties", "additionalProperties", "unevaluatedProperties", "propertyNames"})
# What accepts less when something inside accepts more.
_CONTRARY: Final = frozenset({"not", "if", "then", "else", "contains", "minContains", "maxContains"})
_SPARE: Final = frozenset({"examples", "example", "$comment", "externalDocs", "xml"})
_REF: Final = "#/$defs/"
_LONGEST_DESCRIPTION: Final = 150
_LARGEST_DEFAULT: Final = 200
_LONGEST_ENUM: Final = 20
_SUCH_AS: Final = 5
_SMALL: Final = 200
# How deep optional branches are shown at first, when a schema must become smaller.
_DEEPEST: Final = 4

Form = tuple[Json, int]
"""A schema and its size in bytes."""


class SlimSchemas:
    """Schemas by level; those that tools share are made once."""

    def __init__(self) -> None:
        # Keyed by identity, so each entry also keeps its node alive.
        self._made: tuple[dict[int, tuple[Any, Form]], ...] = tuple({} for _ in LEVELS)
        self._sizes: tuple[dict[int, int], ...] = tuple({} for _ in LEVELS)
        self._edges: dict[int, tuple[Any, dict[str, bool]]] = {}

    def of(self, schema: Any, level: int) -> Form:
        """The schema at a level, and its size in bytes."""
        known = self._made[level].get(id(schema))
        if known is None:
            form = measured(formed(schema, level))
            known = self._made[level][id(schema)] = (schema, form)
            self._sizes[level][id(schema)] = form[1]
        return known[1]

    def total(self, defs: Mapping[str, Any], level: int) -> int:
        """The size of definitions at a level."""
        sizes = self._sizes[level]
        total = 0
        for name, schema in defs.items():
            size = sizes.get(id(schema))
            total += len(name) + 4 + (self.of(schema, level)[1] if size is None else size)
        return total

    def edges(self, form: Any) -> dict[str, bool]:
        """`edges` of a form that this made, by name; one that is required at all counts as required."""
        known = self._edges.get(id(form))
        if known is None:
            known = self._edges[id(form)] = (form, joined(form))
        return known[1]


def joined(schema: Any) -> dict[str, bool]:
    """`edges` by name; one that is required at all counts as required."""
    found: dict[str, bool] = {}
    for name, optional in edges(schema):
        found[name] = optional and found.get(name, True)
    return found


def formed(schema: Any, level: int, keep: int = 0) -> Any:
    """A copy of a schema at a level (`LEVELS`)."""
    if not isinstance(schema, dict) or level == 0:
        return schema
    made: Json = {}
    listed = ""
    for key, value in _wider(schema, level >= _ENUMS):
        if _is_spare(key, value, level, keep):
            continue
        if key == "description" and level >= _SHORT and isinstance(value, str):
            made[key] = _shortened(value)
        elif key == "enum" and level >= _ENUMS and isinstance(value, list) and len(value) > _LONGEST_ENUM:
            listed = _such_as(value)
        elif key in _MAPS and isinstance(value, dict):
            below = keep - 1 if key == "properties" else 0
            made[key] = {name: formed(member, level, below) for name, member in value.items()}
        elif key in _VALUES:
            made[key] = value
        elif isinstance(value, list):
            made[key] = [formed(member, level) for member in value]
        else:
            made[key] = formed(value, level)
    if listed:
        made["description"] = f"{made.get('description', '')} {listed}".strip()
    return made


def edges(schema: Any, *, optional: bool = False) -> Iterator[tuple[str, bool]]:
    """The definitions that a schema refers to, in order, and whether a value may do without each."""
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(_REF):
        yield reference.removeprefix(_REF).replace("~1", "/").replace("~0", "~"), optional
    required = _required(schema)
    for key, value in schema.items():
        if key in _VALUES:
            continue
        if key in _MAPS and isinstance(value, dict):
            for name, member in value.items():
                inside = optional or key != "properties" or name not in required
                yield from edges(member, optional=inside)
        elif isinstance(value, list):
            for member in value:
                yield from edges(member, optional=optional or key != "allOf")
        else:
            yield from edges(value, optional=True)


def fitted(schema: Json, room: int) -> tuple[Json, int, bool]:
    """The schema cut to `room` bytes, its size, and whether properties had to go; `{}` where nothing fits."""
    for depth in range(_DEEPEST, -1, -1):
        made = _cut(schema, depth)
        size = len(orjson.dumps(made))
        if size <= room:
            return made, size, False
    made = _fewer(_cut(schema, 0), room)
    size = len(orjson.dumps(made))
    return (made, size, True) if size <= room else (_open(schema), len(orjson.dumps(_open(schema))), True)


def _wider(schema: Json, wanted: bool) -> Iterator[tuple[str, Any]]:
    """The members of a schema; if its parts are to accept more, without what would accept less for that."""
    for key, value in schema.items():
        if wanted and key in _CONTRARY:
            continue
        if wanted and key == "oneOf":
            if "anyOf" not in schema:
                yield "anyOf", value
            continue
        yield key, value


def _is_spare(key: str, value: Any, level: int, keep: int) -> bool:
    if level >= _EXAMPLES:
        if key in _SPARE:
            return True
        if key == "default" and len(orjson.dumps(value)) > _LARGEST_DEFAULT:
            return True
    return (
        level >= _BARE
        and (keep <= 0 or level >= _PLAIN)
        and key in ("description", "title")
        and isinstance(value, str)
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return text[: _LONGEST_DESCRIPTION - 1].rstrip() + "…"


def _such_as(values: list[Any]) -> str:
    some = ", ".join(orjson.dumps(value).decode()[:60] for value in values[:_SUCH_AS])
    return f"One of {len(values)} values, such as {some}."


def _cut(schema: Any, depth: int) -> Any:
    """A copy whose optional branches end after `depth` steps, in `{}` or in their type alone."""
    if not isinstance(schema, dict):
        return schema
    if depth < 0:
        return _open(schema)
    made: Json = {}
    required = _required(schema)
    for key, value in _wider(schema, True):
        if key in _VALUES:
            made[key] = value
        elif key in _MAPS and isinstance(value, dict):
            made[key] = {
                name: _cut(member, depth if key == "properties" and name in required else depth - 1)
                for name, member in value.items()
            }
        elif isinstance(value, list):
            made[key] = [_cut(member, depth if key == "allOf" else depth - 1) for member in value]
        else:
            made[key] = _cut(value, depth - 1)
    return made


def _open(schema: Json) -> Json:
    """A leaf as it is; of a branch, its type alone: it accepts whatever the branch accepts."""
    branches = any(isinstance(value, dict | list) for key, value in schema.items() if key not in _VALUES)
    if not branches and "$ref" not in schema and len(orjson.dumps(schema)) <= _SMALL:
        return schema
    return {"type": schema["type"]} if isinstance(schema.get("type"), str | list) else {}


def _fewer(schema: Json, room: int) -> Json:
    """As many properties as fit, the required ones first."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    required = _required(schema)
    kept: Json = {}
    rest = {key: value for key, value in schema.items() if key not in _CLOSING}
    left = room - len(orjson.dumps(rest)) - 20
    for name in sorted(properties, key=lambda name: name not in required):
        left -= len(orjson.dumps(properties[name])) + len(orjson.dumps(name)) + 2
        if left < 0:
            break
        kept[name] = properties[name]
    return {**rest, "properties": {name: kept[name] for name in properties if name in kept}}


def _required(schema: Mapping[str, Any]) -> frozenset[str]:
    required = schema.get("required")
    if not isinstance(required, list):
        return frozenset()
    return frozenset(name for name in required if isinstance(name, str))


def measured(form: Any) -> Form:
    """A schema with its size."""
    return form, len(orjson.dumps(form))
