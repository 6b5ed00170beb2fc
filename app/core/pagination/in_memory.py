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


def paginate_items(
    items: Iterable[ItemT], *, fields: Mapping[str, ItemField], item_id: str, page: PageRequest
) -> Page[ItemT]:
    """Return a page of items; all of them must match the filters already.

    `fields` has the order for each name of the `sort` parameter. The attribute `item_id`, the text of a UUID,
    decides between equal values. Raise InvalidInput for a cursor that is not valid for this list.
    """
    field = fields[page.sort.removeprefix("-")]
    descending: Final = page.sort.startswith("-")

    def get_key(item: ItemT) -> tuple[Any, UUID]:
        return getattr(item, field.attribute), UUID(getattr(item, item_id))

    matches = sorted(items, key=get_key, reverse=descending)
    total = len(matches)
    position = decode_cursor(page, kind=field.kind)
    if position is not None:
        here = (position.value, position.item_id)
        matches = [item for item in matches if (get_key(item) < here if descending else get_key(item) > here)]
    rows = matches[: page.limit]
    next_cursor = None
    if len(matches) > page.limit:
        next_cursor = encode_cursor(page, Position(*get_key(rows[-1])))
    return Page(rows, next_cursor, total)
