"""Arguments of a tool call as models write them: an object, or a text that ought to be JSON.

A text that is not JSON is repaired where only one reading is possible, and each repair is reported. What was
cut, is ambiguous or needs a guess becomes an ArgumentError: the model gets it as the result of its call, and
writes the call again.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from app.agents.tool_calls.model import ArgumentError
from app.calls.arguments.parsing import parse_arguments
from app.core.errors import GatewayError
from app.core.exact_json import parse_float
from app.core.text import pointer

EMPTY: Final = "The arguments were empty, and read as {}."
NULL: Final = "The arguments were null, and read as {}."
FENCE: Final = "The code fence around the arguments was removed."
ENCODED_TWICE: Final = "The arguments were a JSON string that contains JSON, and decoded once more."
TRAILING_COMMA: Final = "A comma before a closing bracket was removed from the arguments."
_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"[A-Za-z0-9_-]*")
# A string, perhaps without its end, or a comma that only white space separates from a closing bracket. The
# first cannot fail once it has begun: otherwise each quote in it would be tried as another beginning.
_STRING_OR_COMMA: Final = re.compile(r'"(?:[^"\\]|\\.?)*"?|,(?=[ \t\r\n]*[}\]])', re.DOTALL)
_MAX_NAMES: Final = 3


class RepeatedNames(dict[str, Any]):
    """An object of JSON text in which a name occurs more than once."""

    names: tuple[str, ...] = ()


def find_repeated_names(text: bytes, value: Any) -> Any | None:
    """Return the value of JSON text with each object that has a name more than once as RepeatedNames; None
    where there is no such object, or the text is not JSON. `value` is what a parser made of the text.
    """
    # Each member has one colon, also one that was lost; the others are in strings, unless they are escaped.
    if _colons(value) == text.count(b":") and b"\\u003" not in text:
        return None
    found = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        found = True
        repeated = RepeatedNames(built)
        counts = Counter(name for name, _ in pairs)
        repeated.names = tuple(name for name, count in counts.items() if count > 1)
        return repeated

    try:
        value = json.loads(text, object_pairs_hook=build, parse_float=parse_float)
    except (ValueError, RecursionError):
        return None
    return value if found else None


def _colons(value: Any) -> int:
    """Return how many colons the JSON text of a value has, those in strings not escaped."""
    count = 0
    pending = [value]
    while pending:
        node = pending.pop()
        if type(node) is str:
            count += node.count(":")
        elif type(node) is dict:
            count += len(node) + sum(name.count(":") for name in node)
            pending += node.values()
        elif type(node) is list:
            pending += node
    return count


def read_arguments(value: Any, *, limit: int) -> tuple[Any | ArgumentError, tuple[str, ...]]:
    """Return the arguments object that a call has as an object or as a text, and the repairs; an
    ArgumentError where there is none.

    `value` is None where the call has no arguments, which is no repair. `limit` is that of `parse_arguments`.
    """
    if value is None:
        return {}, ()
    if isinstance(value, str):
        return _read_text(value, limit)
    return _object_of(value), ()


def _read_text(text: str, limit: int) -> tuple[Any | ArgumentError, tuple[str, ...]]:
    if not text.strip():
        return {}, (EMPTY,)
    repairs: list[str] = []
    value: Any = text
    for _ in range(2):
        value = _parse(value, repairs, limit)
        if isinstance(value, str):
            if ENCODED_TWICE in repairs:
                break
            repairs.append(ENCODED_TWICE)
            continue
        break
    if value is None:
        return {}, (*repairs, NULL)
    if isinstance(value, ArgumentError):
        return value, ()
    found = _object_of(value)
    return found, () if isinstance(found, ArgumentError) else tuple(repairs)


def _parse(text: str, repairs: list[str], limit: int) -> Any | ArgumentError:
    """Return the value of a text, repaired where that is necessary and certain."""
    parsed = _strict(text, limit)
    if not isinstance(parsed, ArgumentError):
        return parsed
    attempts: tuple[tuple[str, Callable[[str], str]], ...] = (
        (FENCE, _without_fence),
        (TRAILING_COMMA, without_trailing_commas),
    )
    done: list[str] = []
    for sentence, repair in attempts:
        repaired = repair(text)
        if repaired == text:
            continue
        text = repaired
        done.append(sentence)
        again = _strict(text, limit)
        if not isinstance(again, ArgumentError):
            repairs += done
            return again
    return parsed


def _strict(text: str, limit: int) -> Any | ArgumentError:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        return ArgumentError("The arguments contain half of a surrogate pair.")
    try:
        value = parse_arguments(encoded, limit)
    except GatewayError as error:
        where = "".join(f" See {one.pointer}: {one.detail}" for one in error.errors[:1] if one.pointer)
        detail = error.detail.replace("The body", "The text of the arguments")
        return ArgumentError(f"{detail}{where} Send the arguments as one JSON object.")
    repeated = find_repeated_names(encoded, value)
    return value if repeated is None else repeated


def _object_of(value: Any) -> Any | ArgumentError:
    """Return an arguments object that has no name more than once, else what is wrong."""
    if not isinstance(value, dict):
        kind = _kind(value)
        return ArgumentError(f"The arguments must be one JSON object, and are {kind}.")
    found = _repeated(value)
    if found:
        where = ", ".join(found[:_MAX_NAMES])
        return ArgumentError(
            f"The arguments have a name more than once, so that one of the values would be lost: {where}."
        )
    return value


def _repeated(value: Any) -> list[str]:
    """Return JSON pointers to the members whose names occur more than once."""
    found: list[str] = []
    pending = [("", value)]
    while pending:
        at, node = pending.pop()
        members: Iterable[tuple[str | int, Any]] = ()
        if isinstance(node, RepeatedNames):
            found += [pointer(at, name) for name in node.names]
        if isinstance(node, dict):
            members = node.items()
        elif isinstance(node, list):
            members = enumerate(node)
        pending += [(pointer(at, key), member) for key, member in members]
    return sorted(found)


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case list():
            return "a list"
        case None:
            return "null"
    return "a number"


def _without_fence(text: str) -> str:
    fenced = text.strip()
    if len(fenced) < 2 * len(_FENCE) or not (fenced.startswith(_FENCE) and fenced.endswith(_FENCE)):
        return text
    inner = fenced[len(_FENCE) : -len(_FENCE)]
    language = _LANGUAGE.match(inner)
    return inner[language.end() if language is not None else 0 :].strip(" \t\r\n")


def without_trailing_commas(text: str) -> str:
    """Return JSON text without commas before closing brackets, except in strings."""
    return _STRING_OR_COMMA.sub(lambda found: found[0] if found[0][0] == '"' else "", text)
