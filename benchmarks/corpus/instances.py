"""Values that a schema of the document allows, generated from a seed and validated against it."""

import math
import random
import re
import warnings
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser as sre_parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any

from benchmarks.corpus.reading import Json, Reading, UnresolvedError
from benchmarks.corpus.schema_validation import pattern_of, valid

_MAX_DEPTH = 6
_MAX_SCHEMAS = 400
_FORMATS = {
    "date": "2026-02-03", "date-time": "2026-02-03T04:05:06Z", "uuid": "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "email": "ann@example.com", "uri": "https://example.com/a", "url": "https://example.com/a",
    "ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "hostname": "example.com", "byte": "QUJD", "binary": "QUJD",
    "base64": "QUJD", "time": "04:05:06Z", "duration": "P1D",
}  # fmt: skip
_WORDS = ("alpha", "beta 1", "gamma", "d-e_f", "x/y", "été", "a&b=c", "50%")


class NoInstanceError(Exception):
    """Raised where no valid value was found within the budget."""


class Maker:
    """Generates values for the schemas of one document."""

    def __init__(self, reading: Reading, seed: str) -> None:
        self._reading = reading
        self._random = random.Random(seed)
        self._remaining = _MAX_SCHEMAS

    def value(self, schema: Any) -> Any:
        """Return a valid value. Raises NoInstanceError."""
        for full in (True, False):
            self._remaining = _MAX_SCHEMAS
            try:
                made = self._make(schema, 0, full=full)
                if valid(self._reading, schema, made):
                    return made
            except (NoInstanceError, UnresolvedError, RecursionError):
                continue
        raise NoInstanceError

    def _make(self, schema: Any, depth: int, *, full: bool) -> Any:
        self._remaining -= 1
        if self._remaining < 0 or depth > 3 * _MAX_DEPTH:
            raise NoInstanceError
        if not isinstance(schema, dict):
            if schema is False:
                raise NoInstanceError
            return "any"
        schema = self._merged(schema, depth)
        for word in ("enum", "const"):
            if word in schema:
                listed = schema[word] if word == "enum" else [schema[word]]
                fitting = [one for one in listed if one is not None] if isinstance(listed, list) else []
                if fitting:
                    return self._random.choice(fitting)
        kind = self._kind(schema)
        if kind == "object":
            return self._object(schema, depth, full=full)
        if kind == "array":
            return self._array(schema, depth, full=full)
        if kind == "string":
            return self._string(schema)
        if kind == "boolean":
            return self._random.random() < 0.5
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        return None if kind == "null" else "any"

    def _merged(self, schema: Json, depth: int) -> Json:
        """Return the schema with references and `allOf` merged, and one branch of each choice."""
        merged: Json = {"properties": {}, "required": []}
        stack: list[Any] = [schema]
        rounds = 0
        while stack:
            rounds += 1
            if rounds > 60:
                raise NoInstanceError
            one = stack.pop(0)
            if not isinstance(one, dict):
                continue
            if isinstance(one.get("$ref"), str):
                stack.insert(0, self._reading.at(one["$ref"]))
                if not self._reading.v31:
                    continue
            for word, value in one.items():
                if word == "properties" and isinstance(value, dict):
                    merged["properties"] = {**merged["properties"], **value}
                elif word == "required" and isinstance(value, list):
                    merged["required"] = [*merged["required"], *value]
                elif word not in ("$ref", "allOf", "anyOf", "oneOf"):
                    merged.setdefault(word, value)
            stack = [*one.get("allOf", ()), *stack] if isinstance(one.get("allOf"), list) else stack
            for word in ("oneOf", "anyOf"):
                if isinstance(one.get(word), list) and one[word]:
                    stack.append(one[word][0] if depth > 2 else self._random.choice(one[word]))
        return merged

    def _kind(self, schema: Json) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if isinstance(kind, str):
            return kind
        if schema["properties"] or schema["required"]:
            return "object"
        if "items" in schema:
            return "array"
        numeric = {"minimum", "maximum", "multipleOf"} & schema.keys()
        return "number" if numeric else "string" if {"pattern", "format"} & schema.keys() else "any"

    def _object(self, schema: Json, depth: int, *, full: bool) -> Json:
        made: Json = {}
        required = {name for name in schema["required"] if isinstance(name, str)}
        for name, one in schema["properties"].items():
            if self._reading.read_only(one):
                continue
            wanted = full and depth < 2 and self._random.random() < 0.7
            if name in required or wanted:
                try:
                    made[name] = self._make(one, depth + 1, full=full and depth < 2)
                except NoInstanceError:
                    if name in required:
                        raise
        for name in sorted(required - made.keys()):
            if name not in schema["properties"]:
                made[name] = self._make(schema.get("additionalProperties", True), depth + 1, full=False)
        least = schema.get("minProperties", 0)
        rest = schema.get("additionalProperties", True)
        while isinstance(least, int) and len(made) < least:
            if rest is False or len(made) > 20:
                break
            made[f"key{len(made)}"] = self._make(rest, depth + 1, full=False)
        return made

    def _array(self, schema: Json, depth: int, *, full: bool) -> list[Any]:
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        least = least if isinstance(least, int) else 0
        wanted = max(least, 2 if full and depth < 2 else 1 if full else 0)
        wanted = min(wanted, most if isinstance(most, int) else wanted)
        if wanted > 50:
            raise NoInstanceError
        items = schema.get("items", True)
        made: list[Any] = []
        for _ in range(4 * wanted):
            if len(made) < wanted:
                one = self._make(items if isinstance(items, dict | bool) else True, depth + 1, full=full)
                if one not in made or schema.get("uniqueItems") is not True:
                    made.append(one)
        return made

    def _number(self, schema: Json, kind: str) -> int | float:
        low, high = schema.get("minimum"), schema.get("maximum")
        exclusive_low, exclusive_high = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        step = schema.get("multipleOf")
        step = step if isinstance(step, int | float) and not isinstance(step, bool) and step > 0 else 1
        if isinstance(exclusive_low, int | float) and not isinstance(exclusive_low, bool):
            low = exclusive_low
        if isinstance(exclusive_high, int | float) and not isinstance(exclusive_high, bool):
            high = exclusive_high
        if not isinstance(low, int | float) and not isinstance(high, int | float):
            return step * self._random.randint(0, 1000) if step >= 1 else step
        if not isinstance(low, int | float):
            return math.floor((high - step) / step) * step if isinstance(high, int | float) else 0
        found = math.ceil(low / step) * step
        if found == low and exclusive_low not in (None, False):
            found += step
        if isinstance(high, int | float) and found > high and kind == "number":
            return (low + high) / 2
        return found

    def _string(self, schema: Json) -> str:
        made = _FORMATS.get(str(schema.get("format"))) or self._random.choice(_WORDS)
        pattern = schema.get("pattern")
        compiled = pattern_of(pattern) if isinstance(pattern, str) else None
        if compiled is not None and not compiled.search(made):
            made = matching(str(pattern))
        least, most = schema.get("minLength", 0), schema.get("maxLength")
        if isinstance(least, int) and len(made) < least:
            if least > 5_000:
                raise NoInstanceError
            made += (made[-1:] or "a") * (least - len(made))
        return made[:most] if isinstance(most, int) and len(made) > most else made


