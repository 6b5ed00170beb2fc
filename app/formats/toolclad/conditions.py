"""The expressions of `when`: comparisons by `==` and `!=` as texts, joined by `and`. Nothing is evaluated.

    profile == 'fast' and ports != ""

The left side is the name of an argument or a default; the right side is a text in quotes, or a word. A
missing argument is the empty text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_COMPARISON: Final = re.compile(
    rf"\s*({_NAME})\s*(==|!=)\s*(?:'([^'\n]*)'|\"([^\"\n]*)\"|([^\s'\"=!<>()]+))\s*", re.ASCII
)
_AND: Final = re.compile(r"and(?=\s)")
MAX_LENGTH: Final = 2_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """A name, whether its value is to be equal, and the text that it is compared with."""

    name: str
    equal: bool
    text: str


Condition = tuple[Comparison, ...]


def parse_condition(text: str) -> Condition:
    """Return the comparisons of a condition, all of which must hold; raise ValueError for any other text."""
    if len(text) > MAX_LENGTH:
        msg = f"A condition has at most {MAX_LENGTH} characters."
        raise ValueError(msg)
    comparisons: list[Comparison] = []
    position = 0
    while True:
        match = _COMPARISON.match(text, position)
        if match is None:
            msg = "Write comparisons such as name == 'value' or name != '', joined by `and`."
            raise ValueError(msg)
        quoted = next((one for one in match.groups()[2:] if one is not None), "")
        comparisons.append(Comparison(match[1], match[2] == "==", quoted))
        position = match.end()
        if position == len(text):
            return tuple(comparisons)
        joined = _AND.match(text, position)
        if joined is None:
            msg = "Only `and` joins comparisons: there is no `or`, no parenthesis and no other operator."
            raise ValueError(msg)
        position = joined.end()


def holds(condition: Condition, values: Mapping[str, str]) -> bool:
    """Return whether all comparisons hold for the values, by name."""
    return all((values.get(one.name, "") == one.text) is one.equal for one in condition)
