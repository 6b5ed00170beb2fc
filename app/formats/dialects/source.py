"""The schema that an export is made of: where its parts stand, and what its references and types mean."""

from collections.abc import Mapping
from typing import Any, Final

from app.core.text import pointer
from app.formats.json_schema.references import MAPS, VALUES, resolve

Schema = dict[str, Any]

_MAX_DEPTH: Final = 8


def list_named_types(node: Mapping[str, Any], default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the types of a schema: those that it names, or that its keywords imply; else `default`."""
    names = node.get("type")
    if isinstance(names, str):
        return (names,)
    if names:
        return tuple(names)
    if "enum" in node or "const" in node:
        return default
    if any(node.get(key) for key in ("properties", "required", "patternProperties")):
        return ("object",)
    if node.get("additionalProperties") not in (None, True, False, {}):
        return ("object",)
    return ("array",) if "items" in node or "prefixItems" in node else default


class SourceSchema:
    """The original schema, with the places of its parts and of what is made of them (JSON pointers)."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._places: dict[int, str] = {}
        self._anchors: dict[str, Schema] = {}
        self._merged: list[Schema] = []
        self._takes_null: dict[tuple[int, int], bool] = {}
        self._read(schema, "")

    def place(self, node: Schema, default: str) -> str:
        """Return where a schema stands, which is told by its identity; `default` for one made elsewhere."""
        return self._places.get(id(node), default)

    def add(self, node: Schema, location: str) -> None:
        """Say where a schema stands that was made of others, unless that is known."""
        self._places.setdefault(id(node), location)
        # Places are by identity, so that what has one must live as long.
        self._merged.append(node)

    def move(self, node: Schema, location: str) -> None:
        """Say that a schema which was made of others stands elsewhere."""
        self.add(node, location)
        self._places[id(node)] = location

    def get_target(self, reference: str) -> Schema:
        """Return the schema that a local reference means; one that accepts anything where there is none."""
        if reference[1:] in self._anchors:
            return self._anchors[reference[1:]]
        try:
            target = resolve(self.schema, reference)
        except LookupError:
            return {}
        return target if isinstance(target, dict) else {}

    def takes_null(self, node: Schema, depth: int = 0) -> bool:
        """Return whether a schema accepts null; True where that cannot be told."""
        if depth > _MAX_DEPTH:
            return True
        # Each way to a schema would be followed otherwise, of which there are a hundred million in 10 kB.
        key = (id(node), depth)
        known = self._takes_null.get(key)
        if known is None:
            known = self._takes_null[key] = self._reads_null(node, depth)
            # It is known by its identity, so that it must live as long.
            self._merged.append(node)
        return known

    def _reads_null(self, node: Schema, depth: int) -> bool:
        if "$ref" in node:
            return self.takes_null(self.get_target(node["$ref"]), depth + 1)
        if "enum" in node or "const" in node:
            return None in node.get("enum", [node.get("const")])
        if "type" in node:
            return "null" in list_named_types(node)
        choices = [*node.get("anyOf", ()), *node.get("oneOf", ())]
        if choices:
            return any(self.takes_null(choice, depth + 1) for choice in choices)
        merged = node.get("allOf", ())
        if merged:
            return all(self.takes_null(one, depth + 1) for one in merged)
        return not list_named_types(node)

    def _read(self, node: Any, location: str) -> None:
        if not isinstance(node, dict):
            return
        self._places.setdefault(id(node), location)
        if isinstance(node.get("$anchor"), str):
            self._anchors[node["$anchor"]] = node
        for key, value in node.items():
            below = pointer(location, key)
            if key in VALUES:
                continue
            if key in MAPS and isinstance(value, dict):
                for name, member in value.items():
                    self._read(member, pointer(below, name))
            elif isinstance(value, list):
                for index, member in enumerate(value):
                    self._read(member, pointer(below, index))
            else:
                self._read(value, below)
