"""Which headers of an upstream's response clients get: one rule for live and recorded responses."""

from collections.abc import Iterable
from typing import Final

_PASSED_HEADERS: Final = frozenset(
    {
        "link",
        "location",
        "content-location",
        "content-disposition",
        "content-language",
        "etag",
        "last-modified",
        "retry-after",
        "deprecation",
        "sunset",
        "ratelimit",
        "x-request-id",
        "x-total-count",
    }
)
_PASSED_PREFIXES: Final = ("ratelimit-", "x-ratelimit-")


def select_passed_headers(
    headers: Iterable[tuple[str, str]], *, besides: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """Return the headers that may be passed on, in their order, and those whose lower-case names are in
    `besides`.

    They inform the client and change nothing on its side: there is no Set-Cookie, no hop-by-hop header, and
    nothing that a browser or a cache obeys. Values that are not printable ASCII are left out.
    """
    passed: list[tuple[str, str]] = []
    for name, value in headers:
        lowered = name.lower()
        may_pass = lowered in _PASSED_HEADERS or lowered.startswith(_PASSED_PREFIXES) or lowered in besides
        if may_pass and value.isascii() and value.isprintable():
            passed.append((name, value))
    return passed
