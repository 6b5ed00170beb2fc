"""Keywords of tools: further words by which search finds a tool, which its name and description do not have.

Documents give them as `x-keywords`: a list of texts, or one text with commas between them.
"""

from collections.abc import Iterable
from typing import Any, Final

from app.core.errors import FieldError
from app.core.text import HIDDEN, pointer

KEYWORDS_EXTENSION: Final = "x-keywords"
"""The extension of an OpenAPI object, of a UTCP manual and of its tools."""
MAX_KEYWORDS: Final = 50
MAX_KEYWORD_LENGTH: Final = 100
"""Characters of one keyword."""
# Longer texts are not cleaned before they are left out.
_MAX_CLEANED: Final = 1_000


def read_keywords(value: Any, *, location: str) -> tuple[tuple[str, ...], list[FieldError]]:
    """Return the keywords of an `x-keywords` of a document, and what of it is left out and why.

    `location` is the JSON pointer of the value; None stands for none. Only the first 50 entries are read.
    Nothing is raised: a document stays usable whatever its keywords are.
    """
    if value is None:
        return (), []
    if isinstance(value, str):
        entries: list[Any] = value.split(",", MAX_KEYWORDS)
        # The position of a keyword in a text has no pointer.
        where = [location] * len(entries)
    elif isinstance(value, list):
        entries = value[: MAX_KEYWORDS + 1]
        where = [pointer(location, index) for index in range(len(entries))]
    else:
        return (), [
            FieldError(location, f"`{KEYWORDS_EXTENSION}` is neither a list nor a text and was left out")
        ]
    problems: list[FieldError] = []
    keywords: list[str] = []
    for entry, entry_pointer in zip(entries[:MAX_KEYWORDS], where, strict=False):
        keyword, problem = _read_keyword(entry)
        if problem:
            problems.append(FieldError(entry_pointer, problem))
        elif keyword:
            keywords.append(keyword)
    if len(entries) > MAX_KEYWORDS:
        detail = f"`{KEYWORDS_EXTENSION}` has more than {MAX_KEYWORDS} keywords; the others were left out"
        problems.append(FieldError(location, detail))
    return drop_repeated(keywords), problems


def drop_repeated(keywords: Iterable[str]) -> tuple[str, ...]:
    """Return the keywords in their order, of those that differ only in case the first one."""
    first: dict[str, str] = {}
    for keyword in keywords:
        first.setdefault(keyword.casefold(), keyword)
    return tuple(first.values())


def _read_keyword(entry: Any) -> tuple[str, str]:
    """Return an entry as a keyword on one line ("" for an empty one), or what is wrong with it."""
    if not isinstance(entry, str):
        return "", "a keyword is not a text and was left out"
    if len(entry) <= _MAX_CLEANED:
        keyword = " ".join(HIDDEN.sub("", entry).split())
        if len(keyword) <= MAX_KEYWORD_LENGTH:
            return keyword, ""
    return "", f"a keyword has more than {MAX_KEYWORD_LENGTH} characters and was left out"
