"""Which page of a list is requested, and preconditions on stored objects."""

import hashlib
from dataclasses import dataclass

import orjson
from pydantic import BaseModel, Field

from app.core import exact_json

ONE_LINE = r"^[^\u0000-\u001F\u007F]+$"
_PAGE_MEMBERS = frozenset({"limit", "cursor", "sort", "total"})


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a list is requested: at most `limit` items in the order `sort`, from `cursor` on.

    `sort` is a name of the list's `Ordering`, with `-` before it for the descending order. `filters` is a
    digest of all filters: a cursor is valid only with those of the request that it was returned to.
    """

    sort: str
    limit: int = 50
    cursor: str | None = None
    filters: str = ""


class PageQuery(BaseModel):
    """The query parameters that all lists share. A list declares its own `sort` and filters in a subclass."""

    limit: int = Field(50, ge=1, le=200, description="Maximum number of items in the page.")
    cursor: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="`next_cursor` of the previous page, with the same `sort` and filters.",
    )
    sort: str
    q: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=ONE_LINE,
        description="Only items whose text contains this, in upper or lower case.",
    )

    def page(self) -> PageRequest:
        """Return which page is requested."""
        filters = self.model_dump(mode="json", exclude=set(_PAGE_MEMBERS))
        digest = hashlib.blake2b(exact_json.dumps(filters, option=orjson.OPT_SORT_KEYS), digest_size=8)
        return PageRequest(self.sort, self.limit, self.cursor, digest.hexdigest())


def write_etag(version: int | str) -> str:
    """Return the strong entity tag of a stored object: its version in quotes (RFC 9110 section 8.8.3)."""
    return f'"{version}"'


def matches_etag(if_match: str, tag: str) -> bool:
    """Return whether `If-Match` holds for an entity tag, by strong comparison (RFC 9110 section 13.1.1)."""
    return if_match.strip() == "*" or tag in (part.strip() for part in if_match.split(","))
