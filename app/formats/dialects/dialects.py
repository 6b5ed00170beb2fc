"""The dialects in which models' clients take tools: their limits and keywords, as data (`tables/*.toml`)."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

Format = Literal[
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-openapi", "bedrock", "mistral",
    "cohere", "ollama", "ai-sdk", "langchain", "mcp", "utcp", "json-prompt",
]  # fmt: skip
"""The formats of exports."""
Strict = Literal["auto", "true", "false"]
"""Whether a tool is exported for constrained decoding: where nothing is lost, wherever possible, never."""

FORMATS: Final[tuple[Format, ...]] = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-openapi", "bedrock", "mistral",
    "cohere", "ollama", "ai-sdk", "langchain", "mcp", "utcp", "json-prompt",
)  # fmt: skip
_TABLES: Final = Path(__file__).parent / "tables"


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """What a dialect does with the keywords of JSON Schema.

    Keywords in `keep` stay (`*`: all); others become a sentence of the description. Of `values` only these
    stay. For the other members see docs/dialects.md.
    """

    keep: frozenset[str] = frozenset({"*"})
    values: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    formats: frozenset[str] | None = None
    references: Literal["keep", "inline"] = "keep"
    recursion: bool = True
    reference_siblings: bool = True
    one_of: Literal["keep", "any-of"] = "keep"
    all_of: Literal["keep", "merge"] = "keep"
    const: Literal["keep", "enum"] = "keep"
    enum: Literal["any", "primitives", "strings-and-numbers", "strings"] = "any"
    types: Literal["lists", "nullable"] = "lists"
    maps: Literal["keep", "pairs", "reject"] = "keep"
    free_form: Literal["keep", "json-text", "reject"] = "keep"
    closed: bool = False
    all_required: bool = False
    items_required: bool = False
    empty_objects: bool = True
    portable_patterns: bool = False

    def keeps(self, keyword: str) -> bool:
        """Return whether the dialect has the keyword."""
        return "*" in self.keep or keyword in self.keep


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest numbers that a dialect accepts; None where none is known.

    `optional`, `unions` and `strict_tools` are those of all tools of a request; the others of one strict
    schema.
    """

    depth: int | None = None
    properties: int | None = None
    enum_values: int | None = None
    characters: int | None = None
    enum_characters: int | None = None
    optional: int | None = None
    unions: int | None = None
    strict_tools: int | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """A dialect as of `checked_on`. `version` is that of its table.

    A `verbatim` dialect has whole schemas. `strict` is None where it has no constrained decoding;
    `auto_strict` is False where that is a setting of the whole request.
    """

    format: Format
    version: int
    checked_on: date
    plain: SchemaRules
    strict: SchemaRules | None
    limits: Limits
    name_pattern: str
    description_max: int | None
    property_description_max: int | None = None
    property_pattern: str | None = None
    tools_max: int | None = None
    verbatim: bool = False
    auto_strict: bool = True
    strict_note: str | None = None

    def export_name(self, name: str, alias: str = "") -> str:
        """Return the name of a tool in this dialect: its alias where a name must not have a dot, with `_`
        before it where it must not begin so.
        """
        if re.fullmatch(self.name_pattern, name):
            return name
        return self.export_name(alias) if alias and "." in name else f"_{name}"

    def list_original_names(self, name: str) -> tuple[str, ...]:
        """Return the names that may have been exported as this one, the likeliest first."""
        rest = name[1:] if name.startswith("_") else ""
        return (name, rest) if rest and self.export_name(rest) == name else (name,)


@cache
def load_dialect(name: Format) -> Dialect:
    """Return a dialect; raise KeyError for a format that has none (`utcp`, which has schemas of its own)."""
    if name not in FORMATS or name == "utcp":
        raise KeyError(name)
    table = _load_table(name)
    strict = table.get("strict")
    patterns = table.get("properties", {})
    return Dialect(
        format=name,
        version=table["version"],
        checked_on=table["checked_on"],
        plain=_read_rules(table.get("plain", {})),
        strict=None if strict is None else _read_rules(strict),
        limits=Limits(**table.get("limits", {})),
        name_pattern=table["tools"]["name_pattern"],
        description_max=table["tools"].get("description_max"),
        tools_max=table["tools"].get("max"),
        property_pattern=patterns.get("name_pattern"),
        property_description_max=patterns.get("description_max"),
        verbatim=table.get("verbatim", False),
        auto_strict=table.get("auto_strict", True),
        strict_note=table.get("strict_note"),
    )


def _load_table(name: str) -> dict[str, Any]:
    """Return the table of a dialect: its own members over those of the table that it is based on."""
    table = tomllib.loads((_TABLES / f"{name}.toml").read_text("utf-8"))
    base = table.pop("based_on", None)
    if base is None:
        return table
    inherited = _load_table(base)
    for section in table.pop("without", ()):
        inherited.pop(section, None)
    return {
        key: {**inherited[key], **table[key]}
        if isinstance(table.get(key), dict) and isinstance(inherited.get(key), dict)
        else table.get(key, inherited.get(key))
        for key in (inherited | table)
    }


def _read_rules(table: Mapping[str, Any]) -> SchemaRules:
    members = dict(table)
    if "keep" in members:
        members["keep"] = frozenset(members["keep"])
    if "formats" in members:
        members["formats"] = frozenset(members["formats"])
    members["values"] = {key: tuple(values) for key, values in members.get("values", {}).items()}
    return SchemaRules(**members)
