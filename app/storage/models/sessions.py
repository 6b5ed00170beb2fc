"""The tables of the console's sessions and sign-in links (`app.access.sessions`)."""

from datetime import datetime

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint
from sqlmodel import Field

from app.storage.models.base import Row, now, timestamp


class ConsoleSessionRow(Row, table=True):
    """A session of the console: only an HMAC of its text is stored."""

    __tablename__ = "console_sessions"
    __table_args__ = (
        UniqueConstraint("tenant_id", "digest"),
        Index("console_sessions_key", "tenant_id", "key_id"),
    )
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    key_id: str
    """The API key whose rights the session has."""
    created_at: datetime = Field(default_factory=now, sa_column=timestamp())
    authenticated_at: datetime = Field(default_factory=now, sa_column=timestamp())
    """When the key was last presented."""
    last_used_at: datetime = Field(default_factory=now, sa_column=timestamp())
    """At most a minute older than the last request."""
    expires_at: datetime = Field(sa_column=timestamp())
    """When it ends however much it is used."""


class SignInTokenRow(Row, table=True):
    """The token of a sign-in link, which is used once: only an HMAC of its text is stored."""

    __tablename__ = "sign_in_tokens"
    __table_args__ = (
        UniqueConstraint("tenant_id", "digest"),
        Index("sign_in_tokens_expiry", "expires_at"),
    )
    digest: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    key_id: str
    """The API key with whose rights the link signs in."""
    expires_at: datetime = Field(sa_column=timestamp())
