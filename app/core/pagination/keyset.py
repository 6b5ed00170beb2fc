"""Pages of SQL statements by keyset: rows after a position in an order, and a bounded count of all rows.

The cost of a page does not depend on how many pages come before it, and rows that are added or deleted
meanwhile neither repeat nor hide others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    SQLColumnExpression,
    any_,
    cast,
    collate,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import TypeEngine

from app.core.pagination.cursor import Position, decode_cursor, encode_cursor
from app.core.pagination.page_request import PageRequest

MAX_TOTAL: Final = 10_000
"""`read_page` counts at most this many rows."""
_WILDCARDS: Final = re.compile(r"([\\%_])")
_FIRST_MOMENT: Final[ColumnElement[Any]] = literal_column("'-infinity'::timestamptz")

RowT = TypeVar("RowT")


@dataclass(frozen=True, slots=True)
class SortField:
    """A field by which a list can be sorted: its column, and the attribute of a row that has its value.

    `kind` is the type of the values. `nullable` is for times only: null is before all of them. `unique` says
    that no two rows have the same value, so that the id need not decide between them.
    """

    column: SQLColumnExpression[Any]
    attribute: str
    kind: type[str] | type[datetime] | type[UUID] = str
    nullable: bool = False
    unique: bool = False

    @property
    def expression(self) -> Any:
        """The expression to sort by, which is never null."""
        return func.coalesce(self.column, _FIRST_MOMENT) if self.nullable else self.column

    def bound(self, value: Any) -> Any:
        """Return a value of this field for comparison with `expression`."""
        return _FIRST_MOMENT if value is None else literal(value, _get_type(self.column))


@dataclass(frozen=True, slots=True)
class Ordering:
    """The orders of a list, by the names in its `sort` parameter; `item_id` decides between equal values.

    `ids_first` is for large rows: a page is found by ids alone, and then its rows are read. Otherwise
    PostgreSQL may sort or store all rows that match, with all their columns.
    """

    fields: Mapping[str, SortField]
    item_id: SQLColumnExpression[Any]
    ids_first: bool = False

    def get_field(self, sort: str) -> SortField:
        """Return the field of `sort`, which is `name` or `-name`."""
        return self.fields[sort.removeprefix("-")]

    def sort_statement(self, statement: Select[Any], page: PageRequest) -> Select[Any]:
        """Return the statement in the order of a page."""
        field = self.get_field(page.sort)
        keys: list[Any] = [field.expression] if field.unique else [field.expression, self.item_id]
        return statement.order_by(*(key.desc() if page.sort.startswith("-") else key.asc() for key in keys))

    def select_page(self, statement: Select[Any], page: PageRequest) -> Select[Any]:
        """Return the statement for the rows of a page in their order, and one more if there is a next page.

        Raise InvalidInput for a cursor that is not valid for this list.
        """
        field = self.get_field(page.sort)
        position = decode_cursor(page, kind=field.kind, nullable=field.nullable)
        if position is not None:
            statement = statement.where(
                self._select_after(field, position, descending=page.sort.startswith("-"))
            )
        return self.sort_statement(statement, page).limit(page.limit + 1)

    def select_positions(self, statement: Select[Any], page: PageRequest) -> Select[Any]:
        """Return the statement for id and sort value alone, of the rows that `select_page` returns."""
        field = self.get_field(page.sort)
        columns = {"id": self.item_id, field.attribute: field.column}
        labelled: list[Any] = [column.label(name) for name, column in columns.items()]
        return self.select_page(statement.with_only_columns(*labelled, maintain_column_froms=True), page)

    def _select_after(self, field: SortField, position: Position, *, descending: bool) -> ColumnElement[bool]:
        here, there = field.expression, field.bound(position.value)
        if not field.unique:
            here = tuple_(here, self.item_id)
            there = tuple_(there, literal(position.item_id, _get_type(self.item_id)))
        after: ColumnElement[bool] = here < there if descending else here > there
        return after

    def encode_cursor_after(self, row: Any, page: PageRequest) -> str:
        """Return the cursor of the page after this row, which has an `id`."""
        return encode_cursor(page, Position(getattr(row, self.get_field(page.sort).attribute), row.id))


@dataclass(frozen=True, slots=True)
class Page(Generic[RowT]):
    """A page of rows, the cursor of the next one (None: this is the last), and the number of all rows.

    `total` is None where there are more than `MAX_TOTAL` rows; then `total_at_least` is that number. Both are
    None where they were not counted.
    """

    rows: list[RowT]
    next_cursor: str | None
    total: int | None = None
    total_at_least: int | None = None


async def read_page(
    session: AsyncSession,
    statement: Select[Any],
    *,
    ordering: Ordering,
    page: PageRequest,
    count: bool = True,
) -> Page[Any]:
    """Return a page of the statement's rows: entities where it selects one, else rows with a column `id`.

    `statement` has all filters, but no order. Without `count`, the rows are not counted. Raise InvalidInput
    for a cursor that is not valid for this list.
    """
    if ordering.ids_first:
        positions = list((await session.execute(ordering.select_positions(statement, page))).all())
        ids = [one.id for one in positions[: page.limit]]
        # One array instead of as many parameters, whose statement would be compiled anew for each number.
        is_on_page = ordering.item_id == any_(cast(ids, ARRAY(_get_type(ordering.item_id))))
        whole = ordering.sort_statement(statement.where(is_on_page), page)
        rows = await _fetch_rows(session, whole) if ids else []
    else:
        positions = await _fetch_rows(session, ordering.select_page(statement, page))
        rows = positions[: page.limit]
    is_last = len(positions) <= page.limit
    next_cursor = None if is_last else ordering.encode_cursor_after(positions[page.limit - 1], page)
    if not count:
        return Page(rows, next_cursor)
    if is_last and page.cursor is None:
        # This page is the whole list.
        return Page(rows, None, len(rows))
    number = await count_up_to(session, statement, limit=MAX_TOTAL + 1)
    if number > MAX_TOTAL:
        return Page(rows, next_cursor, None, MAX_TOTAL)
    return Page(rows, next_cursor, number)


async def _fetch_rows(session: AsyncSession, statement: Select[Any]) -> list[Any]:
    """Return the rows of a statement: entities where it selects one."""
    result = await session.execute(statement)
    return list(result.scalars() if len(statement.column_descriptions) == 1 else result.all())


async def count_up_to(session: AsyncSession, statement: Select[Any], *, limit: int) -> int:
    """Return the number of rows of a statement, counting no more than `limit`."""
    rows: Select[Any] = statement.with_only_columns(literal_column("1"), maintain_column_froms=True)
    counted = select(func.count()).select_from(rows.limit(limit).subquery())
    return int((await session.execute(counted)).scalar_one())


def contains(text: str, *columns: SQLColumnExpression[Any]) -> ColumnElement[bool]:
    """Return the condition that one of the columns contains the text, in upper or lower case.

    The wildcards of LIKE in `text` stand for themselves.
    """
    pattern = "%" + _WILDCARDS.sub(r"\\\1", text) + "%"
    # In the collation "C" only ASCII letters have cases, and the comparison takes half the time.
    searched = (collate(column, "C") if text.isascii() else column for column in columns)
    return or_(*(column.ilike(pattern, escape="\\") for column in searched))


def _get_type(column: Any) -> TypeEngine[Any]:
    column_type: TypeEngine[Any] = column.type
    return column_type
