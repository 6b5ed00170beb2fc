"""When two calls are the same request: the tool, and the arguments after presets and repair.

Arguments are compared as they are stored, which is with secrets masked: so a recording that was exported and
imported elsewhere matches the same calls. Numbers keep their digits; the order of members does not count, and
neither does what the recording ignores. Two calls that differ only in a secret, or in what a toolset sets,
are the same request.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import orjson

from app.calls.arguments.masking import masked_arguments
from app.catalog.plan import Plan
from app.core import exact_json
from app.core.text import pointer, split_pointer
from app.security.masking import MASK, Masker
from app.security.vault import Vault

_MAX_DIFFERENCES: Final = 20
_MAX_SHOWN: Final = 200
_MAX_INTEGRAL: Final = 2**53
_ANY: Final = "*"
_ABSENT: Final = object()


def mask_for_storage(plan: Plan, arguments: Any, presets: Iterable[str], masker: Masker) -> dict[str, Any]:
    """Return the arguments of a call as they are stored: secrets, and what a toolset sets, are `***`."""
    given: dict[str, Any] = arguments if isinstance(arguments, dict) else {}
    masked = masked_arguments(given, plan.inputs, masker, complete=True)
    for preset in presets:
        _replace(masked, split_pointer(preset))
    canonical: dict[str, Any] = _normalize_numbers(masked)
    return canonical


def request_digest(vault: Vault, tool: str, arguments: Any, ignored: Iterable[str]) -> bytes:
    """Return a keyed digest of what identifies a request; `arguments` are those that
    `mask_for_storage` returns.
    """
    for ignored_pointer in ignored:
        arguments = _without(arguments, split_pointer(ignored_pointer))
    text = exact_json.dumps(_normalize_numbers(arguments), orjson.OPT_SORT_KEYS)
    return vault.digest("recorded-request", tool.encode(), text)


def digest_definition(plan: Plan) -> str:
    """Return the SHA-256 of the tool's definition as far as its callers know it: method, inputs and outputs.

    It has no secret, no address and no id, and is the same in each gateway.
    """
    parts = [plan.adapter.method(plan.target), plan.inputs, plan.outputs]
    text = exact_json.dumps(parts, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()


def find_nearest(
    arguments: Any, recorded: Sequence[tuple[str, Any]], ignored: Iterable[str]
) -> dict[str, Any] | None:
    """Return the recorded arguments that differ least, as a member of a problem: `recorded` are ids of
    interactions and their arguments; None without any.
    """
    for ignored_pointer in ignored:
        arguments = _without(arguments, split_pointer(ignored_pointer))
    best: tuple[int, str, Any, list[dict[str, Any]]] | None = None
    for number, known in recorded:
        compared = known
        for ignored_pointer in ignored:
            compared = _without(compared, split_pointer(ignored_pointer))
        differences = list(_find_differences(compared, arguments, ""))
        if best is None or len(differences) < best[0]:
            best = (len(differences), number, known, differences)
    if best is None:
        return None
    count, number, known, differences = best
    return {
        "interaction": number,
        "arguments": _shorten_value(known, 10 * _MAX_SHOWN),
        "differences": differences[:_MAX_DIFFERENCES],
        "difference_count": count,
    }


def is_masked_form(recorded: Any, given: Any, ignored: Iterable[str]) -> bool:
    """Return whether recorded arguments are the given ones with more of them masked: a gateway masks all
    secrets that it knows, and another one may know fewer.
    """
    for ignored_pointer in ignored:
        recorded, given = (
            _without(recorded, split_pointer(ignored_pointer)),
            _without(given, split_pointer(ignored_pointer)),
        )
    return _is_masked_form(recorded, given)


def _is_masked_form(recorded: Any, given: Any) -> bool:
    if isinstance(recorded, dict) and isinstance(given, dict):
        return recorded.keys() == given.keys() and all(
            _is_masked_form(member, given[name]) for name, member in recorded.items()
        )
    if isinstance(recorded, list) and isinstance(given, list):
        pairs = zip(recorded, given, strict=False)
        return len(recorded) == len(given) and all(_is_masked_form(*pair) for pair in pairs)
    if isinstance(recorded, str) and isinstance(given, str) and MASK in recorded:
        first, *between, last = recorded.split(MASK)
        if not (given.startswith(first) and given.endswith(last) and len(given) >= len(first) + len(last)):
            return False
        start, end = len(first), len(given) - len(last)
        for part in between:
            index = given.find(part, start, end)
            if index < 0:
                return False
            start = index + len(part)
        return True
    return not _differs(recorded, given)


def _find_differences(recorded: Any, given: Any, path: str) -> Iterator[dict[str, Any]]:
    if isinstance(recorded, dict) and isinstance(given, dict):
        for name in sorted(recorded.keys() | given.keys()):
            there, here = recorded.get(name, _ABSENT), given.get(name, _ABSENT)
            yield from _find_differences(there, here, pointer(path, name))
    elif isinstance(recorded, list) and isinstance(given, list):
        for index in range(max(len(recorded), len(given))):
            there = recorded[index] if index < len(recorded) else _ABSENT
            here = given[index] if index < len(given) else _ABSENT
            yield from _find_differences(there, here, pointer(path, index))
    elif _differs(recorded, given):
        difference: dict[str, Any] = {"pointer": path}
        if recorded is not _ABSENT:
            difference["recorded"] = _shorten_value(recorded, _MAX_SHOWN)
        if given is not _ABSENT:
            difference["given"] = _shorten_value(given, _MAX_SHOWN)
        yield difference


def _differs(recorded: Any, given: Any) -> bool:
    if recorded is _ABSENT or given is _ABSENT:
        return True
    return type(recorded) is not type(given) or bool(recorded != given)


def _shorten_value(value: Any, limit: int) -> Any:
    """Return a value that problems can have: its text where that is long, or has digits beyond a double."""
    text = exact_json.dumps(value).decode()
    if len(text) > limit:
        return f"{text[:limit]}..."
    return exact_json.without_decimals(value)


def _normalize_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _normalize_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_normalize_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_INTEGRAL:
        return int(value)
    return value


def _replace(target: Any, parts: Sequence[str]) -> None:
    """Mask what is at the end of a path of names, where there is something."""
    *parents, last = parts
    for name in parents:
        target = target.get(name) if isinstance(target, dict) else None
    if isinstance(target, dict) and last in target:
        target[last] = MASK


def _without(value: Any, parts: Sequence[str]) -> Any:
    """Return a copy of a value without what is at a path."""
    if not parts:
        return None
    first, rest = parts[0], parts[1:]
    if isinstance(value, list):
        return [
            _without(item, rest) if first == _ANY or first == str(index) else item
            for index, item in enumerate(value)
        ]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _without(member, rest) if first in (name, _ANY) else member
        for name, member in value.items()
        if rest or first not in (name, _ANY)
    }
