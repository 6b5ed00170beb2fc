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


def normalize_tag(value: Any) -> str | None:
    """Return a language tag in the case of RFC 5646 section 2.1.1 (`pt-BR`, `zh-Hant`).

    Return None for a value that is not a tag. A locale such as `de_AT` is read as `de-AT`.
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


def get_primary_language(tag: str | None) -> str | None:
    """Return the language of a tag without script, region and all else, in lower case: `pt` of `pt-BR`."""
    return None if tag is None else tag.partition("-")[0].lower()


def read_document_language(raw: Mapping[str, Any]) -> tuple[str | None, list[FieldError]]:
    """Return the language tag that a document declares, None where it declares none, and the invalid ones.

    `x-language` and `x-lang` of the Info Object and of the document are read. Each error has the JSON pointer
    of a value that is not a language tag.
    """
    problems: list[FieldError] = []
    language: str | None = None
    for *parents, name in _PLACES:
        node: Any = raw
        for parent in parents:
            node = node.get(parent)
        if not isinstance(node, Mapping) or node.get(name) is None:
            continue
        tag = normalize_tag(node[name])
        if tag is None:
            pointer = "".join(f"/{one}" for one in (*parents, name))
            problems.append(FieldError(pointer, f"`{name}` is not a language tag (BCP 47) and was left out"))
        language = language or tag
    return language, problems


def read_content_language(header: str) -> str | None:
    """Return the language of a `Content-Language` header (RFC 9110 section 8.5).

    Return None where it names no language, or several: then nobody knows in which one the text is written.
    """
    tags = [normalize_tag(one) for one in header.split(",", _SEVERAL)]
    known = {get_primary_language(tag) for tag in tags}
    return tags[0] if len(known) == 1 else None
