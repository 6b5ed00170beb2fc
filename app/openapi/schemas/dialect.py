"""Converts a Schema Object of OpenAPI 2.0, 3.0 or 3.1 to JSON Schema 2020-12, keyword by keyword.

What is not understood is dropped with a warning: an operation can still be called with a schema that accepts
too much, but not with one that no validator can read. References become `#/$defs/<name>`; `schemas.py`
converts their targets.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from app.openapi.model import Json
from app.openapi.reading.refs import escape_token
from app.openapi.report import OperationProblem
from app.openapi.schemas.discriminators import EXCLUSIVE, ONLY_ONE_OF, list_alternatives
from app.openapi.schemas.files import convert_file
from app.openapi.schemas.keywords import PLAIN, copy_dependent_required, fits
from app.openapi.schemas.patterns import UNREADABLE_PATTERN, Patterns

# Keywords that contain schemas, by shape. Those that are neither here nor in PLAIN (discriminator, xml,
# x-..., $id, $schema, readOnly) are dropped.
_IN_PLACE = frozenset({"not", "if", "then", "else"})
_MEMBER_SCHEMAS = frozenset(
    {"items", "additionalProperties", "propertyNames", "contains"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})


# Keywords whose effect is elsewhere: on other keywords, on references, on files, on XML.
_READ_ELSEWHERE = frozenset(
    {"required", "nullable", "readOnly", "writeOnly", "additionalItems", "dependencies", "definitions"}
    | {"$ref", "$defs", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "discriminator", "xml"}
)
_NO_EFFECT = {
    "externalDocs": "documentation for people, for which tools have no place",
    "$comment": "a comment for the authors of the schema",
    "$schema": "every schema is read as JSON Schema 2020-12",
    "$vocabulary": "every schema is read as JSON Schema 2020-12",
    "collectionFormat": "it describes a parameter, and not a value",
    "allowEmptyValue": "it describes a parameter, and not a value",
}


class Mode(Enum):
    """What a schema describes: arguments, arguments with file parts (base64 in JSON), or a response."""

    INPUT = "input"
    FILES = "files"
    OUTPUT = "output"


class SchemaContext(Protocol):
    """What a SchemaConverter needs from its SchemaRegistry."""

    siblings: bool
    patterns: Patterns

    def refer(self, reference: str, *, location: str) -> tuple[tuple[str, ...], str]:
        """Return the target's key and its name in `$defs`; raise RefProblem unless the reference is local."""

    def resolve_dynamic(self, reference: str, *, location: str) -> str | None:
        """Return the plain reference equivalent to a `$dynamicRef`; None where it may mean several
        schemas.
        """

    def is_hidden(self, node: Any, mode: Mode) -> bool:
        """Return whether a property is excluded in this direction (readOnly in inputs, writeOnly in
        outputs).
        """

    def list_hidden_names(self, node: Mapping[str, Any], mode: Mode) -> frozenset[str]:
        """Return all hidden properties of an object schema, also through `allOf`."""

    def find_component(self, name: str) -> tuple[str, ...] | None:
        """Return the schema that a discriminator names by a component's name or by a URI; None if there is
        none.
        """

    def is_exclusive(self, branches: list[Any], name: str) -> bool:
        """Return whether each schema fixes the property of this name, and no two fix it to the same value."""

    def warn(self, pointer: str, detail: str) -> None:
        """Add a warning to the report."""

    def report_unread(self, keyword: str, location: str, reason: str) -> None:
        """Add a keyword that has no effect to the report."""


def describe_any_value(problem: OperationProblem, mode: Mode) -> str:
    """Return the sentence about a schema that cannot be used, and so becomes `{}` (any value)."""
    whose = "a response's schema" if mode is Mode.OUTPUT else "a schema"
    return f"{whose} {problem.reason}; it was taken as `any value`"


