"""Principals: what a verified API key, or an anonymous reader, may do."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

from app.core.rate_limit import RateLimit
from app.core.upstream_mode import UpstreamMode
from app.security.scopes import ADMIN, missing_scopes

RepairMode = Literal["off", "safe", "on"]
"""Which repairs arguments get: none; all, but only of types for tools that are not read-only; or all."""

SchemaForm = Literal["portable", "full"]
"""How agents see schemas: as all released clients read them, or as they are, with `$defs`."""
SCHEMA_FORMS: Final[Mapping[str, SchemaForm]] = {"portable": "portable", "full": "full"}
REPAIR_MODES: Final[Mapping[str, RepairMode]] = {"off": "off", "safe": "safe", "on": "on"}


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights: scopes, and restrictions to providers and tags where these are not None.

    A tool is permitted if its provider is among `providers` and one of its tags is among `tags`.
    """

    scopes: frozenset[str]
    providers: frozenset[str] | None = None
    """Names of the providers that may be used."""
    tags: frozenset[str] | None = None
    """Tags of which a registrar must have set at least one; tags of an imported document do not count."""
    expires_at: datetime | None = None
    rate_limit: RateLimit | None = None
    """How often tools may be called; None is the gateway's default."""
    toolsets: frozenset[str] | None = None
    """Names of the toolsets through which alone tools may be used."""
    argument_repair: RepairMode | None = None
    """How arguments of calls are repaired, which is no right: None is the default of toolset or interface."""
    upstream: UpstreamMode | None = None
    """Whether calls reach their upstreams, are recorded, replayed or mocked; None: live."""
    schemas: SchemaForm | None = None
    """How schemas are shown, which is no right: None is the default of the toolset."""


@dataclass(frozen=True, slots=True)
class TokenIdentity:
    """For whom an access token was issued: claims `iss` and `sub`, and `client_id` (RFC 9068) or `azp`."""

    issuer: str
    subject: str
    client: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """Return the members as JSON values."""
        return {"issuer": self.issuer, "subject": self.subject, "client": self.client}


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client. `key_id` is the public id of its API key, which audit events and call records
    contain; of an access token, `oauth:` and a digest of its identity.
    """

    key_id: str
    name: str
    tenant_id: UUID
    scopes: frozenset[str]
    providers: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    anonymous: bool = False
    expires_at: datetime | None = None
    rate_limit: RateLimit | None = None
    rate_limit_id: str = ""
    """Under which id the calls are counted where that is not `key_id`: a key that succeeds another by
    rotation shares its limit.
    """
    toolsets: frozenset[str] | None = None
    """The toolsets through which alone the key uses tools. Then `providers` is empty, so that it sees and
    calls nothing past them; `within_toolset` returns the principal for the calls through one of them.
    """
    toolset_providers: frozenset[str] | None = None
    """The restriction of the key to providers at the addresses of its toolsets."""
    argument_repair: RepairMode | None = None
    """How arguments of its calls are repaired; None: as the toolset or the interface says."""
    upstream: UpstreamMode | None = None
    """The upstream mode of its calls; None: live, or that of the toolset."""
    schemas: SchemaForm | None = None
    """How it sees the schemas of tools; None: as the toolset says."""
    toolset: str | None = None
    """The toolset through which a key that is limited to toolsets makes its request."""
    token: TokenIdentity | None = None
    """For whom the access token of the request was issued; None for an API key."""
    issued_at: datetime | None = None
    """When the access token was issued, or verified where it does not say; None for an API key."""

    @property
    def rate_limit_owner(self) -> str:
        """The id under which calls count against `rate_limit`."""
        return self.rate_limit_id or self.key_id

    @property
    def lineage(self) -> str:
        """What a key has in common with those that succeed it by rotation: the id of the first of them; of an
        access token its own id, since other clients of its subject are others.
        """
        return self.key_id if self.token is not None else self.rate_limit_owner

    @property
    def own_providers(self) -> frozenset[str] | None:
        """The providers that the key itself is restricted to, whether or not it is limited to toolsets."""
        return self.providers if self.toolsets is None else self.toolset_providers

    @property
    def is_restricted(self) -> bool:
        """Whether there are restrictions to providers or tags. A key that is limited to toolsets may use no
        providers, except at the addresses of these.
        """
        return self.providers is not None or self.tags is not None

    def has_scope(self, scope: str) -> bool:
        """Return whether the scope is held; `admin` holds all."""
        return scope in self.scopes or ADMIN in self.scopes

    def may_use(self, provider: str, registrar_tags: Collection[str]) -> bool:
        """Return whether the restrictions permit tools of a provider with these tags; they also apply to
        admins.
        """
        if self.providers is not None and provider not in self.providers:
            return False
        return self.tags is None or not self.tags.isdisjoint(registrar_tags)

    def limited_to_toolsets(self, toolsets: Collection[str] | None) -> "Principal":
        """Return the principal of a key that is limited to these toolsets; None: to none."""
        if toolsets is None:
            return self
        return replace(
            self, toolsets=frozenset(toolsets), toolset_providers=self.providers, providers=frozenset()
        )

    def within_toolset(self, name: str) -> "Principal | None":
        """Return the principal for requests to the addresses of a toolset, None where the key may not use it.

        The caller makes sure that only members of the toolset are seen and called.
        """
        if self.toolsets is None:
            return self
        if name not in self.toolsets:
            return None
        return replace(self, toolsets=None, providers=self.toolset_providers, toolset=name)

    def across_toolsets(self) -> "Principal":
        """Return the principal for searches among the tools of all toolsets of the key.

        The caller makes sure that only members of these are found.
        """
        return replace(self, toolsets=None, providers=self.own_providers)

    def covers_restrictions(self, grant: Grant) -> bool:
        """Return whether the grant is within this principal's own restrictions to providers, tags and
        toolsets.
        """
        pairs = (
            (grant.providers, self.own_providers),
            (grant.tags, self.tags),
            (grant.toolsets, self.toolsets),
        )
        return all(_is_within(requested, own) for requested, own in pairs)

    def covers_expiry(self, grant: Grant) -> bool:
        """Return whether the grant expires no later than this principal's own key."""
        if self.expires_at is None:
            return True
        return grant.expires_at is not None and grant.expires_at <= self.expires_at

    def covers_rate_limit(self, grant: Grant) -> bool:
        """Return whether the grant's rate limit is within that of this principal's own key, if it has one."""
        return (
            self.rate_limit is None or not self.rate_limit.is_own or self.rate_limit.covers(grant.rate_limit)
        )

    def covers_upstream(self, grant: Grant) -> bool:
        """Return whether the grant reaches no upstream where this principal's own calls do not."""
        if self.upstream is None or not self.upstream.is_offline:
            return True
        return grant.upstream is not None and grant.upstream.is_offline

    def missing_scopes(self, grant: Grant) -> tuple[str, ...]:
        """Return the scopes of the grant that this principal does not have, sorted."""
        return missing_scopes(grant.scopes, held=self.scopes)


class ToolVisibility(Protocol):
    """Knows which tools a principal may use now."""

    async def may_see(self, tool: str, *, principal: Principal) -> bool:
        """Return whether the principal may use the tool of this canonical name, at the address of its request
        or, where its key is limited to toolsets, at that of one of these. Raise Unavailable.
        """


def _is_within(requested: frozenset[str] | None, own: frozenset[str] | None) -> bool:
    return own is None or (requested is not None and requested <= own)
