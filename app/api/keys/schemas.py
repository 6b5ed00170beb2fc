"""Request and response models of `/keys`."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, Field

from app.access.keys.service import KeyChange, KeyDraft, StoredKey
from app.access.keys.warnings import WarningCode
from app.access.repository import KeyDescription, KeyFilters, KeyState, state_of
from app.core.pagination import PageQuery
from app.core.pagination.page_request import ONE_LINE
from app.core.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    PageModel,
    ProviderName,
    RateLimitInput,
    Rfc3339DateTime,
    StrictModel,
    ToolsetName,
    UpstreamModeInput,
    in_utc,
)
from app.core.upstream_mode import UpstreamMode
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Grant, RepairMode, SchemaForm
from app.security.scopes import Scope
from app.toolsets.definition import SCHEMAS

# One line of printable text; the pattern says so in the OpenAPI document as well.
_LINE_OR_EMPTY = r"^[^\u0000-\u001F\u007F]*$"

Line = Annotated[str, Field(min_length=1, max_length=100, pattern=ONE_LINE)]
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

    def to_draft(self) -> KeyDraft:
        """Return the key to be created, with `expires_at` in UTC."""
        grant = Grant(
            scopes=frozenset(self.scopes),
            providers=_names(self.providers),
            tags=_names(self.tags),
            toolsets=_names(self.toolsets),
            expires_at=in_utc(self.expires_at),
            rate_limit=None if self.rate_limit is None else self.rate_limit.to_rate_limit(),
            argument_repair=self.argument_repair,
            upstream=_mode(self.upstream),
            schemas=self.schemas,
        )
        return KeyDraft(
            KeyDescription(self.name, self.owner, self.purpose),
            grant,
            providers=self.providers or (),
            allow_unknown_providers=self.allow_unknown_providers,
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

    def to_change(self) -> KeyChange:
        """Return what the key is to get: the members that were given, with `expires_at` in UTC."""
        rights = {
            "scopes": frozenset(self.scopes),
            "providers": _names(self.providers),
            "tags": _names(self.tags),
            "toolsets": _names(self.toolsets),
            "expires_at": in_utc(self.expires_at),
            "rate_limit": None if self.rate_limit is None else self.rate_limit.to_rate_limit(),
            "argument_repair": self.argument_repair,
            "upstream": _mode(self.upstream),
            "schemas": self.schemas,
        }
        description = {"name": self.name, "owner": self.owner, "purpose": self.purpose}
        given = self.model_fields_set
        return KeyChange(
            {name: value for name, value in rights.items() if name in given},
            {name: value for name, value in description.items() if name in given},
            providers=self.providers or (),
            allow_unknown_providers=self.allow_unknown_providers,
        )


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

    @property
    def overlap(self) -> timedelta:
        """For how long the rotated key remains valid."""
        return timedelta(seconds=self.overlap_seconds)

    def to_change(self) -> KeyChange:
        """Return the rights that the successor is to get, other than those of the key."""
        is_given = "expires_at" in self.model_fields_set
        return KeyChange({"expires_at": in_utc(self.expires_at)} if is_given else {})


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
    def of(cls, key: StoredKey) -> Self:
        """Return the view of a stored key."""
        return cls.model_validate(_members_of(key), from_attributes=True)


class KeyCreated(KeyView):
    """A new key with its text, which is shown only once."""

    key: str = Field(description="The key itself. Only a digest of it is stored.", examples=["ugw_..."])

    @classmethod
    def with_text(cls, key: StoredKey, text: str) -> Self:
        """Return the view of a key that was just created, with its text."""
        return cls.model_validate({**_members_of(key), "key": text}, from_attributes=True)


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

    def to_filters(self) -> KeyFilters:
        """Return which keys are listed."""
        return KeyFilters(self.q, self.state, self.include_revoked, self.toolset)


def _members_of(key: StoredKey) -> dict[str, Any]:
    """Return the members of the view of a key."""
    row = key.row
    stored = {name: getattr(row, name) for name in KeyView.model_fields if hasattr(row, name)}
    return {**stored, "id": row.key_id, "state": state_of(row), "warnings": key.warnings}


def _mode(given: UpstreamModeInput | None) -> UpstreamMode | None:
    """Return the mode to be stored: none for `live`, which is that of a key without one."""
    return None if given is None or given.mode == "live" else given.to_mode()


def _names(given: Sequence[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)
