"""What model providers reject of the schemas of tools, in their words: their documented subsets of JSON Schema, as of autumn 2026.

The tables are from the types of the released SDKs, the vendors' pages and published error texts, and know nothing of those that
exports are made by. Where sources differ by model or server, the narrower one is taken.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Path = tuple[str | int, ...]
_STRINGS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_LOOK_AROUND = re.compile(r"\(\?(?:=|!|<=|<!)")
_PRIMITIVES = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Subset:
    """What a provider accepts in one mode. None: all keywords, formats, values of `enum`, or any number.

    `texts` are its words for what is wrong; {at} is the place, {key} the keyword or property, {value} its value.
    """

    texts: Mapping[str, str]
    keywords: frozenset[str] | None = None
    formats: frozenset[str] | None = None
    enum: tuple[type, ...] | None = None
    items_required: bool = False
    closed: bool = False
    all_required: bool = False
    typed: bool = False
    one_type: bool = False
    members_required: bool = False
    siblings: bool = True
    recursion: bool = True
    look_around: bool = True
    min_items: int | None = None
    keys: re.Pattern[str] | None = None
    levels: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    enum_characters: int | None = None
    characters: int | None = None


@dataclass(frozen=True)
class Provider:
    """A provider's API: what it accepts of each tool, and of all tools of a request together."""

    plain: Subset
    strict: Subset | None
    name: re.Pattern[str]
    tools: int | None = None
    strict_tools: int | None = None
    optional: int | None = None
    unions: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


