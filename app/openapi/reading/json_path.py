"""JSONPath (RFC 9535) for overlays, whose regular expressions take time linear in the text.

`match()` and `search()` take I-Regexps (RFC 9485). python-jsonpath compiles them with `re`, which backtracks:
`$..[?search(@.a, '(x+x+)+y')]` can take hours. RE2 does not (docs/decisions/0041).
"""

import contextlib
import functools
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from jsonpath import JSONPathEnvironment
from jsonpath.exceptions import JSONPathError
from jsonpath.function_extensions import ExpressionType, FilterFunction

from app.core.errors import TooLarge

Parts = tuple[str | int, ...]

_PROGRAM_BYTES: Final = 256 * 1024
# RE2 takes up to a second for 20,000,000 steps: an instruction of the pattern for a byte of text is one.
_MAX_STEPS: Final = 40_000_000


class JSONPaths:
    """Compiles and evaluates queries. `unusable` collects patterns that are not I-Regexps, and so match
    nothing.
    """

    def __init__(self) -> None:
        self.unusable: set[str] = set()
        self._environment = JSONPathEnvironment(strict=True)
        functions = self._environment.function_extensions
        functions["match"] = _Regex(self.unusable, whole=True)
        functions["search"] = _Regex(self.unusable, whole=False)

    def check(self, query: str) -> None:
        """Raise ValueError unless the text is a valid query."""
        try:
            self._environment.compile(query)
        except (JSONPathError, RecursionError) as error:
            raise ValueError(str(error)) from None

    def find(self, query: str, value: Any) -> list[Parts]:
        """Return the location of each node that the query selects, once each.

        Raises ValueError where it cannot be evaluated, TooLarge for a pattern that is too large for its text.
        """
        try:
            locations = [match.parts for match in self._environment.finditer(query, value)]
        except (JSONPathError, RecursionError) as error:
            raise ValueError(str(error)) from None
        return list(dict.fromkeys(locations))


class _Regex(FilterFunction):
    """`match()`, for the whole text, or `search()`, for any part of it (RFC 9535, 2.4.6 and 2.4.7)."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - the library's declaration.
    return_type = ExpressionType.LOGICAL

    def __init__(self, unusable: set[str], *, whole: bool) -> None:
        self._unusable = unusable
        self._whole = whole

    def __call__(self, value: object, pattern: object) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        compiled = _compile_pattern(pattern)
        if compiled is None:
            self._unusable.add(pattern)
            return False
        text = value.encode("utf-8", "surrogatepass")
        if compiled.programsize * len(text) > _MAX_STEPS:
            raise TooLarge("A regular expression of the overlay is too large for the text that it is used on")
        return bool(compiled.fullmatch(text) if self._whole else compiled.search(text))


@functools.lru_cache(maxsize=300)
def _compile_pattern(pattern: str) -> Any:
    """Compile a pattern; return None where RE2 cannot, e.g. for look-ahead, which I-Regexp does not have
    either.
    """
    # The import takes 40 ms, and few overlays have a pattern.
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.max_mem = _PROGRAM_BYTES
    options.log_errors = False
    try:
        return re2.compile(_without_line_ends(pattern).encode(), options)
    except (re2.error, UnicodeEncodeError):
        return None


def _without_line_ends(pattern: str) -> str:
    """Make unescaped dots outside of classes match neither line feed nor carriage return (RFC 9485, 5.4)."""
    parts = []
    escaped = in_class = False
    for character in pattern:
        if not escaped and character in "[]":
            in_class = character == "["
        parts.append(r"[^\n\r]" if character == "." and not escaped and not in_class else character)
        escaped = character == "\\" and not escaped
    return "".join(parts)


@contextlib.contextmanager
def limit_cpu(seconds: float, detail: str) -> Iterator[None]:
    """Raise TooLarge(detail) inside the block once the process has used so many seconds of CPU time in it.

    Effective only in the main thread, the one that signals reach; the child process converts in it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise TooLarge(detail)

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
