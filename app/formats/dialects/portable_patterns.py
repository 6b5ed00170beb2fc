"""Rewrites regular expressions with look-around, which many readers of schemas cannot compile, where the
rewritten one matches the same texts.

`pattern` only says whether a text matches (JSON Schema Validation section 6.3.3), so a look-ahead at the end
of an expression, and a look-behind at its beginning, may as well consume what they look at.
"""

import re
import warnings
from functools import lru_cache
from typing import Final

from app.formats.dialects.sanitize import is_portable_pattern

_MAX_LENGTH: Final = 4_000
# The patterns of pydantic for a Decimal: a sign, digits and a point, of which one must be no sign or point.
_DECIMAL: Final = r"^(?!^[-+.]*$)[+-]?0*"
_ANY_PLACES: Final = r"\d*\.?\d*$"
_PLACES: Final = re.compile(r"\\d\*\\\.\?\\d\{0,(\d{1,4})\}0\*\$")
_DIGITS: Final = re.compile(r"\(\?:\\d\{0,\d{1,4}\}\|[^|]*\)")
_NOT_BLANK: Final = frozenset({r"^(?!\s*$)", r"^(?!\s*$).*", r"^(?!\s+$)(?!$)", r"(?!^\s*$)^"})
_NOT_EMPTY: Final = frozenset({"^(?!$)", "(?!^$)^", "^(?!^$)"})
_SINGLE: Final = re.compile(r"\\?.|\[\^?(?:\\.|[^\\\]])+\]", re.DOTALL)


@lru_cache(maxsize=4_096)
def make_portable_pattern(pattern: str) -> str | None:
    """Return a regular expression that matches the same texts and that every reader compiles: ECMAScript,
    Python, and those without look-around. The same one where it is; None where none is known.
    """
    if _is_read_by_all(pattern):
        return pattern
    if len(pattern) > _MAX_LENGTH:
        return None
    rewritten = _rewrite(pattern)
    return rewritten if rewritten is not None and _is_read_by_all(rewritten) else None


def _is_read_by_all(pattern: str) -> bool:
    if not is_portable_pattern(pattern):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _rewrite(pattern: str) -> str | None:
    if pattern.startswith(_DECIMAL):
        return _rewrite_decimal(pattern.removeprefix(_DECIMAL))
    if pattern in _NOT_BLANK:
        return r"\S"
    if pattern in _NOT_EMPTY:
        return r"[\s\S]"
    return _consume_ends(pattern)


def _rewrite_decimal(rest: str) -> str | None:
    if rest == _ANY_PLACES:
        return r"^[+-]?(?:\d+\.?\d*|\.\d+)$"
    places = _PLACES.fullmatch(rest)
    if places is not None and int(places[1]) == 0:
        return r"^[+-]?(?:\d+\.?0*|\.0+)$"
    if places is not None:
        # Any number of zeros may follow the places.
        return rf"^[+-]?(?:\d+\.?\d{{0,{places[1]}}}0*|\.(?:\d{{1,{places[1]}}}0*|0+))$"
    # Its first alternative also matches no digit, and has no end.
    return "[^-+.]" if _DIGITS.fullmatch(rest) else None


def _consume_ends(pattern: str) -> str | None:
    """Return the expression with a look-behind at its beginning, and a look-ahead at its end, as groups."""
    groups = _find_groups(pattern)
    if not groups:
        return None
    result = pattern
    start, end = groups[-1]
    if end == len(pattern) and pattern[start:].startswith("(?="):
        result = f"{pattern[:start]}(?:{pattern[start + 3 :]}"
    elif end == len(pattern) and pattern[start:].startswith("(?!"):
        other = _negate(pattern[start + 3 : -1])
        result = pattern if other is None else f"{pattern[:start]}(?:{other}|$)"
    start, end = groups[0]
    if start == 0 and pattern.startswith("(?<="):
        result = f"(?:{result[4:]}"
    elif start == 0 and pattern.startswith("(?<!"):
        other = _negate(pattern[4 : end - 1])
        result = pattern if other is None else f"(?:^|{other}){result[end:]}"
    return None if result == pattern else result


def _negate(single: str) -> str | None:
    """Return the expression of the characters that another one does not match; None where that is none of
    a single character.
    """
    if not _SINGLE.fullmatch(single):
        return None
    if single.startswith("["):
        return f"[{single[2:]}" if single.startswith("[^") else f"[^{single[1:]}"
    if single.startswith("\\"):
        if single[1] in "dDsSwW":
            return f"\\{single[1].swapcase()}"
        return f"[^{single}]" if single[1] in "^$\\.*+?()[]{}|/nrtfv" else None
    return None if single in "^$.|()[]{}*+?\\" else f"[^{single}]"


def _find_groups(pattern: str) -> list[tuple[int, int]] | None:
    """Return begin and end of the groups that are in no other; None where an alternative is in none."""
    groups: list[tuple[int, int]] = []
    opened: list[int] = []
    in_class, index = False, 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(":
            opened.append(index)
        elif char == ")":
            if not opened:
                return None
            start = opened.pop()
            if not opened:
                groups.append((start, index + 1))
        elif char == "|" and not opened:
            return None
        index += 1
    return None if opened else groups
