"""The budget that a client prefers for the response of its call, in the header Prefer (RFC 7240).

Prefer: max-bytes=20000, fields="/total $.items[*].id", format=csv
"""

import re
from typing import Final, cast

from app.calls.results import ResultBudget, ResultFormat, check_fields

MAX_BYTES: Final = "max-bytes"
MAX_TOKENS: Final = "max-tokens"
FIELDS: Final = "fields"
FORMAT: Final = "format"
_AT: Final = "#/header/Prefer"
# Possessive, and only from the beginning of an item on: it takes time in proportion to the header's length.
_PREFERENCE: Final = re.compile(
    r'(?:^|(?<=,))\s*+([A-Za-z-]++)\s*+(?:=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s",;]*+)))?\s*+'
    r'(?:;(?:[^",]|"(?:[^"\\]|\\.)*+")*+)?(?:,|$)'
)
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")
_FORMATS: Final = frozenset({"json", "toon", "markdown", "csv"})
TABLE_MEDIA_TYPES: Final[dict[ResultFormat, str]] = {
    "toon": "text/toon; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


def parse_result_preferences(prefer: str) -> tuple[ResultBudget, str] | None:
    """Return the budget in a header Prefer, and the value of Preference-Applied for it; None where there is
    none.

    As the RFC says, other preferences and unknown values are ignored, and the first of several of one name
    counts. Raise InvalidInput for fields that cannot be used.
    """
    found: dict[str, str] = {}
    for match in _PREFERENCE.finditer(prefer):
        value = match[3] if match[2] is None else re.sub(r"\\(.)", r"\1", match[2])
        found.setdefault(match[1].lower(), value or "")
    numbers = {
        name: int(found[name])
        for name in (MAX_BYTES, MAX_TOKENS)
        if name in found and _NUMBER.fullmatch(found[name])
    }
    fields = tuple(found.get(FIELDS, "").split())
    form = found.get(FORMAT, "").lower()
    applied = [*numbers, *([FIELDS] if fields else []), *([FORMAT] if form in _FORMATS else [])]
    if not applied:
        return None
    check_fields(fields, at=_AT)
    budget = ResultBudget(
        numbers.get(MAX_BYTES),
        numbers.get(MAX_TOKENS),
        fields,
        cast("ResultFormat", form) if form in _FORMATS else None,
    )
    return budget, ", ".join(name if name == FIELDS else f"{name}={found[name]}" for name in applied)
