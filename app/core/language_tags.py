"""Language tags (BCP 47: RFC 5646), and where documents and responses say their language."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import FieldError

MAX_LENGTH: Final = 63
"""Characters of a tag; RFC 5646 section 4.4.1 recommends room for 35."""
LANGUAGE_TAG: Final = (
    r"^[A-Za-z]{2,3}(-[A-Za-z]{3}){0,3}(-[A-Za-z]{4})?(-([A-Za-z]{2}|[0-9]{3}))?"
    r"(-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*(-[0-9A-WY-Za-wy-z](-[A-Za-z0-9]{2,8})+)*"
    r"(-[Xx](-[A-Za-z0-9]{1,8})+)?$"
)
"""The pattern of `langtag` (RFC 5646 section 2.1), without languages of four to eight letters: none is
registered, and names of languages such as `german` have that many.
"""
_TAG: Final = re.compile(LANGUAGE_TAG)
_SEVERAL: Final = 20
# Where a document says its language; OpenAPI has no field for it. The first one that is a tag counts.
_PLACES: Final = (("info", "x-language"), ("x-language",), ("x-lang",), ("info", "x-lang"))


def language_tag(value: Any) -> str | None:
    """Return a language tag in the case of RFC 5646 section 2.1.1 (`pt-BR`, `zh-Hant`); None for what is no
    tag. `de_AT`, the form of locales, is read as `de-AT`.
    """
    if not isinstance(value, str) or len(value) > MAX_LENGTH:
        return None
    tag = value.strip().replace("_", "-")
    if not _TAG.fullmatch(tag):
        return None
    primary, *subtags = tag.lower().split("-")
    written = [primary]
    for index, subtag in enumerate(subtags):
        if len(subtag) == 1:
            # What follows belongs to an extension, or is for private use.
            return "-".join([*written, *subtags[index:]])
        is_script = len(subtag) == 4 and subtag.isalpha()
        written.append(subtag.capitalize() if is_script else subtag.upper() if len(subtag) == 2 else subtag)
    return "-".join(written)


def primary_language(tag: str | None) -> str | None:
    """Return the language of a tag without script, region and all else, in lower case: `pt` of `pt-BR`."""
    return None if tag is None else tag.partition("-")[0].lower()


def document_language(raw: Mapping[str, Any]) -> tuple[str | None, list[FieldError]]:
    """Return the tag of the language in which a document says that it is written, None where it says none;
    and what it says that is no language tag, by JSON pointer.

    Read are `x-language` and `x-lang` of the Info Object and of the document.
    """
    problems: list[FieldError] = []
    found: str | None = None
    for *parents, name in _PLACES:
        node: Any = raw
        for parent in parents:
            node = node.get(parent)
        if not isinstance(node, Mapping) or node.get(name) is None:
            continue
        tag = language_tag(node[name])
        if tag is None:
            at = "".join(f"/{one}" for one in (*parents, name))
            problems.append(FieldError(at, f"`{name}` is not a language tag (BCP 47) and was left out"))
        found = found or tag
    return found, problems


def content_language(header: str) -> str | None:
    """Return the language of a `Content-Language` (RFC 9110 section 8.5); None where there is none, or where
    it names several languages: a text for several audiences is written in nobody knows which.
    """
    tags = [language_tag(one) for one in header.split(",", _SEVERAL)]
    known = {primary_language(tag) for tag in tags}
    return tags[0] if len(known) == 1 else None
