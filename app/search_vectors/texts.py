"""The texts by which a tool is encoded: one of what it does, one of its parameters and results."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

MAX_TEXT: Final = 600
"""Characters of a text: more than the 64 tokens that are encoded, of 4 to 5 characters in English each."""
TEXTS_OF_TOOL: Final = 2
_MAX_TITLE: Final = 80
_MAX_MEMBER: Final = 100
_MAX_MEMBERS: Final = 40
_MAX_DEPTH: Final = 3
# Between lower and upper case, before the last capital of an acronym, and around separators.
_PARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_.\-/]+")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """What is known of a tool's meaning. `name` is the canonical one, `inputs` and `outputs` are schemas."""

    provider: str
    name: str
    description: str
    title: str = ""
    """The title of the provider."""
    inputs: Mapping[str, Any] = field(default_factory=dict)
    outputs: Mapping[str, Any] = field(default_factory=dict)


def tool_texts(tool: DescribedTool) -> tuple[str, str]:
    """Return the two texts of a tool: what it does, and what it takes and returns ("" where neither has
    members).

    Each begins with the provider's title (else its name) and the tool's name, in words.
    """
    local = tool.name.removeprefix(f"{tool.provider}.")
    api = _line(tool.title)[:_MAX_TITLE] or _words(tool.provider)
    head = f"{api}: {_words(local)}."
    members = list(islice(_members(tool.inputs, 0), _MAX_MEMBERS))
    members += islice(_members(tool.outputs, 0), _MAX_MEMBERS - len(members))
    what = f"{head} {_line(tool.description)}"[:MAX_TEXT].strip()
    return what, f"{head} {', '.join(members)}"[:MAX_TEXT] if members else ""


def _members(schema: Any, depth: int) -> Iterator[str]:
    """Yield the names of a schema's properties in words, each with the beginning of its description."""
    if not isinstance(schema, Mapping) or depth >= _MAX_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, member in properties.items():
            description = member.get("description") if isinstance(member, Mapping) else None
            words = _words(str(name)[:_MAX_MEMBER])
            if isinstance(description, str) and description.strip():
                words = f"{words} ({_line(description[:_MAX_MEMBER])})"
            yield words
            yield from _members(member, depth + 1)
    yield from _members(schema.get("items"), depth + 1)


def _words(name: str) -> str:
    return _line(_PARTS.sub(" ", name)).lower()


def _line(text: str) -> str:
    return _SPACES.sub(" ", text[: 2 * MAX_TEXT]).strip()
