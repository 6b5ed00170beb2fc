"""The spellings of a DSN that SQLAlchemy and asyncpg understand."""

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

_ASYNCPG = "postgresql+asyncpg"


def sqlalchemy_url(dsn: str) -> str:
    """Any spelling of a PostgreSQL DSN as SQLAlchemy's asyncpg one (`sslmode` becomes `ssl`)."""
    parts = urlsplit(dsn)
    query = [("ssl" if key == "sslmode" else key, value) for key, value in parse_qsl(parts.query)]
    rest = urlunsplit(("", parts.netloc, parts.path, urlencode(query, safe="/,:"), ""))
    # urlunsplit drops the `//` of an empty authority, which a socket DSN (`postgresql:///db?host=/run`) has.
    return f"{_ASYNCPG}:{rest if rest.startswith('//') else '//' + rest}"


def asyncpg_dsn(dsn: str) -> str:
    """The same server for asyncpg itself (LISTEN needs a bare connection)."""
    return sqlalchemy_url(dsn).replace(_ASYNCPG, "postgresql", 1).replace("ssl=", "sslmode=", 1)
