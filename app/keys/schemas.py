"""Request and response bodies of `/keys` and `/events`."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.models import Event, Key, now
from app.schemas import ProviderName, RateLimitInput, Rfc3339DateTime, StrictModel
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Grant
from app.security.scopes import Scope

# One line of printable text; the pattern says so in the OpenAPI document as well.
_LINE = r"^[^\u0000-\u001F\u007F]+$"
_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC)

Line = Annotated[str, Field(min_length=1, max_length=100, pattern=_LINE)]
KeyId = Annotated[str, Field(pattern=KEY_ID_PATTERN, examples=["AbCdEfGhJkMn"])]
KeyState = Literal["active", "expired", "revoked"]


class KeyCreate(StrictModel):
    """What a new key may do. An omitted restriction does not restrict."""

    name: Line = Field(examples=["billing agent"])
    scopes: list[Scope] = Field(min_length=1, max_length=20, examples=[["tools:read", "tools:call"]])
    providers: list[ProviderName] | None = Field(
        None, max_length=500, description="Restricts it to tools of these providers.", examples=[["library"]]
    )
    tags: list[Line] | None = Field(
        None, max_length=500, description="Restricts it to tools to which a registrar gave one of these tags."
    )
    expires_at: Rfc3339DateTime | None = Field(None, description="When it expires (RFC 3339).")
    rate_limit: RateLimitInput | None = Field(
        None,
        description="How often it may call tools. Default: the gateway's rate limit for keys.",
        examples=[{"requests": 100, "per_seconds": 60, "burst": 20}],
    )

    def grant(self) -> Grant:
        """Return the requested rights."""
        ends = self.expires_at
        return Grant(
            scopes=frozenset(self.scopes),
            providers=None if self.providers is None else frozenset(self.providers),
            tags=None if self.tags is None else frozenset(self.tags),
            # Beyond these the conversion to UTC overflows.
            expires_at=None if ends is None else max(_FIRST_MOMENT, min(ends, _LAST_MOMENT)).astimezone(UTC),
            rate_limit=None if self.rate_limit is None else self.rate_limit.to_rate_limit(),
        )


class RateLimitView(BaseModel):
    """How often tools may be called."""

    requests: int
    per_seconds: int
    burst: int


class KeyView(BaseModel):
    """A key without its text."""

    id: KeyId
    name: str
    scopes: list[Scope]
    providers: list[str] | None
    tags: list[str] | None
    rate_limit: RateLimitView | None = Field(description="Its own; null where the gateway's default applies.")
    state: KeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Updated about once a minute.")

    @classmethod
    def from_row(cls, row: Key) -> Self:
        """Return the view of a stored key."""
        return cls.model_validate(_view_fields(row))


class KeyCreated(KeyView):
    """A new key with its text, which is shown only once."""

    key: str = Field(description="The key itself. Only a digest of it is stored.", examples=["ugw_..."])

    @classmethod
    def with_text(cls, row: Key, text: str) -> Self:
        """Return the view of a key that was just created, with its text."""
        return cls.model_validate({**_view_fields(row), "key": text})


class KeyPage(BaseModel):
    """Keys, newest first."""

    items: list[KeyView]
    next_cursor: UUID | None = Field(description="Give it as `cursor` for the next page; null at the end.")


class EventView(BaseModel):
    """One change of the control plane."""

    id: UUID
    at: datetime
    actor: str = Field(description="Id of the API key that made the change, or the command.")
    action: str = Field(examples=["created"])
    object_type: str = Field(examples=["provider"])
    object_name: str = Field(examples=["library"])
    detail: dict[str, Any]

    @classmethod
    def from_row(cls, row: Event) -> Self:
        """Return the view of a stored event."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class EventPage(BaseModel):
    """Events, newest first."""

    items: list[EventView]
    next_cursor: UUID | None = Field(description="Give it as `cursor` for the next page; null at the end.")


def _view_fields(row: Key) -> dict[str, Any]:
    rights = ("name", "scopes", "providers", "tags", "rate_limit")
    fields = (*rights, "created_at", "expires_at", "revoked_at", "last_used_at")
    return {"id": row.key_id, "state": _state(row), **{name: getattr(row, name) for name in fields}}


def _state(row: Key) -> KeyState:
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if row.expires_at is not None and row.expires_at <= now() else "active"
