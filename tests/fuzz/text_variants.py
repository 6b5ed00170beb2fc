"""Variants of a request body, each with one text in another place: every string that the schema or the example has."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.formats.json_schema.references import resolve
from tests.harness.schema_values import Values

_LEVELS = 7


class TextVariants:
    """Makes variants of bodies by the schemas of one OpenAPI document, with the text `text`."""

    def __init__(self, document: Mapping[str, Any], text: str) -> None:
        self._root = dict(document)
        self._values = Values(self._root, "texts")
        self._text = text

    def of(self, schema: Mapping[str, Any], example: Any) -> list[Any]:
        """Return the variants, each once: by the schema, and by the leaves and names of the example."""
        found = [*self._by_schema(schema, example, ()), *self._by_leaf(example)]
        return list({json.dumps(one): one for one in found}.values())

    def _by_leaf(self, value: Any) -> Iterator[Any]:
        if isinstance(value, str):
            yield self._text
        elif isinstance(value, list):
            for index, item in enumerate(value):
                for variant in self._by_leaf(item):
                    yield [*value[:index], variant, *value[index + 1 :]]
        elif isinstance(value, dict):
            for name, member in value.items():
                yield from ({**value, name: variant} for variant in self._by_leaf(member))
            yield {**value, self._text: "x"}

    def _by_schema(self, schema: Any, base: Any, seen: tuple[str, ...]) -> Iterator[Any]:
        if not isinstance(schema, Mapping) or len(seen) > _LEVELS:
            return
        if "$ref" in schema:
            if schema["$ref"] not in seen:
                target = resolve(self._root, schema["$ref"])
                yield from self._by_schema(target, base, (*seen, schema["$ref"]))
            return
        for branch in (part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ())):
            yield from self._by_schema(branch, base, seen)
        kind = schema.get("type")
        if "const" in schema or kind in ("integer", "number", "boolean", "null"):
            return
        if kind == "string" or (kind is None and not schema.keys() & {"anyOf", "oneOf", "allOf"}):
            yield self._text
        if kind is None and "properties" not in schema:
            yield from ({"a": self._text}, {self._text: 1}, [self._text]) if "anyOf" not in schema else ()
            return
        if kind == "array":
            item = base[0] if isinstance(base, list) and base else self._made(schema.get("items", {}))
            yield from ([one] for one in self._by_schema(schema.get("items", {}), item, (*seen, "items")))
            return
        yield from self._by_members(schema, base, seen)

    def _by_members(self, schema: Mapping[str, Any], base: Any, seen: tuple[str, ...]) -> Iterator[Any]:
        members = dict(base) if isinstance(base, dict) else {}
        for name in schema.get("required", ()):
            members.setdefault(name, self._made(schema.get("properties", {}).get(name, {})))
        for name, member in schema.get("properties", {}).items():
            inner = members[name] if name in members else self._made(member)
            for variant in self._by_schema(member, inner, (*seen, name)):
                yield {**members, name: variant}
        rest = schema.get("additionalProperties")
        if rest is True or isinstance(rest, Mapping):
            rest = {} if rest is True else rest
            yield {**members, self._text: self._made(rest)}
            for variant in self._by_schema(rest, self._made(rest), (*seen, "*")):
                yield {**members, "another": variant}

    def _made(self, schema: Any) -> Any:
        try:
            return self._values.of(schema)
        except (LookupError, AttributeError, RecursionError):
            return {}
