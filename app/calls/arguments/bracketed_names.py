"""Names of arguments with brackets, as axios and other clients write lists and objects into a query string.

`a[]=x` is an item of the list `a`, `a[0][b]=x` the member `b` of its first item, and `a[b][c]=x` the member
`c` of the member `b` of the object `a`.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from app.formats.json_schema.text_values import ITEM, TextTree

_KEYS: Final = re.compile(r"(?:\[[^\[\]]*\])+")
_KEY: Final = re.compile(r"\[([^\[\]]*)\]")
_MAX_DEPTH: Final = 32


def build_text_trees(values: Mapping[str, Sequence[str]], inputs: Collection[str]) -> dict[str, TextTree]:
    """Return the texts by the name of their input; names that cannot be read stay as they are.

    A name that is an input is no name with brackets.
    """
    trees: dict[str, TextTree] = {}
    for name, texts in values.items():
        keys = _split_keys(name, inputs)
        if not (keys and _insert(trees, keys, texts)):
            trees[name] = texts
    return trees


def _split_keys(name: str, inputs: Collection[str]) -> list[str]:
    """Return the longest beginning of a name that is an input, and its keys; [] for a name without any."""
    if name in inputs:
        return []
    start = name.rfind("[")
    while start > 0:
        base, rest = name[:start], name[start:]
        if base in inputs and _KEYS.fullmatch(rest):
            keys = _KEY.findall(rest)
            return [base, *keys] if len(keys) <= _MAX_DEPTH and ITEM not in keys[:-1] else []
        start = name.rfind("[", 0, start)
    return []


def _insert(trees: dict[str, TextTree], keys: list[str], texts: Sequence[str]) -> bool:
    """Add texts at a path of keys; return False where another name has given a value there."""
    node = trees
    for key in keys[:-1]:
        below = node.setdefault(key, {})
        if not isinstance(below, dict):
            return False
        node = below
    if keys[-1] in node:
        return False
    node[keys[-1]] = texts
    return True
