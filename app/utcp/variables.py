"""UTCP's variables: `${NAME}` and `$NAME` in the strings of hand-written providers and manuals.

The rules of the 1.x client: the name is `[a-zA-Z0-9_]+`; a string that holds `$ref` (not as the beginning of
a longer word) is left alone; one pass, so that a value is never read again as a template. `${VAR:-x}` is no
variable. Documents that came from OpenAPI are never substituted (`/$count` is a path), which is for the
caller to see to.
"""

import io
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dotenv.parser import parse_stream

from app.errors import Fault, InvalidInput, UnsetVariable
from app.text import MAX_DEPTH, pointer

VARIABLE: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}|\$([a-zA-Z0-9_]+)")
BRACED: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")
_REFERENCE: Final = re.compile(r"\$ref(?![a-zA-Z0-9_])")

Lookup = Callable[[str], str | None] | Mapping[str, str]


def find_variables(value: Any) -> list[str]:
    """The names of all variables in the strings of a JSON value, in order of appearance, each once."""
    return list(dict.fromkeys(name for name, _ in _occurrences(value)))


def substitute(value: Any, lookup: Lookup) -> Any:
    """A copy of a JSON value with every variable in its strings replaced. Keys are not touched.

    `lookup` maps a name as written to its value, or to None. Raises UnsetVariable that names all variables
    without a value (also as `extra["variables"]`), with pointers to where they stand.
    """
    find = lookup.get if isinstance(lookup, Mapping) else lookup
    # One look for each name: a lookup that answers differently the second time cannot split a value.
    known = {name: find(name) for name in find_variables(value)}
    missing = [name for name, found in known.items() if found is None]
    if missing:
        faults = [
            Fault(at, f"The variable {name} has no value.")
            for name, at in _occurrences(value)
            if known[name] is None
        ]
        detail = f"These variables have no value: {', '.join(missing)}"
        raise UnsetVariable(detail, errors=faults, extra={"variables": missing})
    return _replaced(value, known) if known else value


def candidates(name: str, provider: str) -> tuple[str, ...]:
    """The spellings under which a variable may be stored, the most particular first.

    A UTCP client puts the manual's name in front: `KEY` of `my_gw` is `my__gw_KEY`. A name that is written
    with that prefix already is understood, too.
    """
    namespace = re.sub(r"\W", "_", provider).replace("_", "__") + "_"
    if name.startswith(namespace) and len(name) > len(namespace):
        return (name, name[len(namespace) :])
    return (namespace + name, name)


def parse_dotenv(text: str) -> dict[str, str]:
    """The assignments of a .env file (quotes, comments, `export`), without interpolation; the last one wins.

    Raises InvalidInput with one fault for each line that cannot be read; values are never repeated in it.
    """
    if "\x00" in text:
        raise InvalidInput("The file holds NUL characters", errors=[Fault("", "This is not a .env file.")])
    found: dict[str, str] = {}
    faults: list[Fault] = []
    for binding in parse_stream(io.StringIO(text.removeprefix("\ufeff"))):
        line = binding.original.line
        if binding.error:
            faults.append(Fault("", f"Line {line} is not of the form NAME=value."))
        elif binding.key is not None:
            if not re.fullmatch(r"[a-zA-Z0-9_]+", binding.key):
                faults.append(Fault("", f"Line {line}: a variable's name has letters, digits and _ only."))
            elif binding.value is None:
                faults.append(Fault("", f"Line {line}: {binding.key} has no value."))
            else:
                found[binding.key] = binding.value
    if faults:
        raise InvalidInput("The .env file cannot be read", errors=faults)
    return found


def _occurrences(value: Any, at: str = "", depth: int = 0) -> list[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise InvalidInput(
            "The value is nested too deeply", errors=[Fault(at, f"At most {MAX_DEPTH} levels.")]
        )
    if isinstance(value, str):
        if "$" not in value or _REFERENCE.search(value):
            return []
        return [(match[1] or match[2], at) for match in VARIABLE.finditer(value)]
    found: list[tuple[str, str]] = []
    if isinstance(value, dict):
        for key, member in value.items():
            if not (key == "$ref" and isinstance(member, str)):
                found += _occurrences(member, pointer(at, key), depth + 1)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            found += _occurrences(member, pointer(at, index), depth + 1)
    return found


def _replaced(value: Any, known: Mapping[str, str | None]) -> Any:
    if isinstance(value, str):
        if "$" not in value or _REFERENCE.search(value):
            return value
        return VARIABLE.sub(lambda match: known[match[1] or match[2]] or "", value)
    if isinstance(value, dict):
        return {
            key: member if key == "$ref" and isinstance(member, str) else _replaced(member, known)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_replaced(member, known) for member in value]
    return value
