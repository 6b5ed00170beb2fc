"""Query parameters and headers that several resources share: pages and preconditions."""

from typing import Annotated

from fastapi import Header, Query

# Printable ASCII in hex digits, since all names are printable ASCII: every text of this form is a valid
# cursor.
_CURSOR = r"^(?:[2-7][0-9a-f]){1,200}$"

Cursor = Annotated[
    str | None,
    Query(pattern=_CURSOR, max_length=400, description="`next_cursor` of the previous page."),
]
Limit = Annotated[int, Query(ge=1, le=200, description="Maximum number of items in the page.")]
TagFilter = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=100,
        pattern=r"^[^\u0000-\u001F\u007F]+$",
        description="Return only tools with this tag, their own or their provider's.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="The ETag of the version that was read (RFC 9110 section 13.1.1); 412 if it has changed.",
        examples=['"1"'],
    ),
]


def encode_cursor(name: str | None) -> str | None:
    """Return the opaque cursor of the page that begins after `name`; None for None."""
    return None if name is None else name.encode("ascii").hex()


def decode_cursor(cursor: str | None) -> str:
    """Return the name after which the page of a valid `Cursor` begins, "" for None."""
    return "" if cursor is None else bytes.fromhex(cursor).decode("ascii")


def etag_matches(if_match: str, tag: str) -> bool:
    """Return whether `If-Match` holds for an entity tag, by strong comparison (RFC 9110 section 13.1.1)."""
    return if_match.strip() == "*" or tag in (part.strip() for part in if_match.split(","))
