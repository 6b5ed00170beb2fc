"""Values that a JSON Schema accepts, as a model that is bound to the schema would write them.

They are deterministic for a seed. Keywords that are rare in exports are not looked at: what a schema does not accept is not
yielded.
"""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

from app.formats.json_schema.references import resolve, transform

FORMATS = {
    "date-time": "2026-01-02T03:04:05Z", "date": "2026-01-02", "time": "03:04:05Z", "duration": "P1D",
    "email": "a@b.example", "hostname": "a.example", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
    "uuid": "7b0f6c5e-4c26-4c2f-9e61-3f6c1c5d0a11", "uri": "https://a.example/b", "byte": "YQ==",
}  # fmt: skip
_LEVELS = 6
# How the description says what the schema of a dialect cannot: app/formats/dialects/losses.py.
_WORDS = {
    "minimum length": "minLength", "maximum length": "maxLength", "minimum number of items": "minItems",
    "maximum number of items": "maxItems", "minimum": "minimum", "maximum": "maximum", "greater than": "exclusiveMinimum",
    "minimum number of members": "minProperties", "maximum number of members": "maxProperties",
    **{name: name for name in ("if", "then", "else", "prefixItems", "dependentRequired", "dependentSchemas", "unevaluatedProperties")},
    "less than": "exclusiveMaximum", "multiple of": "multipleOf", "one of": "enum", "always": "const",
}  # fmt: skip
_NOTE = re.compile(
    r"(?:^|[(;] ?)(" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r") ([^;]*?)(?=;|\)$)"
)
_PATTERN = re.compile(r"[(;] ?pattern (.+?)(?=; [a-z]+ |\)$)")
_FORMAT = re.compile(r"[(;] ?format ([a-z0-9-]+)(?=;|\)$)")
_ANY: tuple[Any, ...] = ("abc", 1, 1.5, True, None, [], ["a", 1], {}, {"a": 1})
"""Values that a schema without keywords gets."""
_OBJECTS: tuple[dict[str, Any], ...] = ({"a": 1}, {"b": 1}, {"c": 1}, {})
_ABOUT_OBJECTS = (
    "if", "then", "else", "dependentRequired", "dependentSchemas", "unevaluatedProperties", "minProperties", "maxProperties",
)  # fmt: skip
_TEXTS = (
    "a",
    "abc",
    "Ada Lovelace",
    "2026-01-02",
    "https://a.example/x",
    "1",
    "x1-y_2",
    "ABCDEFGHIJ",
    "0" * 24,
)


class Values:
    """Makes values of the schemas in one document."""

    def __init__(self, root: dict[str, Any], seed: str) -> None:
        self.root = root
        self.random = random.Random(seed)

    def of(self, schema: Any, depth: int = 0) -> Any:
        """Return a value; it may be invalid where the schema has unusual keywords."""
        if not isinstance(schema, dict):
            return "any"
        schema = _read(schema)
        if "$ref" in schema:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return self.of({**resolve(self.root, schema["$ref"]), **rest}, depth)
        if "allOf" in schema:
            merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                found = resolve(self.root, part["$ref"]) if "$ref" in part else part
                merged = _both(merged, found)
            return self.of(merged, depth)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                rest = {name: value for name, value in schema.items() if name != key}
                branches = schema[key]
                plain = [one for one in branches if one.get("type") in ("null", "string", "integer")]
                branch = self.random.choice(plain if plain and depth > _LEVELS else branches)
                return self.of(
                    _both(rest, resolve(self.root, branch["$ref"]) if "$ref" in branch else branch), depth
                )
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        names = schema.get("type") or _implied_type(schema)
        if not schema.keys() - {"title", "description"}:
            return self.random.choice(_ANY)
        names = [names] if isinstance(names, str) else names
        if depth > _LEVELS and "null" in names:
            return None
        name = self.random.choice(names)
        if name == "object":
            return self._object(schema, depth)
        if name == "array":
            return self._array(schema, depth)
        if name == "string":
            return self._text(schema)
        if name in ("integer", "number"):
            return self._number(schema, name)
        return None if name == "null" else self.random.random() < 0.5

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required", [])
        likely = 0.5 if depth < _LEVELS else 0
        members = {
            name: self.of(member, depth + 1)
            for name, member in schema.get("properties", {}).items()
            if name in required or (self.random.random() < likely and not _is_read_only(member))
        }
        rest = schema.get("additionalProperties")
        if rest not in (None, False) and depth < _LEVELS and self.random.random() < 0.5:
            members["another"] = self.of({} if rest is True else rest, depth + 1)
        return members

    def _array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        least = schema.get("minItems", 0)
        most = min(schema.get("maxItems", least + 2), least + 2)
        number = least if depth > _LEVELS else self.random.randint(least, max(least, most))
        first = schema.get("prefixItems", [])
        return [
            self.of(first[index] if index < len(first) else schema.get("items", {}), depth + 1)
            for index in range(min(number, 20))
        ]

    def _text(self, schema: dict[str, Any]) -> Any:
        if "written as JSON text" in schema.get("description", ""):
            told = jsonschema_rs.Draft202012Validator(
                {key: schema[key] for key in schema if key in _ABOUT_OBJECTS}
            )
            return json.dumps(next((one for one in _OBJECTS if told.is_valid(one)), {}))
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]]
        text = self.random.choice(_TEXTS)
        least, most = schema.get("minLength", 0), schema.get("maxLength", 10_000)
        return (text + "a" * max(0, least - len(text)))[:most]

    def _number(self, schema: dict[str, Any], name: str) -> int | float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0) + 11) - 1)
        step = schema.get("multipleOf", 1)
        value = -(-low // step) * step + step * self.random.randint(
            0, max(0, min(5, int((high - low) // step)))
        )
        return int(value) if name == "integer" else value


def _implied_type(schema: dict[str, Any]) -> str:
    """Return the type that the keywords of a schema are about, which is meant where none is named."""
    if schema.get("additionalProperties") not in (None, True, False, {}):
        return "object"
    if any(schema.get(key) for key in ("properties", "required", "patternProperties")):
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else "string"


def _is_read_only(member: Any) -> bool:
    """Return whether a member is only of responses, so that no call has it."""
    return isinstance(member, dict) and member.get("readOnly") is True


def _read(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with what its description says about values, which a model reads, too."""
    text = schema.get("description")
    if not isinstance(text, str) or "(" not in text:
        return schema
    found: dict[str, Any] = {}
    for words, value in _NOTE.findall(text):
        try:
            found[_WORDS[words]] = json.loads(value)
        except ValueError:
            continue
    for keyword, expression in (("format", _FORMAT), ("pattern", _PATTERN)):
        if (named := expression.search(text)) is not None:
            found[keyword] = named[1]
    return {**found, **schema}


def _both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = {**one, **other}
    if "properties" in one and "properties" in other:
        merged["properties"] = one["properties"] | other["properties"]
    if "required" in one and "required" in other:
        merged["required"] = [*one["required"], *other["required"]]
    return merged


def values_of(schema: dict[str, Any], seed: str, number: int) -> Iterator[Any]:
    """Yield up to `number` values that the schema accepts, and what its descriptions say about values."""
    try:
        validator = jsonschema_rs.Draft202012Validator(transform(schema, _read))
    except ValueError:
        validator = jsonschema_rs.Draft202012Validator(schema)
    values = Values(schema, seed)
    for _ in range(number):
        value = values.of(schema)
        if validator.is_valid(value):
            yield value
