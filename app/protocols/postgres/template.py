"""Call templates of `postgres`."""

from typing import ClassVar, Literal

from pydantic import Field

from app.formats.utcp.call_template import CallTemplate


class PostgresTemplate(CallTemplate):
    """Runs the argument `query`, one statement, in a read-only transaction that is rolled back.

    `timeout` is in milliseconds; at most `max_rows` rows are returned. `sslmode` is PostgreSQL's, without
    those that would use a connection without TLS unasked.
    """

    sealed: ClassVar[tuple[str, ...]] = ("/username", "/password")

    call_template_type: Literal["postgres"] = "postgres"
    host: str = Field(min_length=1, max_length=255)
    port: int = Field(default=5432, ge=1, le=65535)
    database: str = Field(min_length=1, max_length=63)
    username: str | None = Field(default=None, repr=False)
    password: str | None = Field(default=None, repr=False)
    sslmode: Literal["verify-full", "require", "disable"] = "verify-full"
    timeout: int = Field(default=15_000, ge=1, le=600_000)
    max_rows: int = Field(default=100, ge=1, le=10_000)
