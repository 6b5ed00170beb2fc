"""What an operator has set about the responses of a tool: all pages of a list, and polling until done."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

MAX_PAGES: Final = 20
"""The number of pages where the option does not say another."""
PageKind = Literal["link", "next", "cursor", "page", "offset"]


@dataclass(frozen=True, slots=True)
class AllPages:
    """How the pages of a list follow each other.

    `by`: `link` is the header Link with rel=next, `next` a URL at `pointer` of the response; `cursor` is a
    value at `pointer` that the next call has as `argument`; `page` and `offset` are numbers that `argument`
    has. `items` is the JSON pointer to the list.
    """

    by: PageKind
    items: str = ""
    pointer: str = ""
    argument: str = ""
    max_pages: int = MAX_PAGES


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """The options of a tool; `poll` follows a response with 202 until it is done."""

    all_pages: AllPages | None = None
    poll: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, *, safe: bool) -> Self | None:
        """Return the stored options, None where there are none; only safe tools have all pages."""
        if not stored:
            return None
        pages = stored.get("all_pages") if safe else None
        options = cls(None if pages is None else AllPages(**pages), stored.get("poll") is True)
        return None if options == cls() else options
