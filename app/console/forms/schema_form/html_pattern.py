"""Regular expressions of JSON Schema as the `pattern` of HTML inputs.

Browsers compile it with the flag `v` for the whole value, on each key, by a matcher that backtracks: only
simple anchored expressions are passed on, rewritten where `v` is stricter. The API checks all of them.
"""

import re
from typing import Any, Final

_MAX_LENGTH: Final = 200
_MAX_UNBOUNDED: Final = 2
_ATOM: Final = re.compile(
    r"\\(?P<escaped>[dwsDWS.\-/+*?()\[\]{}|^$])"
    r"|\[(?P<set>\^?[^\]\[\\]+)\]"
    r"|(?P<plain>[A-Za-z0-9 _:@,=#%&;!~'<>./-])"
)
_QUANTIFIER: Final = re.compile(r"\{[0-9]{1,5}(?:,[0-9]{0,5})?\}|[*+?]")
_SPECIAL_IN_SETS: Final = frozenset("()[]{}/|\\&!#$%*+,.:;<=>?@^`~-")


def html_pattern(pattern: Any) -> str | None:
    """Return an expression for the attribute `pattern`; None where the browser should not check it."""
    if not isinstance(pattern, str) or len(pattern) > _MAX_LENGTH:
        return None
    if not (pattern.startswith("^") and pattern.endswith("$") and not pattern.endswith("\\$")):
        return None
    position, end, unbounded = 1, len(pattern) - 1, 0
    parts: list[str] = []
    while position < end:
        atom = _ATOM.match(pattern, position, end)
        if atom is None:
            return None
        members = atom["set"]
        written = _set(members) if members else _write_atom(atom)
        if written is None:
            return None
        parts.append(written)
        position = atom.end()
        quantifier = _QUANTIFIER.match(pattern, position, end)
        if quantifier is not None:
            unbounded += quantifier[0] in "*+" or quantifier[0].endswith(",}")
            parts.append(quantifier[0])
            position = quantifier.end()
    return "".join(parts) if unbounded <= _MAX_UNBOUNDED and parts else None


def _write_atom(atom: re.Match[str]) -> str:
    if atom["escaped"]:
        return "-" if atom["escaped"] == "-" else atom[0]
    return "\\/" if atom[0] == "/" else atom[0]


def _set(members: str) -> str | None:
    """Return a character class as the flag `v` wants it: specials escaped, ranges of letters or digits."""
    negated, rest = ("^", members[1:]) if members.startswith("^") else ("", members)
    parts: list[str] = []
    position = 0
    while position < len(rest):
        if re.match(r"[A-Za-z0-9]-[A-Za-z0-9]", rest[position:]):
            if rest[position] > rest[position + 2]:
                return None
            parts.append(rest[position : position + 3])
            position += 3
        elif rest[position] == "-" and 0 < position < len(rest) - 1:
            return None
        else:
            parts.append("\\" + rest[position] if rest[position] in _SPECIAL_IN_SETS else rest[position])
            position += 1
    return f"[{negated}{''.join(parts)}]" if parts else None
