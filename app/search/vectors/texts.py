"""The texts by which a tool is encoded: what it does, with the name and with the title of its provider."""

import re
from dataclasses import dataclass
from typing import Final

MAX_TEXT: Final = 600
"""Characters of a text: more than the 64 tokens that are encoded, of 4 to 5 characters in English each."""
TEXTS_OF_TOOL: Final = 2
_MAX_TITLE: Final = 80
# Between lower and upper case, before the last capital of an acronym, and around separators.
_PARTS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[_.\-/]+")
_SPACES: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class DescribedTool:
    """What is encoded of a tool; `name` is the canonical one."""

    provider: str
    name: str
    description: str
    title: str = ""
    """The title of the provider."""


def write_tool_texts(tool: DescribedTool) -> tuple[str, str]:
    """Return the two texts of a tool: its provider's name, its own name in words and its description; and the
    same with the provider's title ("" where it has none, or one of the same words).
    """
    api = _split_name(tool.provider)
    what = f"{_split_name(tool.name.removeprefix(f'{tool.provider}.'))}. {_join_line(tool.description)}"
    title = _join_line(tool.title)[:_MAX_TITLE]
    second = f"{title}: {what}"[:MAX_TEXT].strip() if title and title.lower() != api else ""
    return f"{api}: {what}"[:MAX_TEXT].strip(), second


def _split_name(name: str) -> str:
    return _join_line(_PARTS.sub(" ", name)).lower()


def _join_line(text: str) -> str:
    return _SPACES.sub(" ", text[: 2 * MAX_TEXT]).strip()
