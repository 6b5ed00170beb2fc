"""Docstrings in the styles of Google, NumPy and reStructuredText -> a description, and those of
parameters.
"""

import inspect
from collections.abc import Collection
from dataclasses import dataclass

from docstring_parser import ParseError, parse
from docstring_parser.common import (
    DocstringExample,
    DocstringMeta,
    DocstringParam,
    DocstringRaises,
    DocstringReturns,
)


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a docstring says: `description` of the function, and of parameters by their names."""

    description: str
    parameters: dict[str, str]


def read_docstring(text: str | None, parameters: Collection[str]) -> Documentation:
    """Return the documentation in a docstring of a function that has these parameters.

    What it says of a parameter is taken out of the description; the rest stays, in its order. A docstring
    that says nothing of a parameter, or cannot be parsed, is the description as a whole.
    """
    # From Python 3.13 on, the compiler takes the common indentation away.
    text = inspect.cleandoc(text or "").strip()
    try:
        parsed = parse(text)
    except ParseError:
        return Documentation(text, {})
    described: dict[str, str] = {}
    others: list[DocstringMeta] = []
    for each in parsed.meta:
        names = _names(each) & set(parameters) if isinstance(each, DocstringParam) else set()
        if names and each.description:
            described |= dict.fromkeys(sorted(names), each.description.strip())
        elif not names:
            others.append(each)
    if not described:
        return Documentation(text, {})
    parts = [(parsed.description or "").strip(), *(_section(each) for each in others)]
    return Documentation("\n\n".join(part for part in parts if part), described)


def _names(parameter: DocstringParam) -> set[str]:
    """Return the names of an entry; NumPy's may have several."""
    return {name.strip() for name in parameter.arg_name.split(",")}


def _section(meta: DocstringMeta) -> str:
    """Return an entry of a section as a paragraph; "" for an empty one."""
    said = (meta.description or "").strip()
    if isinstance(meta, DocstringExample):
        said = "\n".join(part for part in ((meta.snippet or "").strip(), said) if part)
        return f"Example:\n{said}" if said else ""
    if isinstance(meta, DocstringReturns):
        label = "Yields" if meta.is_generator else "Returns"
        said = said or meta.type_name or ""
    elif isinstance(meta, DocstringRaises):
        label = f"Raises {meta.type_name}" if meta.type_name else "Raises"
    elif isinstance(meta, DocstringParam):
        label = meta.arg_name
    else:
        label = meta.args[0].capitalize() if meta.args else ""
    return f"{label}: {said}".removeprefix(": ") if said else ""
