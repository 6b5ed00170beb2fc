"""What kind of field a schema asks for: references resolved, `allOf` merged, alternatives listed.

This decides only about controls: whether a value is valid, the API judges. So a merge may lose a constraint,
and whatever cannot be a field is edited as JSON.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.core import exact_json
from app.formats.json_schema.references import resolve

Schema = dict[str, Any]

_MAX_MERGED: Final = 64
"""Schemas of `$ref` and `allOf` that are merged into one."""
_MAX_STEPS: Final = 2_000
"""Schemas that are looked at for one shape: alternatives of alternatives are many."""
_MAX_BRANCHES: Final = 50
_MAX_CHOICES: Final = 300
_ABOUT_STRINGS: Final = ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType")
_ABOUT_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ABOUT_ARRAYS: Final = ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")
_ABOUT_OBJECTS: Final = (
    "properties", "additionalProperties", "patternProperties", "required", "minProperties", "maxProperties",
)  # fmt: skip
_KEYWORDS_OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "string": _ABOUT_STRINGS, "number": _ABOUT_NUMBERS, "integer": _ABOUT_NUMBERS, "array": _ABOUT_ARRAYS,
    "object": _ABOUT_OBJECTS,
}  # fmt: skip
_ABOUT_TYPES: Final = frozenset(name for names in _KEYWORDS_OF_TYPE.values() for name in names)
_SCALARS: Final = frozenset({"string", "number", "integer"})
_LEAST: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
_GREATEST: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})


@dataclass(frozen=True, slots=True)
class Branch:
    """An alternative of a union."""

    label: str
    schema: Schema


@dataclass(frozen=True, slots=True)
class Shape:
    """The kind of field of a schema.

    `kind` is one of string, number, integer, choice, choices, array, object, union, any. `schema` is merged
    and has no reference at its root. `choices` are values with labels; a null of a choice is one of them.
    """

    kind: str
    schema: Schema
    nullable: bool = False
    choices: tuple[tuple[Any, str], ...] = ()
    branches: tuple[Branch, ...] = ()

    @property
    def lists_values(self) -> bool:
        """Whether the choices say more than the type: not for booleans."""
        return any(not isinstance(value, bool) and value is not None for value, _ in self.choices)

    def option(self, value: Any) -> str | None:
        """Return the JSON text of the choice that equals a value; None where there is none."""
        return next((compact(one) for one, _ in self.choices if exact_json.are_equal(one, value)), None)


class Shapes:
    """Tells the shapes of schemas in one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._steps = 0
        # By identity; the schema beside its shape keeps the identity in use.
        self._known: dict[int, tuple[Any, Shape]] = {}

    def of(self, schema: Any) -> Shape:
        """Return the shape of a schema."""
        known = self._known.get(id(schema))
        if known is None:
            self._steps = 0
            known = self._known[id(schema)] = (schema, self._shape(self._merge(schema), levels=0))
        return known[1]

    def merged(self, schema: Any) -> Schema:
        """Return a schema without `$ref` and `allOf` at its root."""
        self._steps = 0
        return self._merge(schema)

    def _merge(self, schema: Any) -> Schema:
        result: Schema = {}
        for part in self._list_parts(schema):
            result = _merge_both(result, part)
        return result

    def _list_parts(self, schema: Any) -> Iterator[Schema]:
        """Yield the schemas that hold together at the place of a schema: its own keywords last."""
        waiting: list[tuple[Any, bool]] = [(schema, False)]
        seen: set[str] = set()
        for _ in range(_MAX_MERGED):
            self._steps += 1
            if not waiting or self._steps > _MAX_STEPS:
                return
            node, is_own = waiting.pop()
            if not isinstance(node, dict):
                continue
            if is_own:
                yield node
                continue
            keywords = {key: value for key, value in node.items() if key not in ("$ref", "allOf")}
            waiting.append((keywords, True))
            parts = node.get("allOf")
            if isinstance(parts, list):
                waiting += [(part, False) for part in reversed(parts[:_MAX_MERGED])]
            reference = node.get("$ref")
            if isinstance(reference, str) and reference not in seen:
                seen.add(reference)
                try:
                    waiting.append((resolve(self._root, reference), False))
                except (LookupError, ValueError):
                    continue

    def _shape(self, schema: Schema, levels: int) -> Shape:
        if "const" in schema:
            value = schema["const"]
            return Shape("choice", schema, choices=((value, label_of(value)),))
        enum = schema.get("enum")
        if isinstance(enum, list) and 0 < len(enum) <= _MAX_CHOICES:
            return Shape("choice", schema, choices=_list_choices(enum))
        for keyword in ("oneOf", "anyOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list) and branches:
                rest = {key: value for key, value in schema.items() if key != keyword}
                merged = [self._merge(branch) for branch in branches[: _MAX_BRANCHES + 1]]
                if not all(_is_constraint(branch, rest) for branch in merged):
                    return self._shape_union(rest, merged, levels)
        return self._shape_typed(schema, levels)

    def _shape_union(self, rest: Schema, branches: list[Schema], levels: int) -> Shape:
        if len(branches) > _MAX_BRANCHES or levels > 4:
            return Shape("any", rest)
        rest = {key: value for key, value in rest.items() if key not in ("title", "default", "examples")}
        plain = {key: value for key, value in rest.items() if key != "description"}
        null = [branch for branch in branches if branch.get("type") == "null" or _is_null(branch)]
        others = [branch for branch in branches if branch not in null]
        if not others:
            return Shape("choice", rest, choices=((None, "null"),))
        if all("const" in branch for branch in others):
            choices = [
                (one["const"], str(one.get("title") or one.get("description") or label_of(one["const"])))
                for one in others
            ]
            return Shape("choice", rest, choices=(*choices, *([(None, "null")] if null else [])))
        if len(others) == 1:
            shape = self._shape(_merge_both(others[0], rest), levels + 1)
            if shape.kind in ("union", "any"):
                return shape
            if not null:
                return shape
            if shape.kind == "choice":
                known = any(value is None for value, _ in shape.choices)
                choices = [*shape.choices, *([] if known else [(None, "null")])]
                return Shape("choice", shape.schema, choices=tuple(choices))
            return Shape(shape.kind, shape.schema, nullable=True, choices=shape.choices)
        flat: list[Branch] = []
        for index, branch in enumerate(others):
            inner = self._shape(_merge_both(plain, branch), levels + 1)
            if inner.kind == "union":
                flat += inner.branches
            else:
                flat.append(Branch(_label_branch(branch, inner, index), inner.schema))
        if null:
            flat.append(Branch("null", {"type": "null"}))
        if len(flat) > _MAX_BRANCHES:
            return Shape("any", rest)
        return Shape("union", rest, branches=tuple(flat))

    def _shape_typed(self, schema: Schema, levels: int) -> Shape:
        names = schema.get("type")
        listed = [name for name in (names if isinstance(names, list) else [names]) if isinstance(name, str)]
        nullable = "null" in listed
        types = [name for name in listed if name != "null"]
        if not listed:
            types = [name for name in (_infer_type(schema),) if name]
        if not types:
            return Shape("choice", schema, choices=((None, "null"),)) if nullable else Shape("any", schema)
        if {"integer", "number"} <= set(types):
            types.remove("integer")
        if len(types) > 1:
            if len(types) >= 5 or levels > 4:
                return Shape("any", schema)
            branches = [Branch(name, _select_type(schema, name)) for name in types]
            if nullable:
                branches.append(Branch("null", {"type": "null"}))
            return Shape("union", schema, branches=tuple(branches))
        return self._shape_single(types[0], schema, nullable=nullable)

    def _shape_single(self, name: str, schema: Schema, *, nullable: bool) -> Shape:
        if name == "boolean":
            values: list[tuple[Any, str]] = [(True, "true"), (False, "false")]
            return Shape("choice", schema, choices=(*values, *([(None, "null")] if nullable else [])))
        if name == "array" and "prefixItems" not in schema:
            items = self._merge(schema.get("items"))
            enum = items.get("enum")
            if isinstance(enum, list) and 0 < len(enum) <= 30 and "const" not in items:
                return Shape("choices", schema, nullable=nullable, choices=_list_choices(enum))
        if name in _SCALARS or name in ("array", "object"):
            return Shape(name, schema, nullable=nullable)
        return Shape("any", schema)


def compact(value: Any) -> str:
    """Return JSON text in ASCII, on one line."""
    return json.dumps(value, separators=(",", ":"))


def label_of(value: Any) -> str:
    """Return a value as the label of an option: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)


def _list_choices(values: list[Any]) -> tuple[tuple[Any, str], ...]:
    return tuple((value, label_of(value)) for value in exact_json.drop_duplicates(values))


def type_text(shape: Shape, shapes: Shapes, depth: int = 0) -> str:
    """Return the type of a field in the words of JSON Schema."""
    schema = shape.schema
    match shape.kind:
        case "choice":
            kinds = dict.fromkeys(_name_json_type(value) for value, _ in shape.choices)
            text = " or ".join(kinds)
        case "array" | "choices":
            inner = shapes.of(schema.get("items")) if depth < 2 and "items" in schema else None
            inner_type = type_text(inner, shapes, depth + 1) if inner else ""
            text = f"array of {inner_type}" if inner_type and inner_type != "any" else "array"
        case "union":
            text = " or ".join(dict.fromkeys(branch.label for branch in shape.branches[:6]))
        case "string":
            detail = schema.get("format") or schema.get("contentEncoding")
            text = f"string ({detail})" if isinstance(detail, str) and len(detail) < 40 else "string"
        case _:
            text = shape.kind
    return f"{text} or null" if shape.nullable else text


def _name_json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names[type(value)]


def _is_null(branch: Schema) -> bool:
    return ("const" in branch and branch["const"] is None) or branch.get("enum") == [None]


def _is_constraint(branch: Schema, rest: Schema) -> bool:
    """Return whether an alternative only restricts what `rest` describes, as `{"required": ["a"]}` does."""
    if "properties" not in rest and rest.get("type") is None:
        return False
    return not any(
        key in branch for key in ("properties", "type", "const", "enum", "items", "oneOf", "anyOf", "format")
    )


def _infer_type(schema: Schema) -> str | None:
    """Return the type that the keywords of a schema without one are about."""
    if any(schema.get(key) for key in ("properties", "required", "patternProperties")):
        return "object"
    if isinstance(schema.get("additionalProperties"), dict):
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    if any(key in schema for key in _ABOUT_STRINGS):
        return "string"
    return "number" if any(key in schema for key in _ABOUT_NUMBERS) else None


def _select_type(schema: Schema, name: str) -> Schema:
    """Return a schema for one of its types, without the keywords of others."""
    about = _KEYWORDS_OF_TYPE.get(name, ())
    kept = {key: value for key, value in schema.items() if key not in _ABOUT_TYPES or key in about}
    kept = {
        key: value
        for key, value in kept.items()
        if key not in ("title", "description", "default", "examples")
    }
    return {**kept, "type": name}


def _label_branch(branch: Schema, shape: Shape, index: int) -> str:
    title = branch.get("title")
    if isinstance(title, str) and title.strip():
        return title[:120]
    if shape.kind == "object":
        fixed = [
            f"{name}: {label_of(member['const'])}"
            for name, member in _list_members(shape.schema)
            if "const" in member
        ]
        names = fixed[:2] or [name for name in shape.schema.get("required", []) if isinstance(name, str)][:3]
        return f"{index + 1}: " + (", ".join(names)[:100] or "object")
    if shape.kind == "choice":
        return ", ".join(label for _, label in shape.choices[:3])[:100]
    return shape.kind


def _list_members(schema: Schema) -> list[tuple[str, Schema]]:
    members = schema.get("properties")
    if not isinstance(members, dict):
        return []
    return [(name, member) for name, member in members.items() if isinstance(member, dict)]


def _merge_both(first: Schema, other: Schema) -> Schema:
    """Return a schema for what two schemas accept together; where they differ, roughly the second."""
    merged = {**first, **other}
    for key in first.keys() & other.keys():
        mine, its = first[key], other[key]
        if key == "properties" and isinstance(mine, dict) and isinstance(its, dict):
            merged[key] = {
                **mine,
                **{
                    name: {"allOf": [mine[name], member]} if name in mine and mine[name] != member else member
                    for name, member in its.items()
                },
            }
        elif key == "required" and isinstance(mine, list) and isinstance(its, list):
            merged[key] = list(dict.fromkeys(name for name in [*mine, *its] if isinstance(name, str)))
        elif key == "enum" and isinstance(mine, list) and isinstance(its, list):
            merged[key] = exact_json.keep_common(mine, its) or its
        elif key == "type":
            merged[key] = _intersect_types(mine, its)
        elif key in _LEAST and _are_numbers(mine, its):
            merged[key] = min(mine, its)
        elif key in _GREATEST and _are_numbers(mine, its):
            merged[key] = max(mine, its)
        elif key == "items" and mine != its:
            merged[key] = {"allOf": [mine, its]}
    return merged


def _intersect_types(mine: Any, its: Any) -> Any:
    first = mine if isinstance(mine, list) else [mine]
    second = its if isinstance(its, list) else [its]
    common = [name for name in first if name in second]
    if not common and "number" in first and "integer" in second:
        common = ["integer"]
    if not common and "integer" in first and "number" in second:
        common = ["integer"]
    return its if not common else common[0] if len(common) == 1 else common


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
