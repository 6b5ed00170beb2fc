"""UTCP's variables: `${NAME}` and `$NAME` in the strings of hand-written providers and manuals.

The rules are those of the 1.x client: a name is `[a-zA-Z0-9_]+`; a string that contains `$ref` (not as the
beginning of a longer word) is left unchanged; substitution is one pass, so that a value is never read as a
template itself. `${VAR:-x}` is not a variable. Do not substitute in templates made from OpenAPI: `/$count` is
a path there.
"""

import io
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dotenv.parser import parse_stream

from app.core.errors import FieldError, InvalidInput, UnsetVariable
from app.core.text import MAX_DEPTH, pointer

VARIABLE: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}|\$([a-zA-Z0-9_]+)")
BRACED: Final = re.compile(r"\$\{([a-zA-Z0-9_]+)\}")
_REFERENCE: Final = re.compile(r"\$ref(?![a-zA-Z0-9_])")

Lookup = Callable[[str], str | None] | Mapping[str, str]


def find_variables(value: Any) -> list[str]:
    """Return the names of all variables in the strings of a JSON value, in order of appearance, each once."""
    return list(dict.fromkeys(name for name, _ in _find_occurrences(value)))


def substitute(value: Any, lookup: Lookup) -> Any:
    """Return a copy of a JSON value with every variable in its strings replaced. Keys are not changed.

    `lookup` maps a name as written to its value, or to None. Raises UnsetVariable, which names all variables
    without a value (also in `extra["variables"]`), with pointers to their occurrences.
    """
    find = lookup.get if isinstance(lookup, Mapping) else lookup
    # One lookup per name: every occurrence gets the same value, even if a second lookup would differ.
    values = {name: find(name) for name in find_variables(value)}
    missing = [name for name, found in values.items() if found is None]
    if missing:
        errors = [
            FieldError(at, f"The variable {name} has no value.")
            for name, at in _find_occurrences(value)
            if values[name] is None
        ]
        detail = f"These variables have no value: {', '.join(missing)}"
        raise UnsetVariable(detail, errors=errors, extra={"variables": missing})
    return _replace_variables(value, values) if values else value


def list_candidates(name: str, provider: str) -> tuple[str, ...]:
    """Return the names under which a variable of a provider may be stored, the most specific first.

    A UTCP client prefixes the manual's name: `KEY` of `my_gw` is `my__gw_KEY`. A name that already has this
    prefix is accepted as well.
    """
    namespace = re.sub(r"\W", "_", provider).replace("_", "__") + "_"
    if name.startswith(namespace) and len(name) > len(namespace):
        return (name, name[len(namespace) :])
    return (namespace + name, name)


def parse_dotenv(text: str) -> dict[str, str]:
    """Parse the assignments of a .env file (quotes, comments, `export`), without interpolation; the last one
    wins.

    Raises InvalidInput with one error for each line that cannot be parsed; it never repeats a value.
    """
    if "\x00" in text:
        raise InvalidInput(
            "The file contains NUL characters", errors=[FieldError("", "Must be a .env file, which is text.")]
        )
    variables: dict[str, str] = {}
    errors: list[FieldError] = []
    for binding in parse_stream(io.StringIO(text.removeprefix("\ufeff"))):
        line = binding.original.line
        if binding.error:
            errors.append(FieldError("", f"Line {line} is not of the form NAME=value."))
        elif binding.key is not None:
            if not re.fullmatch(r"[a-zA-Z0-9_]+", binding.key):
                errors.append(
                    FieldError("", f"Line {line}: a variable's name may contain only letters, digits and _.")
                )
            elif binding.value is None:
                errors.append(FieldError("", f"Line {line}: {binding.key} has no value."))
            else:
                variables[binding.key] = binding.value
    if errors:
        raise InvalidInput("The .env file cannot be read", errors=errors)
    return variables


def _find_occurrences(value: Any, location: str = "", depth: int = 0) -> list[tuple[str, str]]:
    if depth > MAX_DEPTH:
        raise InvalidInput(
            "The value is nested too deeply",
            errors=[FieldError(location, f"Nested more than {MAX_DEPTH} levels deep.")],
        )
    if isinstance(value, str):
        if "$" not in value or _REFERENCE.search(value):
            return []
        return [(match[1] or match[2], location) for match in VARIABLE.finditer(value)]
    occurrences: list[tuple[str, str]] = []
    if isinstance(value, dict):
        for key, member in value.items():
            if not (key == "$ref" and isinstance(member, str)):
                occurrences += _find_occurrences(member, pointer(location, key), depth + 1)
    elif isinstance(value, list):
        for index, member in enumerate(value):
            occurrences += _find_occurrences(member, pointer(location, index), depth + 1)
    return occurrences


def _replace_variables(value: Any, values: Mapping[str, str | None]) -> Any:
    if isinstance(value, str):
        if "$" not in value or _REFERENCE.search(value):
            return value
        return VARIABLE.sub(lambda match: values[match[1] or match[2]] or "", value)
    if isinstance(value, dict):
        return {
            key: member if key == "$ref" and isinstance(member, str) else _replace_variables(member, values)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [_replace_variables(member, values) for member in value]
    return value