class SchemaConverter:
    """Converts one schema tree; afterwards `refs` and `in_place` contain its references, in first-visit
    order, and `notes` what an operation that uses the schema is told about it.
    """

    def __init__(self, context: SchemaContext, mode: Mode) -> None:
        self._context = context
        self._mode = mode
        self.refs: dict[tuple[str, ...], None] = {}
        self.in_place: dict[tuple[str, ...], None] = {}
        self.notes: dict[str, None] = {}

    def convert_schema(
        self, node: Any, location: str, *, in_place: bool = False, hidden: frozenset[str] = frozenset()
    ) -> Json:
        """Convert the schema at the pointer `location`.

        `in_place` tells that it applies to the same value as the tree's root. The schema must not require the
        properties named in `hidden`.
        """
        if isinstance(node, bool):
            return {} if node else {"not": {}}
        if not isinstance(node, dict):
            self._context.warn(location, "a schema that is not an object was taken as `any value`")
            return {}
        if isinstance(node.get("$ref"), str):
            return self._convert_reference(node, location, in_place=in_place, hidden=hidden)
        if self._context.siblings and isinstance(node.get("$dynamicRef"), str):
            reference = self._context.resolve_dynamic(node["$dynamicRef"], location=f"{location}/$dynamicRef")
            if reference is not None:
                return self._convert_reference(
                    {**node, "$ref": reference}, location, in_place=in_place, hidden=hidden
                )
            self._context.warn(
                location, "a `$dynamicRef` that may mean several schemas was taken as `any value`"
            )
        return self._convert_keywords(node, location, in_place=in_place, hidden=hidden)

    def _convert_reference(
        self, node: Json, location: str, *, in_place: bool, hidden: frozenset[str]
    ) -> Json:
        try:
            key, name = self._context.refer(node["$ref"], location=f"{location}/$ref")
        except OperationProblem as problem:
            detail = describe_any_value(problem, self._mode)
            self.notes[f"{detail} ({problem.pointer[:300]})"] = None
            self._context.warn(location, detail)
            return {}
        self.refs[key] = None
        if in_place:
            self.in_place[key] = None
        beside = {keyword: value for keyword, value in node.items() if keyword != "$ref"}
        if not self._context.siblings:
            # OAS 3.0 Reference Object: siblings of `$ref` SHALL be ignored; annotations do no harm.
            beside = {word: beside[word] for word in ("title", "description") if word in beside}
        return {
            "$ref": f"#/$defs/{name}",
            **self._convert_keywords(beside, location, in_place=in_place, hidden=hidden),
        }

    def _convert_keywords(self, node: Json, location: str, *, in_place: bool, hidden: frozenset[str]) -> Json:
        out: Json = {}
        if "allOf" in node:
            hidden = hidden | self._context.list_hidden_names(node, self._mode)
        for keyword, value in node.items():
            schema_pointer = f"{location}/{keyword}"
            if keyword == "pattern":
                self._copy_pattern(out, value, schema_pointer)
            elif keyword in PLAIN:
                PLAIN[keyword](out, keyword, value, schema_pointer, self._context.warn)
            elif keyword in _IN_PLACE:
                out[keyword] = self.convert_schema(value, schema_pointer, in_place=in_place, hidden=hidden)
            elif keyword in _MEMBER_SCHEMAS:
                if not isinstance(value, list):
                    out[keyword] = (
                        value if isinstance(value, bool) else self.convert_schema(value, schema_pointer)
                    )
            elif keyword in _LISTS:
                self._convert_list(out, keyword, value, schema_pointer, in_place=in_place, hidden=hidden)
            elif keyword in _MAPS:
                self._convert_map(out, keyword, value, schema_pointer, in_place=in_place)
            elif keyword not in _READ_ELSEWHERE and not keyword.startswith(("x-", "X-")):
                reason = _NO_EFFECT.get(keyword, "JSON Schema has no such keyword")
                self._context.report_unread(keyword, schema_pointer, reason)
        self._convert_tuples(node, out, location)
        self._convert_bounds(node, out)
        self._copy_required(node, out, location, hidden)
        self._convert_types(node, out, location)
        if "discriminator" in node and self._mode is not Mode.OUTPUT:
            self._discriminate(node, out, location)
        return out

    def _discriminate(self, node: Json, out: Json, location: str) -> None:
        """Accept a value whose discriminator decides between several valid schemas of `oneOf`."""
        branches = list_alternatives(node, out.get("oneOf", ()), component=self._context.find_component)
        reason = ONLY_ONE_OF
        if branches and self._context.is_exclusive(node["oneOf"], node["discriminator"]["propertyName"]):
            branches, reason = [], EXCLUSIVE
        if not branches:
            self._context.report_unread("discriminator", f"{location}/discriminator", reason)
            return
        either = [{"oneOf": out.pop("oneOf")}, *branches]
        if "anyOf" in out:
            out["allOf"] = [*out.get("allOf", ()), {"anyOf": either}]
        else:
            out["anyOf"] = either

    def _copy_pattern(self, out: Json, value: Any, location: str) -> None:
        if isinstance(value, str) and self._context.patterns.is_usable(value):
            out["pattern"] = value
        else:
            self._context.warn(location, UNREADABLE_PATTERN)

    def _convert_list(
        self, out: Json, keyword: str, value: Any, location: str, *, in_place: bool, hidden: frozenset[str]
    ) -> None:
        if isinstance(value, dict):
            value = [value]
        if not isinstance(value, list) or not value:
            self._context.warn(location, f"`{keyword}` is not a list of schemas and was left out")
            return
        applies = in_place and keyword != "prefixItems"
        names = hidden if keyword == "allOf" else frozenset[str]()
        out[keyword] = [
            self.convert_schema(one, f"{location}/{i}", in_place=applies, hidden=names)
            for i, one in enumerate(value)
        ]

    def _convert_map(self, out: Json, keyword: str, value: Any, location: str, *, in_place: bool) -> None:
        if not isinstance(value, dict):
            self._context.warn(location, f"`{keyword}` is not a map of schemas and was left out")
            return
        schemas: Json = {}
        for name, schema in value.items():
            schema_pointer = f"{location}/{escape_token(name)}"
            if not isinstance(schema, dict | bool):
                self._context.warn(schema_pointer, "a schema that is not an object was left out")
            elif keyword == "patternProperties" and not self._context.patterns.is_usable(name):
                self._context.warn(schema_pointer, UNREADABLE_PATTERN)
            elif keyword != "properties" or not self._context.is_hidden(schema, self._mode):
                schemas[name] = self.convert_schema(
                    schema, schema_pointer, in_place=in_place and keyword == "dependentSchemas"
                )
        out[keyword] = schemas

    def _convert_tuples(self, node: Json, out: Json, location: str) -> None:
        """Convert draft 4 tuples (`items` as a list, `additionalItems`) to 2020-12."""
        items = node.get("items")
        if isinstance(items, list):
            self._convert_list(
                out, "prefixItems", items, f"{location}/items", in_place=False, hidden=frozenset()
            )
            if "additionalItems" in node:
                rest = node["additionalItems"]
                out["items"] = (
                    rest
                    if isinstance(rest, bool)
                    else self.convert_schema(rest, f"{location}/additionalItems")
                )
        if "dependencies" in node:
            copy_dependent_required(
                out, "dependentRequired", node["dependencies"], location, self._context.warn
            )

    def _convert_bounds(self, node: Json, out: Json) -> None:
        """Convert draft 4's boolean `exclusiveMinimum`, which makes `minimum` itself the exclusive bound."""
        for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if node.get(exclusive) is True and bound in out:
                out[exclusive] = out.pop(bound)

    def _copy_required(self, node: Json, out: Json, location: str, hidden: frozenset[str]) -> None:
        if "required" not in node:
            return
        names = node["required"]
        if not isinstance(names, list):
            self._context.warn(f"{location}/required", "`required` is not a list of names and was left out")
            return
        properties = node.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        retained = dict.fromkeys(
            name
            for name in names
            if isinstance(name, str)
            and name not in hidden
            and not self._context.is_hidden(properties.get(name), self._mode)
        )
        if retained:
            out["required"] = list(retained)

    def _convert_types(self, node: Json, out: Json, location: str) -> None:
        self._convert_own_types(node, out, location)
        if self._mode is Mode.FILES:
            convert_file(node, out)

    def _convert_own_types(self, node: Json, out: Json, location: str) -> None:
        types = out.get("type")
        if "enum" in out and types is not None:
            listed = [types] if isinstance(types, str) else types
            if not any(fits(value, one) for one in listed for value in out["enum"]):
                self._context.warn(location, "no value of `enum` has the `type`; the type was left out")
                del out["type"]
        if node.get("nullable") is not True and node.get("x-nullable") is not True:
            return
        if any(word in out for word in ("$ref", "allOf", "anyOf", "oneOf", "not", "const")):
            notes = {word: out.pop(word) for word in ("title", "description", "default") if word in out}
            inner = dict(out)
            out.clear()
            out.update(anyOf=[inner, {"type": "null"}], **notes)
            return
        types = out.get("type")
        if types is not None:
            listed = [types] if isinstance(types, str) else types
            out["type"] = [*listed, *([] if "null" in listed else ["null"])]
        if "enum" in out and None not in out["enum"]:
            out["enum"] = [*out["enum"], None]
