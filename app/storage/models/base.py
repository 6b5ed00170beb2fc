"""The columns that every table has, and helpers for columns."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Column, DateTime, ForeignKey, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

from app.core.uuid7 import uuid7

TENANT = UUID("00000000-0000-7000-8000-000000000001")
"""The only tenant so far; the schema is prepared for several."""


def now() -> datetime:
    """Return the current time, aware, UTC."""
    return datetime.now(UTC)


def cascading_key(target: str, *, nullable: bool = False) -> Any:
    """Return an indexed foreign key column whose rows are deleted with their target."""
    return Column(ForeignKey(target, ondelete="CASCADE"), nullable=nullable, index=True)


def jsonb(*, nullable: bool = False) -> Any:
    """Return a JSONB column that stores None as NULL."""
    return Column(JSONB(none_as_null=True), nullable=nullable)


def text_array(*, nullable: bool = False) -> Any:
    """Return a column of type TEXT[]."""
    return Column(ARRAY(Text), nullable=nullable)


def timestamp(*, nullable: bool = False) -> Any:
    """Return a column of type TIMESTAMP WITH TIME ZONE."""
    return Column(DateTime(timezone=True), nullable=nullable)


class Row(SQLModel):
    """The base of most tables: a UUIDv7 as primary key, and the tenant."""

    model_config = {"defer_build": True}

    id: UUID = Field(default_factory=uuid7, primary_key=True)
    tenant_id: UUID = Field(default=TENANT, nullable=False)
