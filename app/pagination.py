"""Query parameters and headers that routes of several rooms share: pages and preconditions."""

from typing import Annotated

from fastapi import Header, Query

# Hex digits of printable ASCII, which all names are: every text of this form is a legal cursor.
_CURSOR = r"^(?:[2-7][0-9a-f]){1,200}$"

Cursor = Annotated[
    str | None,
    Query(pattern=_CURSOR, max_length=400, description="`next_cursor` of the page before."),
]
Limit = Annotated[int, Query(ge=1, le=200, description="Most items of the page.")]
TagFilter = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=100,
        pattern=r"^[^\u0000-\u001F\u007F]+$",
        description="Only tools with this tag, their own or their provider's.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="The ETag that was read (RFC 9110 section 13.1.1); 412 if it has changed.",
        examples=['"1"'],
    ),
]


def cursor_behind(name: str | None) -> str | None:
    """The opaque cursor of the page that begins behind `name`; None for None."""
    return None if name is None else name.encode("ascii").hex()


def name_before(cursor: str | None) -> str:
    """The name that a valid `Cursor` stands behind, "" for none."""
    return "" if cursor is None else bytes.fromhex(cursor).decode("ascii")


def fits(if_match: str, tag: str) -> bool:
    """Whether `If-Match` allows a change of what has this entity tag, compared strongly (RFC 9110 13.1.1)."""
    return if_match.strip() == "*" or tag in (part.strip() for part in if_match.split(","))
