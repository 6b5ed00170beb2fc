"""Projection of a JSON value: only the parts that JSON pointers or JSONPaths name, in their places."""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from app.core.errors import FieldError, InvalidInput

MAX_FIELDS: Final = 50
_MAX_LENGTH: Final = 500
_MAX_NODES: Final = 100_000
_MAX_VISITED: Final = 1_000_000
_MAX_SECONDS: Final = 1.0

Parts = tuple[str | int, ...]
Tree = dict[str | int, Any]


def check_fields(fields: Sequence[str], *, at: str) -> None:
    """Raise InvalidInput, with the pointer `at`, for a field that is no JSON pointer (RFC 6901) or JSONPath
    (RFC 9535), or is a query with a filter or with more than one descendant segment (`..`).
    """
    if len(fields) > MAX_FIELDS:
        detail = f"Give at most {MAX_FIELDS} fields."
        raise InvalidInput("There are too many fields.", errors=[FieldError(at, detail)])
    for field in fields:
        problem = _find_problem(field)
        if problem:
            raise InvalidInput(f"A field cannot be used: {problem}", errors=[FieldError(at, problem)])


def project(value: Any, fields: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the parts of a value in their places, items that are left out without a gap, and the fields that
    name none of its parts.

    The fields have been checked. A field stops where it would name more than 100,000 parts, and all stop
    where they have taken a second of CPU time.
    """
    end = time.thread_time() + _MAX_SECONDS
    tree: Tree = {}
    is_whole = False
    missing = []
    for field in fields:
        has_parts = False
        for parts in _find_locations(value, field, end):
            has_parts = True
            if parts:
                _add(tree, parts)
            else:
                is_whole = True
        if not has_parts:
            missing.append(field)
    return value if is_whole else _select_parts(value, tree), missing


def _find_problem(text: str) -> str:
    if len(text) > _MAX_LENGTH:
        return f"A field has at most {_MAX_LENGTH} characters."
    if text.startswith("/"):
        return ""
    if not text.startswith("$"):
        return "Give a JSON pointer such as /items/0, or a JSONPath such as $.items[*].id."
    # The import takes 40 ms.
    from jsonpath import JSONPathEnvironment  # noqa: PLC0415
    from jsonpath.exceptions import JSONPathError  # noqa: PLC0415

    try:
        segments = getattr(JSONPathEnvironment(strict=True).compile(text), "segments", None)
    except (JSONPathError, RecursionError):
        return "This is not a JSONPath (RFC 9535)."
    names = [type(segment).__name__ for segment in segments or ()]
    selectors = [
        type(one).__name__ for segment in segments or () for one in getattr(segment, "selectors", ())
    ]
    if segments is None or "Filter" in selectors:
        return "A JSONPath here has no filter."
    if names.count("JSONPathRecursiveDescentSegment") > 1:
        return "A JSONPath here has at most one `..`."
    return ""


def _find_locations(value: Any, text: str, end: float) -> Iterator[Parts]:
    if text.startswith("/"):
        yield from _find_at_pointer(value, text)
        return
    if not isinstance(value, dict | list):
        # The library would read a text as JSON.
        if text == "$":
            yield ()
        return
    from jsonpath import JSONPath, JSONPathEnvironment  # noqa: PLC0415
    from jsonpath.exceptions import JSONPathError  # noqa: PLC0415

    path = JSONPathEnvironment(strict=True).compile(text)
    if not isinstance(path, JSONPath):
        return
    root = path.env.match_class(filter_context={}, obj=value, parent=None, path="$", parts=(), root=value)
    matches: Iterable[Any] = (root,)
    for segment in path.segments:
        # A segment may select a node several times: those that lead to no match count, too.
        matches = _limit_nodes(segment.resolve(matches), end)
    try:
        for match in islice(matches, _MAX_NODES):
            yield match.parts
    except (JSONPathError, RecursionError):
        return


def _limit_nodes(nodes: Iterable[Any], end: float) -> Iterator[Any]:
    """Yield the nodes up to the limit of those visited, and until `end` (`time.thread_time()`)."""
    for node in islice(nodes, _MAX_VISITED):
        if time.thread_time() > end:
            return
        yield node


def _find_at_pointer(value: Any, text: str) -> Iterator[Parts]:
    parts: list[str | int] = []
    for token in text.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isascii() and key.isdecimal() and int(key) < len(value):
            parts.append(int(key))
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            parts.append(key)
            value = value[key]
        else:
            return
    yield tuple(parts)


def _add(tree: Tree, parts: Parts) -> None:
    """Add a location; a leaf is None, and a place that is a leaf has all below it."""
    node = tree
    for part in parts[:-1]:
        inner = node.setdefault(part, {})
        if inner is None:
            return
        node = inner
    node[parts[-1]] = None


def _select_parts(value: Any, tree: Tree) -> Any:
    if isinstance(value, list):
        return [
            value[index] if tree[index] is None else _select_parts(value[index], tree[index])
            for index in sorted(int(key) for key in tree)
        ]
    if not isinstance(value, dict):
        return value
    return {
        key: member if tree[key] is None else _select_parts(member, tree[key])
        for key, member in value.items()
        if key in tree
    }
