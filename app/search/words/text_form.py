"""Sets of synonyms as text, in the format of Solr and Elasticsearch: a set on each line.

`voucher, coupon` are equivalent, `k8s => kubernetes` is an explicit mapping; empty lines and lines that begin
with `#` are comments. There are no escapes: a term has no comma.
"""

from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError

from app.core.errors import FieldError, InvalidInput
from app.search.words.definition import MAX_SETS, SynonymSet, write_synonyms

MEDIA_TYPE: Final = "text/plain"
_ARROW: Final = "=>"
_MAX_ERRORS: Final = 50


def parse_synonyms(text: str, *, toolset: str | None) -> list[SynonymSet]:
    """Return the sets of a text; raise InvalidInput for lines that are no set, by number, or too many."""
    sets: list[SynonymSet] = []
    errors: list[FieldError] = []
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        left, arrow, right = content.partition(_ARROW)
        terms, expand_to = _split_terms(left), _split_terms(right) if arrow else None
        try:
            sets.append(SynonymSet(terms=terms, expand_to=expand_to, toolset=toolset))
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            errors.append(FieldError("", f"Line {number}: {reason}."))
        # A text of millions of lines is not read to its end.
        if len(errors) == _MAX_ERRORS or len(sets) > MAX_SETS:
            break
    if errors:
        raise InvalidInput("A line is no set of synonyms.", errors=errors)
    if len(sets) > MAX_SETS:
        detail = f"There may be at most {MAX_SETS:,} sets of synonyms."
        raise InvalidInput(detail, errors=[FieldError("", detail)])
    return sets


def format_synonyms(sets: Iterable[tuple[list[str], list[str] | None]]) -> str:
    """Return sets (their terms, and what these expand to) as text, which `parse_synonyms` reads."""
    return "".join(f"{write_synonyms(terms, expand_to)}\n" for terms, expand_to in sets)


def _split_terms(text: str) -> list[str]:
    return [term.strip() for term in text.split(",") if term.strip()]