OPENAI_TEXTS = {
    "root": "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{value}\"'.",
    "root-choice": "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
    "boolean": "In context={at}, {value} is not of type 'object'.",
    "keyword": "In context={at}, '{key}' is not permitted.",
    "closed": "In context={at}, 'additionalProperties' is required to be supplied and to be false.",
    "required": "In context={at}, 'required' is required to be supplied and to be an array including every key in "
    "properties. Missing '{key}'.",
    "undeclared": "In context={at}, 'required' is required to be supplied and to be an array including every key in "
    "properties. Extra required key '{key}' supplied.",
    "items": "In context={at}, array schema missing items.",
    "typed": "In context={at}, schema must have a 'type' key.",
    "format": "In context={at}, '{value}' is not a valid format.",
    "enum": "In context={at}, 'enum' has a value of an unsupported type.",
    "siblings": "In context={at}, $ref cannot have keywords {value}.",
    "look-around": "In context={at}, 'pattern' has a look-around, which is not supported.",
    "levels": "{value} levels of nesting exceeds limit of {key}.",
    "properties": "Too many properties: {value} exceeds limit of {key}.",
    "enum-values": "Expected at most {key} enum values in total within a schema, found {value}.",
    "enum-characters": "Expected at most {key} characters in an enum with more than 250 values, found {value}.",
    "characters": "The total length of all names, enum values and const values is {value}, and must not exceed {key}.",
}
OPENAI_PLAIN = Subset(OPENAI_TEXTS, items_required=True)
OPENAI_STRICT = Subset(
    OPENAI_TEXTS,
    keywords=frozenset({
        "type", "properties", "required", "additionalProperties", "items", "minItems", "maxItems", "enum", "const", "anyOf",
        "$ref", "$defs", "description", "title", "format", "pattern", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf",
    }),
    formats=frozenset(_STRINGS), enum=_PRIMITIVES, items_required=True, closed=True, all_required=True, typed=True,
    siblings=False, look_around=False, levels=10, properties=5_000, enum_values=1_000, enum_characters=15_000,
    characters=120_000,
)  # fmt: skip
ANTHROPIC_TEXTS = {
    "root": "input_schema.type: Field required",
    "root-choice": "input_schema does not support oneOf, allOf, or anyOf at the top level",
    "boolean": "JSON schema is invalid. It must match JSON Schema draft 2020-12: {at} is {value}",
    "keyword": "For '{value}' type, property '{key}' is not supported at {at}",
    "closed": "For 'object' type, 'additionalProperties' must be explicitly set to false at {at}",
    "typed": "A schema without a type is not supported at {at}",
    "format": "String format '{value}' is not supported at {at}",
    "enum": "Enum values must be primitives at {at}",
    "siblings": "$ref cannot have keywords {value} at {at}",
    "recursion": "Circular reference detected in schema definitions: {value}",
    "min-items": "For 'array' type, 'minItems' values other than 0 or 1 are not supported at {at}",
    "keys": "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$': {key}",
    "undeclared": "Required property '{key}' is not defined at {at}",
}
_ANTHROPIC_KEYS = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
ANTHROPIC_PLAIN = Subset(ANTHROPIC_TEXTS, keys=_ANTHROPIC_KEYS)
ANTHROPIC_STRICT = Subset(
    ANTHROPIC_TEXTS,
    keywords=frozenset({
        "type", "properties", "required", "additionalProperties", "items", "minItems", "enum", "const", "anyOf", "allOf",
        "$ref", "$defs", "description", "title", "format",
    }),
    formats=frozenset({*_STRINGS, "uri"}), enum=_PRIMITIVES, closed=True, typed=True, siblings=False, recursion=False,
    min_items=1, keys=_ANTHROPIC_KEYS,
)  # fmt: skip
GEMINI_TEXTS = {
    "root": "{at}: only OBJECT is supported at the top level.",
    "root-choice": "{at}: only OBJECT is supported at the top level.",
    "boolean": "Invalid value at '{at}' (type.googleapis.com/google.ai.generativelanguage.v1beta.Schema), {value}",
    "keyword": "Invalid JSON payload received. Unknown name \"{key}\" at '{at}': Cannot find field.",
    "items": "{at}.items: missing field.",
    "format": "{at}.format: only 'enum' and 'date-time' are supported for STRING type",
    "enum": "Invalid value at '{at}.enum' (TYPE_STRING), {value}",
    "one-type": "Invalid value at '{at}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), {value}",
    "typed": "{at}.type: must be specified",
    "members": "{at}.properties: should be non-empty for OBJECT type",
    "keys": "{at}.properties: Invalid property name: {key}",
    "undeclared": "{at}.required: property is not defined: {key}",
}
GEMINI_JSON_SCHEMA = Subset(GEMINI_TEXTS, enum=(str, int, float), items_required=True)
GEMINI_PARAMETERS = Subset(
    GEMINI_TEXTS,
    keywords=frozenset({
        "type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum",
        "properties", "propertyOrdering", "required", "minProperties", "maxProperties", "minimum", "maximum", "minLength",
        "maxLength", "pattern", "example", "anyOf",
    }),
    formats=frozenset({"enum", "date-time", "float", "double", "int32", "int64"}), enum=(str,), items_required=True,
    typed=True, one_type=True, members_required=True, keys=re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"),
)  # fmt: skip
_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_GEMINI_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
_OPENAI_REQUEST = {
    "name": "Invalid 'tools[{index}].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.",
    "tools": "Invalid 'tools': array too long. Expected an array with maximum length {key}, but got {value} instead.",
    "schema": "Invalid schema for function '{name}': {text}",
}
_ANTHROPIC_REQUEST = {
    "name": "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'",
    "schema": "tools.{index}.custom: {text}",
    "strict-tools": "Too many strict tools: {value}. The maximum is {key}.",
    "optional": "Schemas contain too many optional parameters ({value}), which would make grammar compilation inefficient. "
    "Reduce the number of optional parameters in your tool schemas (limit: {key}).",
    "unions": "Schemas contain too many parameters with union types ({value} parameters with type arrays or anyOf). This would "
    "cause exponential compilation cost. Reduce the number of union-typed parameters (limit: {key}).",
}
_GEMINI_REQUEST = {
    "name": "Invalid function name at tools[0].function_declarations[{index}].name: {name}",
    "tools": "At most {key} function declarations are supported: {value}",
    "schema": "tools[0].function_declarations[{index}].parameters: {text}",
}
OPENAI = Provider(OPENAI_PLAIN, OPENAI_STRICT, _OPENAI_NAME, tools=128, texts=_OPENAI_REQUEST)
ANTHROPIC = Provider(
    ANTHROPIC_PLAIN, ANTHROPIC_STRICT, _OPENAI_NAME, strict_tools=20, optional=24, unions=16, texts=_ANTHROPIC_REQUEST
)  # fmt: skip
GEMINI = Provider(GEMINI_JSON_SCHEMA, None, _GEMINI_NAME, tools=128, texts=_GEMINI_REQUEST)
GEMINI_OPENAPI = Provider(GEMINI_PARAMETERS, None, _GEMINI_NAME, tools=128, texts=_GEMINI_REQUEST)
# The tool of Cohere and of Ollama has no member `strict`.
WITHOUT_STRICT = Provider(OPENAI_PLAIN, None, _OPENAI_NAME, tools=128, texts=_OPENAI_REQUEST)
PROVIDERS: Mapping[str, Provider] = {
    "openai-chat": OPENAI, "openai-responses": OPENAI, "langchain": OPENAI, "mistral": OPENAI, "ai-sdk": OPENAI,
    "anthropic": ANTHROPIC, "bedrock": ANTHROPIC, "gemini": GEMINI, "gemini-openapi": GEMINI_OPENAPI,
    "cohere": WITHOUT_STRICT, "ollama": WITHOUT_STRICT,
}  # fmt: skip
"""By the format of the export."""


