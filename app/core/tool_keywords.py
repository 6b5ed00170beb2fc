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


def read_keywords(value: Any, *, at: str) -> tuple[tuple[str, ...], list[FieldError]]:
    """Return the keywords of an `x-keywords` of a document, and what of it is left out and why.

    `at` is the JSON pointer of the value; None stands for none. Of more than 50 entries the first 50 are
    read. Nothing is raised: a document stays usable whatever its keywords are.
    """
    if value is None:
        return (), []
    if isinstance(value, str):
        entries: list[Any] = value.split(",", MAX_KEYWORDS)
        # The position of a keyword in a text has no pointer.
        where = [at] * len(entries)
    elif isinstance(value, list):
        entries = value[: MAX_KEYWORDS + 1]
        where = [pointer(at, index) for index in range(len(entries))]
    else:
        return (), [FieldError(at, f"`{KEYWORDS_EXTENSION}` is neither a list nor a text and was left out")]
    problems: list[FieldError] = []
    found: list[str] = []
    for entry, entry_pointer in zip(entries[:MAX_KEYWORDS], where, strict=False):
        keyword, problem = _keyword(entry)
        if problem:
            problems.append(FieldError(entry_pointer, problem))
        elif keyword:
            found.append(keyword)
    if len(entries) > MAX_KEYWORDS:
        detail = f"`{KEYWORDS_EXTENSION}` has more than {MAX_KEYWORDS} keywords; the others were left out"
        problems.append(FieldError(at, detail))
    return distinct(found), problems


def distinct(keywords: Iterable[str]) -> tuple[str, ...]:
    """Return the keywords in their order, of those that differ only in case the first one."""
    found: dict[str, str] = {}
    for keyword in keywords:
        found.setdefault(keyword.casefold(), keyword)
    return tuple(found.values())


def _keyword(entry: Any) -> tuple[str, str]:
    """Return an entry as a keyword on one line ("" for an empty one), or what is wrong with it."""
    if not isinstance(entry, str):
        return "", "a keyword is not a text and was left out"
    if len(entry) <= _MAX_CLEANED:
        keyword = " ".join(HIDDEN.sub("", entry).split())
        if len(keyword) <= MAX_KEYWORD_LENGTH:
            return keyword, ""
    return "", f"a keyword has more than {MAX_KEYWORD_LENGTH} characters and was left out"
