"""Repairs schemas of tools for the clients of MCP, most of which lose the whole list for one odd schema.

The result is valid JSON Schema 2020-12 with an object at its root, without boolean subschemas, with local
references only, and otherwise unchanged (MCP 2025-11-25 and 2026-07-28, "Tool").
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from app.core.errors import GatewayError, InvalidDocument
from app.core.text import pointer
from app.formats.json_schema.normalize import to_2020_12
from app.formats.json_schema.references import drop_dangling, rebase, resolve, transform
from app.formats.json_schema.validator import ArgumentValidator, is_usable_pattern, is_valid_pattern

Schema = dict[str, Any]

BODY: Final = "body"
"""The property of an input schema that takes the arguments where these are not an object."""
RESULT: Final = "result"
"""The property of an output schema that has the result where this is not an object."""
DESCRIPTION_MAX: Final = 1_024
"""The characters of a description that the clients of all model providers accept."""
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NO_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}
_ANNOTATIONS: Final = frozenset(
    {"title", "description", "default", "examples", "$defs", "definitions", "$comment"}
)
_CUT: Final = " [cut]"
_SENTENCE: Final = re.compile(r"[.!?](?=\s)|\n")
_MAX_CHANGES: Final = 100
# ECMAScript with the flag `u` rejects escapes of other characters, `(?<` of what is no look-behind or group,
# flags inside a pattern, possessive quantifiers, and braces that are no quantifier (ECMA-262 section 22.2.1).
_ESCAPED: Final = frozenset("^$\\.*+?()[]{}|/dDsSwWbBfnrtv0123456789ckpPxu")
_INVALID: Final = ("]", "}", "*+", "++", "?+")
_BRACES: Final = re.compile(r"\{[\w=]+\}")
_QUANTIFIER: Final = re.compile(r"\{\d+(,\d*)?\}")
_GROUP: Final = re.compile(r"\(\?(?:[:=!]|<[=!]|<[A-Za-z_$][\w$]*>)")


class UnusableSchema(Exception):
    """A schema that cannot be repaired. `reason` is a sentence about it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """What a repair changed: the pointer (RFC 6901) in the original schema, and a sentence."""

    pointer: str
    detail: str


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A repaired schema. `is_wrapped`: the original is that of its only property, `body` or `result`."""

    schema: Schema = field(repr=False)
    changes: tuple[SchemaChange, ...] = ()
    is_wrapped: bool = False

    def unwrap(self, arguments: Mapping[str, Any]) -> Any:
        """Return what the original schema describes of arguments that the repaired one describes."""
        return arguments.get(BODY) if self.is_wrapped else dict(arguments)

    def wrap(self, result: Any) -> Any:
        """Return the result as the repaired output schema describes it."""
        return {RESULT: result} if self.is_wrapped else result


def sanitize_inputs(schema: Any) -> Sanitized:
    """Return the schema of arguments as all MCP clients accept it.

    A schema of something else than an object becomes that of the property `body`. Raise UnusableSchema for
    what is no schema, is nested too deeply, or accepts nothing.
    """
    repaired = _with_object(_with_patterns(_repair_schema(schema), is_valid_pattern), BODY)
    if not repaired.is_wrapped and _has_no_parameters(repaired.schema):
        result = {**_NO_PARAMETERS, **repaired.schema} | {"additionalProperties": False}
        repaired = Sanitized(result)
    return _check_repaired(schema, repaired)


def sanitize_outputs(schema: Any) -> Sanitized:
    """Return the schema of results as all MCP clients accept it; raise UnusableSchema.

    One of something else than an object becomes that of the property `result`. Patterns that ECMAScript does
    not have are dropped: clients compile them.
    """
    repaired = _with_patterns(_repair_schema(schema), is_portable_pattern)
    return _check_repaired(schema, _with_object(repaired, RESULT))


def choose_description(
    description: str, *, title: str = "", fallback: str = "", limit: int = DESCRIPTION_MAX
) -> str:
    """Return a description of at least 1 and at most `limit` characters, cut at the end of a sentence.

    It is the title where there is no description, and then the fallback (like `GET /books`). A text that was
    cut says so.
    """
    text = next((text.strip() for text in (description, title, fallback) if text.strip()), "A tool.")
    if len(text) <= limit:
        return text
    room = limit - len(_CUT)
    ends = [found.end() for found in _SENTENCE.finditer(text, 0, room + 1) if found.end() <= room]
    # A cut in the middle of a sentence is better than one that loses most of the text.
    end = ends[-1] if ends and ends[-1] >= room // 2 else text.rfind(" ", room // 2, room)
    return text[: end if end > 0 else room].rstrip() + _CUT


def _repair_schema(schema: Any) -> Schema:
    try:
        repaired = to_2020_12(schema)
    except InvalidDocument as error:
        raise UnusableSchema(f"{error.detail}.".replace("..", ".")) from None
    base = schema.get("$id") if isinstance(schema, dict) else None
    drop_dangling(repaired, base=base if isinstance(base, str) else "")
    if repaired.get("$schema", _DIALECT) != _DIALECT:
        del repaired["$schema"]
    return transform(repaired, _without_dynamic_references)


def _without_dynamic_references(node: Schema) -> Schema:
    """Return the schema without dynamic references, which need other documents to mean something."""
    return {key: value for key, value in node.items() if key not in ("$dynamicRef", "$dynamicAnchor")}


def _with_object(schema: Schema, name: str) -> Sanitized:
    """Return the schema with an object at its root: as it is, or as that of the property `name`."""
    target = _resolve_root(schema)
    types = target.get("type", "object")
    if target.get("not") == {}:
        raise UnusableSchema("The schema accepts no value.")
    if "object" in ([types] if isinstance(types, str) else types):
        root = {**target, "type": "object"} if "type" in target else {"type": "object", **target}
        return Sanitized(root)
    definitions: Schema = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    member = {key: value for key, value in schema.items() if key not in (*definitions, "$schema")}
    rebased = rebase(member, f"/properties/{name}")
    wrapped = {"type": "object", "properties": {name: rebased}, "required": [name]}
    return Sanitized(wrapped | rebase(definitions, f"/properties/{name}"), is_wrapped=True)


def _resolve_root(schema: Schema) -> Schema:
    """Return the schema with a reference at its root replaced by what it refers to."""
    seen: set[str] = set()
    root = schema
    while isinstance(reference := root.get("$ref"), str):
        rest = {key: value for key, value in root.items() if key != "$ref"}
        if reference in seen:
            return rest
        seen.add(reference)
        try:
            target = resolve(schema, reference)
        except LookupError:
            return root
        # A keyword beside the reference applies, too.
        if any(
            key in rest and rest[key] != value for key, value in target.items() if key not in _ANNOTATIONS
        ):
            return rest | {"allOf": [*rest.get("allOf", []), {"$ref": reference}]}
        root = {**target, **rest}
    return root


def _has_no_parameters(schema: Schema) -> bool:
    known = {"type", "properties", "required", "additionalProperties", "$schema", *_ANNOTATIONS}
    return (
        not schema.keys() - known
        and schema.get("properties") == {}
        and not schema.get("required")
        and schema.get("additionalProperties", False) is False
    )


def _check_repaired(original: Any, repaired: Sanitized) -> Sanitized:
    """Return the result with its changes; raise UnusableSchema where no validator can be compiled."""
    try:
        ArgumentValidator(repaired.schema)
    except GatewayError:
        raise UnusableSchema("The schema is not valid JSON Schema.") from None
    if repaired.is_wrapped:
        change = SchemaChange("", "It is not the schema of an object, and became that of a property.")
        return Sanitized(repaired.schema, (change,), is_wrapped=True)
    changes = tuple(islice(_list_changes(original, repaired.schema, ""), _MAX_CHANGES))
    return Sanitized(repaired.schema, changes)


def _list_changes(before: Any, after: Any, location: str) -> Iterator[SchemaChange]:
    """Yield where two schemas differ, from the root down."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in before:
            if key not in after:
                yield SchemaChange(pointer(location, str(key)), f"{key} was removed or renamed.")
            else:
                yield from _list_changes(before[key], after[key], pointer(location, str(key)))
        for key in after:
            if key not in before:
                yield SchemaChange(location, f"{key} was added.")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, other) in enumerate(zip(before, after, strict=True)):
            yield from _list_changes(old, other, pointer(location, index))
    elif type(before) is not type(after) or before != after:
        yield SchemaChange(location, "The value was replaced by a valid one.")