@dataclass(frozen=True)
class Tool:
    """A tool of a request, whatever its form."""

    name: str
    schema: Any
    strict: bool = False


def rejection(provider: Provider, tools: Sequence[Tool]) -> str | None:
    """Return the error text with which a provider rejects a request with these tools; None where it takes them."""
    texts = provider.texts
    if provider.tools is not None and len(tools) > provider.tools:
        return texts["tools"].format(key=provider.tools, value=len(tools))
    for index, tool in enumerate(tools):
        if not provider.name.fullmatch(tool.name):
            return texts["name"].format(index=index, name=tool.name)
        if tool.strict and provider.strict is None:
            return f"tools[{index}]: strict: Extra inputs are not permitted"
        subset = provider.strict if tool.strict and provider.strict is not None else provider.plain
        for text in broken(tool.schema, subset):
            return texts["schema"].format(index=index, name=tool.name, text=text)
    strict = [tool.schema for tool in tools if tool.strict]
    for kind, value, limit in (
        ("strict-tools", len(strict), provider.strict_tools),
        (
            "optional",
            sum(_optional(node) for schema in strict for _, node in _nodes(schema)),
            provider.optional,
        ),
        ("unions", sum(_is_union(node) for schema in strict for _, node in _nodes(schema)), provider.unions),
    ):
        if limit is not None and value > limit:
            return texts[kind].format(key=limit, value=value)
    return None


def broken(schema: Any, subset: Subset) -> Iterator[str]:
    """Yield the provider's texts about a schema of arguments."""
    texts = subset.texts
    if not isinstance(schema, dict) or str(schema.get("type")).lower() != "object":
        kind = schema.get("type") if isinstance(schema, dict) else schema
        yield texts["root"].format(at="parameters", value=kind)
        return
    if schema.keys() & {"oneOf", "anyOf", "allOf", "enum", "const", "not"}:
        yield texts["root-choice"].format(at="parameters")
    for path, node in _nodes(schema):
        at = _at(path)
        if not isinstance(node, dict):
            yield texts["boolean"].format(at=at, value=node)
            continue
        yield from _broken_keywords(node, at, subset)
        yield from _broken_values(node, at, subset)
        yield from _broken_objects(node, at, subset, is_root=not path)
    if not subset.recursion:
        yield from (texts["recursion"].format(value=name) for name in _cycles(schema))
    yield from _too_large(schema, subset)


def _at(path: Path) -> str:
    return str(path) if path else "()"


def _broken_keywords(node: dict[str, Any], at: str, subset: Subset) -> Iterator[str]:
    kinds = _types(node)
    for key, value in node.items():
        if subset.keywords is not None and key not in subset.keywords:
            yield subset.texts["keyword"].format(at=at, key=key, value=kinds[0] if kinds else "any")
        if key == "minItems" and subset.min_items is not None and value > subset.min_items:
            yield subset.texts["min-items"].format(at=at)
    if "$ref" in node and not subset.siblings and len(node) > 1:
        yield subset.texts["siblings"].format(at=at, value=sorted(node.keys() - {"$ref"}))
    if subset.typed and not node.keys() & {"type", "anyOf", "allOf", "$ref", "enum", "const"}:
        yield subset.texts["typed"].format(at=at)
    if "array" in kinds and subset.items_required and "items" not in node:
        yield subset.texts["items"].format(at=at)


