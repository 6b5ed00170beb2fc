"""What every table has, and the kinds of columns."""

import os
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Column, DateTime, ForeignKey, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlmodel import Field, SQLModel

TENANT = UUID("00000000-0000-7000-8000-000000000001")
"""The one tenant of today; workspaces come later without a rewrite."""


def new_id() -> UUID:
    """Return a UUIDv7 (RFC 9562 section 5.7): ordered by time, so that primary keys append."""
    millis = time.time_ns() // 1_000_000
    value = int.from_bytes(millis.to_bytes(6, "big") + os.urandom(10), "big")
    value &= ~(0xF << 76) & ~(0x3 << 62)
    return UUID(int=value | (0x7 << 76) | (0x2 << 62))


def now() -> datetime:
    """Return the present, aware, UTC."""
    return datetime.now(UTC)


def cascading_key(target: str, *, nullable: bool = False) -> Any:
    """Return a foreign key whose row goes when its target goes."""
    return Column(ForeignKey(target, ondelete="CASCADE"), nullable=nullable, index=True)


def jsonb(*, nullable: bool = False) -> Any:
    """JSON, where None is null."""
    return Column(JSONB(none_as_null=True), nullable=nullable)


def text_array(*, nullable: bool = False) -> Any:
    """Return a list of text_array."""
    return Column(ARRAY(Text), nullable=nullable)


def timestamp(*, nullable: bool = False) -> Any:
    """Return a time with its zone."""
    return Column(DateTime(timezone=True), nullable=nullable)


class Row(SQLModel):
    """What every table has."""

    id: UUID = Field(default_factory=new_id, primary_key=True)
    tenant_id: UUID = Field(default=TENANT, nullable=False)
