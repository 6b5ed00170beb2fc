"""Who is asking: what a verified API key, or the anonymous reader, may do."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.security.rate_limit import RateLimit
from app.security.scopes import ADMIN, missing


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights: scopes, and limits where they are not None. Both limits must hold, each by one match."""

    scopes: frozenset[str]
    providers: frozenset[str] | None = None
    """Names of the providers that may be used."""
    tags: frozenset[str] | None = None
    """Tags of which a registrar must have set at least one; tags that came with an import do not count."""
    expires_at: datetime | None = None
    rate: RateLimit | None = None
    """How often tools may be called; None is the gateway's default."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A verified caller. `key_id` is the public part of its key, and stands in the audit."""

    key_id: str
    name: str
    tenant_id: UUID
    scopes: frozenset[str]
    providers: frozenset[str] | None = None
    tags: frozenset[str] | None = None
    anonymous: bool = False
    expires_at: datetime | None = None
    rate: RateLimit | None = None

    def has(self, scope: str) -> bool:
        """Return whether the scope is held; `admin` holds all."""
        return scope in self.scopes or ADMIN in self.scopes

    def may_use(self, provider: str, registrar_tags: Collection[str]) -> bool:
        """Return whether the limits let this caller see and call tools of a provider; they bind admins as
        well.
        """
        if self.providers is not None and provider not in self.providers:
            return False
        return self.tags is None or not self.tags.isdisjoint(registrar_tags)

    def limits_cover(self, grant: Grant) -> bool:
        """Return whether the grant reaches nothing that this caller's own limits keep from it."""
        return _narrower(grant.providers, self.providers) and _narrower(grant.tags, self.tags)

    def outlives(self, grant: Grant) -> bool:
        """Return whether the grant ends no later than this caller's own key."""
        if self.expires_at is None:
            return True
        return grant.expires_at is not None and grant.expires_at <= self.expires_at

    def outpaces(self, grant: Grant) -> bool:
        """Return whether the grant may call no more often than this caller's own key, where that has a
        limit.
        """
        return self.rate is None or not self.rate.own or self.rate.covers(grant.rate)

    def lacks(self, grant: Grant) -> tuple[str, ...]:
        """Return the scopes of the grant that this caller does not hold."""
        return missing(grant.scopes, held=self.scopes)


def _narrower(wanted: frozenset[str] | None, own: frozenset[str] | None) -> bool:
    return own is None or (wanted is not None and wanted <= own)