def _with_patterns(schema: Schema, is_accepted: Callable[[str], bool]) -> Schema:
    """Return the schema without the regular expressions that are not accepted."""

    def change(node: Schema) -> Schema:
        pattern, by_pattern = node.get("pattern"), node.get("patternProperties")
        result = node
        if isinstance(pattern, str) and not is_accepted(pattern):
            result = {key: value for key, value in node.items() if key != "pattern"}
        if isinstance(by_pattern, dict):
            members = {name: value for name, value in by_pattern.items() if is_accepted(name)}
            result = {**result, "patternProperties": members}
        return result

    return transform(schema, change)


def is_portable_pattern(pattern: str) -> bool:
    """Return whether a regular expression is one of ECMAScript with the flag `u`, and runs in linear time."""
    if not is_usable_pattern(pattern):
        return False
    index, in_class = 0, False
    while index < len(pattern):
        char, rest = pattern[index], pattern[index:]
        if char == "\\":
            following = pattern[index + 1 : index + 2]
            if following not in _ESCAPED and not (in_class and following == "-"):
                return False
            index += 2
            if braces := _BRACES.match(pattern, index) if following in "pPu" else None:
                index = braces.end()
            continue
        if in_class:
            if char == "[":
                return False
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "{":
            quantifier = _QUANTIFIER.match(rest)
            if quantifier is None:
                return False
            index += quantifier.end()
            continue
        elif rest.startswith(_INVALID) or (rest.startswith("(?") and _GROUP.match(rest) is None):
            return False
        index += 1
    return not in_class
