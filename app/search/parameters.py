"""The texts of a search, as parameters of requests have them: one, or up to four."""

from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

MAX_QUERIES: Final = 4
"""How many texts a client may search by at once."""
MAX_QUERY_LENGTH: Final = 8_000
"""Characters of each text: agents search by whole tasks."""

_QUERY_TEXT: Final = {"type": "string", "maxLength": MAX_QUERY_LENGTH}
_QUERY_TEXTS: Final = {"type": "array", "items": _QUERY_TEXT, "maxItems": MAX_QUERIES}

QueryTexts = Annotated[
    # One text is documented as a string: that is what clients made from earlier contracts have.
    Sequence[Annotated[str, Field(max_length=MAX_QUERY_LENGTH)]],
    Field(max_length=MAX_QUERIES),
    WithJsonSchema({"anyOf": [_QUERY_TEXT, _QUERY_TEXTS]}),
]
"""The type of such a parameter."""


def list_texts(given: str | Sequence[str] | None) -> list[str]:
    """Return the texts of a parameter that are not empty."""
    return [text for text in ([given] if isinstance(given, str) else given or ()) if text.strip()]