def matching(pattern: str) -> str:
    """Return the shortest text that follows from a pattern's structure. Raises NoInstanceError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "".join(_text(item) for item in sre_parser.parse(pattern))
    except (re.error, KeyError, IndexError, TypeError, ValueError, OverflowError, RecursionError):
        raise NoInstanceError from None


def _text(item: Any) -> str:
    name, value = item
    if name is sre.LITERAL:
        return chr(value)
    if name is sre.IN:
        return _one_of(value)
    if name in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        least, most, inner = value
        return "".join(map(_text, inner)) * int(min(max(least, 1), most if isinstance(most, int) else least))
    if name is sre.SUBPATTERN:
        return "".join(map(_text, value[3]))
    if name is sre.BRANCH:
        return "".join(map(_text, value[1][0]))
    if name is sre.CATEGORY:
        return {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " "}.get(str(value), "a")
    if name is sre.ANY:
        return "a"
    if name is sre.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if name in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
        return ""
    raise NoInstanceError


def _one_of(members: Any) -> str:
    if members[0][0] is sre.NEGATE:
        return next(c for c in "a1 -Z" if not re.match(_class(members[1:]), c))
    name, value = members[0]
    if name is sre.RANGE:
        return chr(value[0])
    return _text((name, value))


def _class(members: Any) -> str:
    parts = []
    for name, value in members:
        if name is sre.LITERAL:
            parts.append(re.escape(chr(value)))
        elif name is sre.RANGE:
            parts.append(f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}")
        else:
            parts.append(
                {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}[str(value)]
            )
    return f"[{''.join(parts)}]"
