"""Values of PostgreSQL as JSON: numbers with all of their digits, JSON as JSON, everything else as text."""

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

import asyncpg

from app.core import exact_json

TEXT_TYPES: Final = (
    "date", "timestamp", "timestamptz", "time", "timetz", "interval", "bytea", "money", "inet", "cidr",
    "macaddr", "macaddr8", "bit", "varbit", "xml", "tsvector", "tsquery", "point", "line", "lseg", "box",
    "path", "polygon", "circle",
)  # fmt: skip
"""Types whose values are the text that PostgreSQL writes: `infinity` and the years BC have no other form."""
NUMBER_TYPES: Final = ("float4", "float8")
"""Types whose text has the shortest digits that mean the same value."""
JSON_TYPES: Final = ("json", "jsonb")


async def use_text_forms(connection: Any) -> None:
    """Have a connection return values in these forms; no request is sent for that."""
    for names, decoder in ((TEXT_TYPES, str), (NUMBER_TYPES, _number), (JSON_TYPES, _json)):
        for name in names:
            await connection.set_type_codec(
                name, schema="pg_catalog", encoder=str, decoder=decoder, format="text"
            )


def json_rows(rows: Iterable[asyncpg.Record], names: list[str]) -> list[dict[str, Any]]:
    """Return rows as JSON objects; `names` are those of the columns, each once."""
    return [
        {name: json_value(value) for name, value in zip(names, row.values(), strict=True)} for row in rows
    ]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Return names of columns, of which a repeated one gets a number: `id`, `id_2`."""
    found: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found[unique] = None
    return list(found)


def json_value(value: Any) -> Any:
    """Return a value that the library returned as JSON."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else Decimal(value)
    if isinstance(value, Decimal):
        return value if value.is_finite() else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, asyncpg.Record | Mapping):
        return {str(name): json_value(member) for name, member in value.items()}
    if isinstance(value, asyncpg.Range):
        return _range(value)
    if isinstance(value, list | tuple):
        return [json_value(member) for member in value]
    if isinstance(value, UUID):
        return str(value)
    return str(value)


def _range(value: "asyncpg.Range[Any]") -> dict[str, Any] | str:
    if value.isempty:
        return "empty"
    return {
        "lower": json_value(value.lower),
        "upper": json_value(value.upper),
        "lower_inc": value.lower_inc,
        "upper_inc": value.upper_inc,
    }


def _number(text: str) -> Decimal | str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _json(text: str) -> Any:
    try:
        return exact_json.load_exactly(text.encode())
    except (ValueError, RecursionError):
        return text
