"""Regular expressions of schemas: retained only if Python, ECMA 262 and the validator can all read them."""

import re
import warnings

import jsonschema_rs

UNREADABLE_PATTERN = "a pattern that not every regular expression engine reads cheaply was left out"
# Of 25,339 patterns of real documents, three are longer; one of those (all fonts) takes 0.2 s to compile.
_MAX_LENGTH = 4_000
_MAX_PATTERNS = 5_000
# Compiling unrolls counted repetitions: `(a{1,1000}){1,1000}` is a million states, 10,000 take about 5 ms.
_MAX_REPETITION = 10_000
_MAX_WORK = 1_000_000
_ATOM = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\\\]])*\]|\{(\d+)(?:,(\d*))?\}|[()]|.", re.DOTALL)
# Atomic and conditional groups, named groups, comments, inline flags: Python reads them, ECMA 262 does not.
_PYTHON_GROUP = re.compile(r"\(\?(?:P|#|>|\(|[aiLmsux-]+[:)])")


class Patterns:
    """Checks the patterns of one document, each once, and bounds the cost of all of them together."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._work = 0

    def is_usable(self, pattern: str) -> bool:
        """Return whether a pattern may stay in a tool's schema."""
        known = self._known.get(pattern)
        if known is None:
            known = self._known[pattern] = self._is_usable(pattern)
        return known

    def _is_usable(self, pattern: str) -> bool:
        if len(pattern) > _MAX_LENGTH or len(self._known) >= _MAX_PATTERNS or _is_python_only(pattern):
            return False
        repetition = _count_states(pattern)
        self._work += repetition
        if repetition > _MAX_REPETITION or self._work > _MAX_WORK:
            self._work -= repetition
            return False
        return _can_compile(pattern)


def _is_python_only(pattern: str) -> bool:
    """Return whether a pattern has a group that only Python knows, a possessive quantifier (`a++`), `\\A`
    or `\\Z`.
    """
    quantified = False
    for atom in _ATOM.finditer(pattern):
        token = atom[0]
        possessive = quantified and token == "+"
        if (
            possessive
            or token in ("\\A", "\\Z")
            or (token == "(" and _PYTHON_GROUP.match(pattern, atom.start()))
        ):
            return True
        quantified = token in ("*", "+", "?") or atom[1] is not None
    return False


def _count_states(pattern: str) -> int:
    """Return an estimate of the states that a pattern has once its counted repetitions are unrolled."""
    groups = [0]
    atom = 0
    for token in _ATOM.finditer(pattern):
        if token[0] == "(":
            groups.append(0)
            atom = 0
        elif token[0] == ")" and len(groups) > 1:
            atom = groups.pop()
            groups[-1] += atom
        elif token[1] is not None:
            digits = token[2] or token[1]
            times = max(int(digits), 1) if len(digits) <= 6 else _MAX_REPETITION + 1
            groups[-1] += atom * (times - 1)
            atom *= times
        else:
            atom = 1
            groups[-1] += 1
    return sum(groups)


def _can_compile(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            # A FutureWarning (`[[`) says that the meaning may change, not that the pattern is wrong.
            warnings.simplefilter("ignore")
            re.compile(pattern)
        jsonschema_rs.validator_for({"type": "string", "pattern": pattern})
    except (re.error, OverflowError, RecursionError, ValueError, jsonschema_rs.ValidationError):
        return False
    return True