def _broken_values(node: dict[str, Any], at: str, subset: Subset) -> Iterator[str]:
    texts = subset.texts
    if subset.formats is not None and "format" in node and node["format"] not in subset.formats:
        yield texts["format"].format(at=at, value=node["format"])
    if subset.enum is not None:
        values = [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]
        wrong = [value for value in values if not isinstance(value, subset.enum)]
        if bool not in subset.enum:
            wrong += [value for value in values if isinstance(value, bool)]
        if wrong:
            yield texts["enum"].format(at=at, value=wrong[0])
    if subset.one_type and "type" in node:
        kind = node["type"]
        if not isinstance(kind, str) or kind != kind.upper():
            yield texts["one-type"].format(at=at, value=kind)
    if not subset.look_around and _LOOK_AROUND.search(node.get("pattern", "")):
        yield texts["look-around"].format(at=at)


def _broken_objects(node: dict[str, Any], at: str, subset: Subset, *, is_root: bool) -> Iterator[str]:
    texts = subset.texts
    properties, required = node.get("properties", {}), node.get("required", [])
    if subset.keys is not None:
        yield from (
            texts["keys"].format(at=at, key=key) for key in properties if not subset.keys.fullmatch(key)
        )
    if "object" not in _types(node):
        return
    if subset.closed and node.get("additionalProperties") is not False:
        yield texts["closed"].format(at=at)
    if subset.all_required:
        yield from (texts["required"].format(at=at, key=key) for key in properties if key not in required)
    if subset.members_required and not properties and not is_root:
        yield texts["members"].format(at=at)
    if subset.keywords is not None:
        yield from (texts["undeclared"].format(at=at, key=key) for key in required if key not in properties)


def _too_large(schema: dict[str, Any], subset: Subset) -> Iterator[str]:
    nodes = [node for _, node in _nodes(schema) if isinstance(node, dict)]
    enums = [node.get("enum", []) for node in nodes]
    names = [name for node in nodes for name in node.get("properties", {})] + list(schema.get("$defs", {}))
    constants = [str(node["const"]) for node in nodes if "const" in node]
    texts = [value for values in enums for value in values if isinstance(value, str)]
    longest = max(
        (sum(len(str(value)) for value in values) for values in enums if len(values) > 250), default=0
    )
    for kind, value, limit in (
        ("levels", max((_level(path) for path, _ in _nodes(schema)), default=0), subset.levels),
        ("properties", sum(len(node.get("properties", {})) for node in nodes), subset.properties),
        ("enum-values", sum(map(len, enums)), subset.enum_values),
        ("enum-characters", longest, subset.enum_characters),
        ("characters", sum(map(len, [*names, *texts, *constants])), subset.characters),
    ):
        if limit is not None and value > limit:
            yield subset.texts[kind].format(key=limit, value=value)


def _level(path: Path) -> int:
    """Return how many objects and lists a schema is in; in a definition, from there."""
    inner = path[2:] if path[:1] == ("$defs",) else path
    return sum(1 for step in inner if step in ("properties", "items"))


def _types(node: Any) -> list[str]:
    kind = node.get("type", []) if isinstance(node, dict) else []
    return [str(one).lower() for one in ([kind] if isinstance(kind, str) else kind)]


def _optional(node: Any) -> int:
    return (
        len(node.get("properties", {}).keys() - set(node.get("required", ())))
        if isinstance(node, dict)
        else 0
    )


def _is_union(node: Any) -> bool:
    return isinstance(node, dict) and ("anyOf" in node or isinstance(node.get("type"), list))


def _nodes(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield a schema and those in it with their paths; what stands under keywords of values is none."""
    yield path, node
    if not isinstance(node, dict):
        return
    for key in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
        for name, member in node.get(key, {}).items():
            yield from _nodes(member, (*path, key, name))
    for key in ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"):
        if key in node and not (key == "additionalProperties" and isinstance(node[key], bool)):
            yield from _nodes(node[key], (*path, key))
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for index, member in enumerate(node.get(key, ())):
            yield from _nodes(member, (*path, key, index))


def _cycles(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the definitions that refer to themselves, perhaps by others."""
    named = {f"#/$defs/{name}": definition for name, definition in schema.get("$defs", {}).items()}
    links = {
        name: {node["$ref"] for _, node in _nodes(definition) if isinstance(node, dict) and "$ref" in node}
        for name, definition in named.items()
    }
    for name, direct in links.items():
        reached: set[str] = set()
        pending = list(direct)
        while pending:
            one = pending.pop()
            if one not in reached:
                reached.add(one)
                pending += links.get(one, ())
        if name in reached:
            yield name
