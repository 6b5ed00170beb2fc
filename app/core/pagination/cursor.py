"""Cursors: where a page begins, as an opaque text. They contain no more than the page before showed."""

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from app.core import exact_json
from app.core.errors import FieldError, InvalidInput
from app.core.pagination.page_request import PageRequest

_MAX_TEXT = 1_000


@dataclass(frozen=True, slots=True)
class Position:
    """A position in an order: after the item that has this value of the sort field, and this id."""

    value: str | datetime | UUID | None
    item_id: UUID


def encode_cursor(page: PageRequest, position: Position) -> str:
    """Return the cursor of the page that begins after `position`, for the sort and filters of `page`."""
    # As text: asyncpg's UUID is a class of its own, which orjson does not serialise.
    value = str(position.value) if isinstance(position.value, UUID) else position.value
    members = [page.sort, page.filters, value, str(position.item_id)]
    return base64.urlsafe_b64encode(exact_json.dumps(members)).rstrip(b"=").decode()


def decode_cursor(page: PageRequest, *, kind: type[Any], nullable: bool = False) -> Position | None:
    """Return the position in the cursor of `page`, or None where the request has no cursor.

    Its value has the type `kind`, or is None where `nullable`. Raise InvalidInput for text that is not a
    cursor, and for the cursor of a list with another sort or filter.
    """
    if page.cursor is None:
        return None
    try:
        text = page.cursor.encode("ascii")
        sort, filters, value, item_id = orjson.loads(base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4)))
        position = Position(_read_value(value, kind, nullable=nullable), UUID(item_id))
    except (ValueError, TypeError, AttributeError, OverflowError, binascii.Error, RecursionError):
        raise _reject_cursor("Must be the `next_cursor` of a page of this list, unchanged.") from None
    if (sort, filters) != (page.sort, page.filters):
        raise _reject_cursor(
            "Belongs to a list with another `sort` or other filters: give the same ones, or begin without a "
            "cursor."
        )
    return position


def _read_value(value: Any, kind: type[Any], *, nullable: bool) -> str | datetime | UUID | None:
    """Return the value of a cursor's JSON as `kind`; raise an error of Python where it is none."""
    if value is None and nullable:
        return None
    if kind is datetime:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            raise ValueError("A time without an offset.")
        return moment.astimezone(UTC)
    if kind is UUID:
        return UUID(value)
    if not isinstance(value, str) or len(value) > _MAX_TEXT or "\x00" in value:
        raise ValueError("Not a text that can be stored.")
    return value


def _reject_cursor(detail: str) -> InvalidInput:
    return InvalidInput(
        "The cursor is not valid: see #/query/cursor.", errors=[FieldError("#/query/cursor", detail)]
    )
