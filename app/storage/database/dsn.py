"""Conversion of a PostgreSQL DSN to the forms of SQLAlchemy and asyncpg, and its validation."""

import inspect
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

_ASYNCPG = "postgresql+asyncpg"
_SCHEMES: Final = ("postgresql", "postgres", _ASYNCPG)
# The options of asyncpg, and those that SQLAlchemy adds.
_OPTIONS: Final = frozenset(inspect.signature(asyncpg.connect).parameters) | {
    "async_fallback", "prepared_statement_cache_size", "prepared_statement_name_func",
}  # fmt: skip


def sqlalchemy_url(dsn: str) -> str:
    """Return a PostgreSQL DSN as the URL of SQLAlchemy's asyncpg dialect (`sslmode` becomes `ssl`)."""
    parts = urlsplit(dsn)
    query = [("ssl" if key == "sslmode" else key, value) for key, value in parse_qsl(parts.query)]
    rest = urlunsplit(("", parts.netloc, parts.path, urlencode(query, safe="/,:"), ""))
    # urlunsplit drops the `//` of an empty authority, which a socket DSN (`postgresql:///db?host=/run`) has.
    return f"{_ASYNCPG}:{rest if rest.startswith('//') else '//' + rest}"


def asyncpg_dsn(dsn: str) -> str:
    """Return a PostgreSQL DSN in the form of asyncpg itself (LISTEN needs a bare connection)."""
    return sqlalchemy_url(dsn).replace(_ASYNCPG, "postgresql", 1).replace("ssl=", "sslmode=", 1)


def check_dsn(dsn: str) -> None:
    """Raise ValueError, without any part of a password, for a DSN that cannot be used to connect."""
    advice = "give postgresql://user:password@host:port/database, with special characters percent-encoded"
    try:
        scheme = urlsplit(dsn).scheme
        url = make_url(sqlalchemy_url(dsn))
        dialect: Any = url.get_dialect()
        _, options = dialect().create_connect_args(url)
    except (ArgumentError, ValueError):
        # Their messages may contain a part of a password that has a `/` or an `@` in it.
        raise ValueError(f"DATABASE_URL cannot be read: {advice}.") from None
    if scheme not in _SCHEMES:
        raise ValueError(f"DATABASE_URL is not a PostgreSQL URL: {advice}.")
    for name in options:
        if name not in _OPTIONS:
            raise ValueError(f"DATABASE_URL has an option that asyncpg does not support: {name[:100]!r}.")
