"""Request and response bodies of `/keys` and `/events`."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.access.events import EventFilters
from app.access.key_warnings import KeyWarning, WarningCode
from app.access.repository import KeyDescription, KeyState, state_of
from app.core.pagination import PageQuery
from app.core.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    PageModel,
    ProviderName,
    RateLimitInput,
    Rfc3339DateTime,
    StreamedPage,
    StrictModel,
    ToolsetName,
    UpstreamModeInput,
)
from app.core.upstream_mode import UpstreamMode
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Grant, RepairMode, SchemaForm
from app.security.scopes import Scope
from app.storage.models import Event, Key
from app.toolsets.definition import SCHEMAS

# One line of printable text; the pattern says so in the OpenAPI document as well.
_LINE = r"^[^\u0000-\u001F\u007F]+$"
_LINE_OR_EMPTY = r"^[^\u0000-\u001F\u007F]*$"
_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, tzinfo=UTC)

Line = Annotated[str, Field(min_length=1, max_length=100, pattern=_LINE)]
Filter = Annotated[str, Field(min_length=1, max_length=300, pattern=_LINE)]
KeyId = Annotated[str, Field(pattern=KEY_ID_PATTERN, examples=["AbCdEfGhJkMn"])]
Owner = Annotated[str, Field(max_length=200, pattern=_LINE_OR_EMPTY, examples=["billing@example.com"])]
Purpose = Annotated[str, Field(max_length=500, pattern=_LINE_OR_EMPTY, examples=["Nightly invoices"])]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=20, examples=[["tools:read", "tools:call"]])]
Toolsets = Annotated[list[ToolsetName], Field(max_length=200)]
AllowUnknownProviders = Annotated[
    bool,
    Field(
        strict=True,
        description="Accept names in `providers` of which there is no provider, or none that the requesting "
        "key may see, e.g. because it is registered later. Not stored.",
    ),
]
ARGUMENT_REPAIR: Final = (
    "Which repairs the arguments of its calls get where they are not valid and the change is lossless: "
    "`off`: none; `safe`: all for tools that only read, only of types for the others; `on`: all. null: as "
    "the toolset says, else `safe` for MCP and tool calls of models, and `off` for REST and UTCP."
)
UPSTREAM: Final = (
    "Whether its calls reach their upstreams, are recorded, replayed or mocked; null: they do, unless a "
    "toolset says otherwise. The calls of a key that replays or mocks never do, by any address."
)
KEY_SCHEMAS: Final = f"{SCHEMAS} null: as the toolset says, else `portable`."
MAX_OVERLAP_SECONDS: Final = 30 * 86_400


class KeyCreate(StrictModel):
    """The rights of a new key. An omitted restriction does not apply."""

    name: Line = Field(examples=["billing agent"])
    owner: Owner = Field("", description="Who answers for the key, e.g. a team or an address.")
    purpose: Purpose = Field("", description="What the key is for.")
    scopes: Scopes
    providers: list[ProviderName] | None = Field(
        None,
        max_length=500,
        description="Restricts the key to tools of these providers, which must exist unless "
        "`allow_unknown_providers` is true.",
        examples=[["library"]],
    )
    allow_unknown_providers: AllowUnknownProviders = False
    tags: list[Line] | None = Field(
        None,
        max_length=500,
        description="Restricts the key to tools to which a registrar gave one of these tags.",
    )
    toolsets: Toolsets | None = Field(
        None,
        description="Limits the key to these toolsets: it sees and calls tools through them alone, of "
        "those that the other restrictions permit. A name of which there is no toolset is a warning.",
        examples=[["support"]],
    )
    expires_at: Rfc3339DateTime | None = Field(None, description="When the key expires (RFC 3339).")
    rate_limit: RateLimitInput | None = Field(
        None,
        description="How often the key may call tools. Default: the gateway's rate limit for keys.",
        examples=[{"requests": 100, "per_seconds": 60, "burst": 20}],
    )
    argument_repair: RepairMode | None = Field(None, description=ARGUMENT_REPAIR)
    upstream: UpstreamModeInput | None = Field(None, description=UPSTREAM)
    schemas: SchemaForm | None = Field(None, description=KEY_SCHEMAS)

    def description(self) -> KeyDescription:
        """Return what the key is told apart by."""
        return KeyDescription(self.name, self.owner, self.purpose)

    def grant(self) -> Grant:
        """Return the requested rights, with `expires_at` in UTC."""
        return Grant(
            scopes=frozenset(self.scopes),
            providers=_names(self.providers),
            tags=_names(self.tags),
            toolsets=_names(self.toolsets),
            expires_at=_in_utc(self.expires_at),
            rate_limit=None if self.rate_limit is None else self.rate_limit.to_rate_limit(),
            argument_repair=self.argument_repair,
            upstream=_mode(self.upstream),
            schemas=self.schemas,
        )


class KeyPatch(StrictModel):
    """The members to change. An omitted member is not changed; null removes a restriction, the expiry, or the
    key's own rate limit.
    """

    name: Line = Field(default_factory=str, examples=["billing agent"])
    owner: Owner = Field(default_factory=str, description="Who answers for the key; empty for nobody.")
    purpose: Purpose = Field(default_factory=str, description="What the key is for; may be empty.")
    scopes: Scopes = Field(default_factory=list)
    providers: list[ProviderName] | None = Field(
        None,
        max_length=500,
        description="Restricts the key to tools of these providers, which must exist unless "
        "`allow_unknown_providers` is true; null: no such restriction.",
    )
    allow_unknown_providers: AllowUnknownProviders = False
    tags: list[Line] | None = Field(
        None,
        max_length=500,
        description="Restricts the key to tools to which a registrar gave one of these tags; null: no such "
        "restriction.",
    )
    toolsets: Toolsets | None = Field(
        None,
        description="Limits the key to these toolsets, through which alone it sees and calls tools; "
        "null: no such limit.",
    )
    expires_at: Rfc3339DateTime | None = Field(
        None, description="When the key expires (RFC 3339); null: never.", examples=["2030-01-31T00:00:00Z"]
    )
    rate_limit: RateLimitInput | None = Field(
        None, description="How often the key may call tools; null: the gateway's rate limit for keys."
    )
    argument_repair: RepairMode | None = Field(None, description=ARGUMENT_REPAIR)
    upstream: UpstreamModeInput | None = Field(None, description=UPSTREAM)
    schemas: SchemaForm | None = Field(None, description=KEY_SCHEMAS)

    def changed_description(self, description: KeyDescription) -> KeyDescription:
        """Return a description with the changes."""
        changed = {name: getattr(self, name) for name in ("name", "owner", "purpose") if name in self._given}
        return replace(description, **changed)

    def changed_grant(self, grant: Grant) -> Grant:
        """Return rights with the changes."""
        changed: dict[str, Any] = {}
        if "scopes" in self._given:
            changed["scopes"] = frozenset(self.scopes)
        for name in ("providers", "tags", "toolsets"):
            if name in self._given:
                changed[name] = _names(getattr(self, name))
        if "expires_at" in self._given:
            changed["expires_at"] = _in_utc(self.expires_at)
        if "rate_limit" in self._given:
            changed["rate_limit"] = None if self.rate_limit is None else self.rate_limit.to_rate_limit()
        for name in ("argument_repair", "schemas"):
            if name in self._given:
                changed[name] = getattr(self, name)
        if "upstream" in self._given:
            changed["upstream"] = _mode(self.upstream)
        return replace(grant, **changed)

    @property
    def _given(self) -> set[str]:
        return self.model_fields_set


class KeyRotation(StrictModel):
    """How a key is replaced by its successor."""

    overlap_seconds: Annotated[
        int, Field(ge=0, le=MAX_OVERLAP_SECONDS, strict=True), ACCEPT_INTEGRAL_FLOAT
    ] = Field(
        86_400,
        description="For how many seconds the rotated key remains valid, unless it expires earlier. With 0 "
        "it expires at once: a key that rotates itself then has no second attempt if the response is lost.",
    )
    expires_at: Rfc3339DateTime | None = Field(
        None,
        description="When the successor expires; null: never. Omitted: when the rotated key would have "
        "expired. Later than that only within the rights of the requesting key.",
    )

    def changed_grant(self, grant: Grant) -> Grant:
        """Return the rights of the successor of a key with these rights."""
        if "expires_at" not in self.model_fields_set:
            return grant
        return replace(grant, expires_at=_in_utc(self.expires_at))


class RateLimitView(BaseModel):
    """A rate limit for calls of tools: `requests` per `per_seconds`, of which `burst` may be made at once."""

    requests: int
    per_seconds: int
    burst: int


class KeyWarningView(BaseModel):
    """A warning about a key."""

    code: WarningCode = Field(description="What the warning is about; new codes may be added.")
    detail: str
    hint: str = Field(description="What to do.")

    @classmethod
    def list_of(cls, warnings: Sequence[KeyWarning]) -> list[Self]:
        """Return the views of warnings."""
        return [cls(code=one.code, detail=one.detail, hint=one.hint) for one in warnings]


class KeyView(BaseModel):
    """A key without its text."""

    id: KeyId
    name: str
    owner: str
    purpose: str
    scopes: list[Scope]
    providers: list[str] | None
    tags: list[str] | None
    toolsets: list[str] | None = Field(
        description="The toolsets through which alone it uses tools; null: no such limit."
    )
    rate_limit: RateLimitView | None = Field(
        description="Its own rate limit; null where the gateway's default applies."
    )
    argument_repair: RepairMode | None = Field(
        None, description="Its repair of arguments; null where the toolset or the interface decides."
    )
    upstream: UpstreamModeInput | None = Field(None, description=UPSTREAM)
    schemas: SchemaForm | None = Field(None, description=KEY_SCHEMAS)
    state: KeyState
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None = Field(description="Updated about once a minute.")
    rotated_from: KeyId | None = Field(description="The key that this one succeeds by rotation.")
    successor_id: KeyId | None = Field(description="The key that succeeds this one by rotation.")
    warnings: list[KeyWarningView] = Field(
        description="What needs attention: the key expires soon, was not used for long, is an admin key "
        "without expiry, or is restricted to what does not exist. Empty for a key that is not valid."
    )

    @classmethod
    def of(cls, row: Key, warnings: Sequence[KeyWarning]) -> Self:
        """Return the view of a stored key."""
        return cls.model_validate(_view_fields(row, warnings))


class KeyCreated(KeyView):
    """A new key with its text, which is shown only once."""

    key: str = Field(description="The key itself. Only a digest of it is stored.", examples=["ugw_..."])

    @classmethod
    def with_text(cls, row: Key, warnings: Sequence[KeyWarning], text: str) -> Self:
        """Return the view of a key that was just created, with its text."""
        return cls.model_validate({**_view_fields(row, warnings), "key": text})


class KeyPage(PageModel[KeyView]):
    """A page of keys."""


class KeyQuery(PageQuery):
    """Order and filters of a list of keys. `q` searches name, owner and purpose. Without a time, a key is
    before all others in the order by `last_used_at` or `expires_at`.
    """

    sort: Literal[
        "name", "-name", "created_at", "-created_at", "expires_at", "-expires_at", "last_used_at",
        "-last_used_at",
    ] = Field("-created_at", description="Order of the items; `-` for descending.")  # fmt: skip
    state: Literal["active", "expiring", "expired", "revoked"] | None = Field(
        None,
        description="Only keys in this state; `expiring`: active keys that expire within "
        "KEY_EXPIRY_WARNING_DAYS, 14 by default.",
    )
    include_revoked: bool = Field(default=False, description="Without `state`: revoked keys, too.")
    toolset: ToolsetName | None = Field(None, description="Only keys that are limited to this toolset.")


class EventView(BaseModel):
    """An audit event: one change in the control plane."""

    id: UUID
    at: datetime
    actor: str = Field(description="Id of the API key that made the change, or name of the command.")
    action: str = Field(examples=["created"])
    object_type: str = Field(examples=["provider"])
    object_name: str = Field(examples=["library"])
    detail: dict[str, Any]

    @classmethod
    def from_row(cls, row: Event) -> Self:
        """Return the view of a stored event."""
        return cls.model_validate({name: getattr(row, name) for name in cls.model_fields})


class EventPage(StreamedPage[EventView]):
    """A page of events."""


class EventSelection(BaseModel):
    """Filters of events."""

    actor: Filter | None = Field(None, description="Only changes with the API key of this id.")
    action: Filter | None = Field(None, description="Only this kind of change.", examples=["updated"])
    object_type: Filter | None = Field(None, description="Only changes of objects of this type.")
    object_name: Filter | None = Field(None, description="Only changes of objects of this name.")
    since: Rfc3339DateTime | None = Field(None, description="Only changes at or after this time, RFC 3339.")
    until: Rfc3339DateTime | None = Field(None, description="Only changes before this time, RFC 3339.")

    def filters(self, *, actor: str | None, q: str | None = None) -> EventFilters:
        """Return these filters, with another actor, and the search for a text."""
        return EventFilters(
            actor,
            self.action,
            self.object_type,
            self.object_name,
            _in_utc(self.since),
            _in_utc(self.until),
            q,
        )


class EventQuery(PageQuery, EventSelection):
    """Order and filters of a list of events. `q` searches action, object type and object name."""

    sort: Literal["at", "-at"] = Field("-at", description="Order of the items; `-` for descending.")


class EventCsvQuery(EventSelection):
    """The filters of an export of events."""

    q: Filter | None = Field(
        None, description="Only events whose action, object type or object name contains this."
    )
    limit: int = Field(10_000, ge=1, le=1_000_000, description="Maximum number of rows.")


def _view_fields(row: Key, warnings: Sequence[KeyWarning]) -> dict[str, Any]:
    described = (
        "name", "owner", "purpose", "scopes", "providers", "tags", "toolsets", "rate_limit",
        "argument_repair", "upstream", "schemas",
    )  # fmt: skip
    times = ("created_at", "expires_at", "revoked_at", "last_used_at")
    fields = (*described, *times, "rotated_from", "successor_id")
    shown = {name: getattr(row, name) for name in fields}
    return {
        "id": row.key_id,
        "state": state_of(row),
        "warnings": KeyWarningView.list_of(warnings),
        **shown,
    }


def _mode(given: UpstreamModeInput | None) -> UpstreamMode | None:
    """Return the mode to be stored: none for `live`, which is that of a key without one."""
    return None if given is None or given.mode == "live" else given.to_mode()


def _names(given: Sequence[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


def _in_utc(moment: datetime | None) -> datetime | None:
    # Beyond these, the conversion to UTC would overflow.
    return None if moment is None else max(_FIRST_MOMENT, min(moment, _LAST_MOMENT)).astimezone(UTC)
