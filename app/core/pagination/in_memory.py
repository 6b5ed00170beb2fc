"""Pages of items that are in memory: the same order, cursors and totals as those of SQL statements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from app.core.pagination.cursor import Position, decode_cursor, encode_cursor
from app.core.pagination.keyset import Page
from app.core.pagination.page_request import PageRequest

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class ItemField:
    """An attribute of items by which a list can be sorted; `kind` is the type of its values."""

    attribute: str
    kind: type[str] | type[datetime] = str


def page_of_items(
    items: Iterable[ItemT], *, fields: Mapping[str, ItemField], item_id: str, page: PageRequest
) -> Page[ItemT]:
    """Return a page of items, all of which match the filters.

    `fields` are the orders by the names in the `sort` parameter; the attribute `item_id`, the text of a UUID,
    decides between equal values. Raise InvalidInput for a cursor that is not valid for this list.
    """
    field = fields[page.sort.removeprefix("-")]
    descending: Final = page.sort.startswith("-")

    def key(item: ItemT) -> tuple[Any, UUID]:
        return getattr(item, field.attribute), UUID(getattr(item, item_id))

    found = sorted(items, key=key, reverse=descending)
    total = len(found)
    position = decode_cursor(page, kind=field.kind)
    if position is not None:
        here = (position.value, position.item_id)
        found = [item for item in found if (key(item) < here if descending else key(item) > here)]
    rows = found[: page.limit]
    next_cursor = None
    if len(found) > page.limit:
        next_cursor = encode_cursor(page, Position(*key(rows[-1])))
    return Page(rows, next_cursor, total)
