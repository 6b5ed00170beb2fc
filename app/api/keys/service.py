"""Creating, changing, rotating and revoking keys on behalf of a principal, which can grant no right that it
lacks.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncSession

from app.access import repository
from app.access.key_warnings import KeyWarning, KeyWarningPolicy, read_key_warnings
from app.api.keys.schemas import KeyCreate, KeyPatch, KeyQuery, KeyRotation
from app.api.keys.unknown_providers import reject_unknown_providers
from app.calls.recordings.records import require_recording_of
from app.catalog.feed import ChangeFeed
from app.core.errors import (
    Conflict,
    FieldError,
    Forbidden,
    NotFound,
    PreconditionFailed,
    scopes_missing,
)
from app.core.pagination import Page, matches_etag, write_etag
from app.security.principal import Grant, Principal
from app.security.secret import Secret
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import Key, now

_RIGHTS: Final = frozenset(
    {"scopes", "providers", "tags", "toolsets", "expires_at", "rate_limit", "upstream"}
)


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is stored, and the warnings about it."""

    row: Key
    warnings: list[KeyWarning]


@dataclass(frozen=True, slots=True)
class KeyService:
    """The operations on keys. Each change is one transaction, and is in effect on this worker when it
    returns.
    """

    database: Database
    vault: Vault
    feed: ChangeFeed
    policy: KeyWarningPolicy

    async def page(self, query: KeyQuery, *, principal: Principal) -> Page[StoredKey]:
        """Return a page of the keys that the principal may see; raise InvalidInput for another list's
        cursor.
        """
        async with self.database.read_session() as session:
            page = await repository.list_keys(
                session,
                query.page(),
                principal=principal,
                include_revoked=query.include_revoked,
                q=query.q,
                state=query.state,
                toolset=query.toolset,
                expiring_within=self.policy.expiry,
            )
            warnings = await read_key_warnings(session, page.rows, self.policy, viewer=principal)
        rows = [StoredKey(*pair) for pair in zip(page.rows, warnings, strict=True)]
        return Page(rows, page.next_cursor, page.total, page.total_at_least)

    async def get(self, key_id: str, *, principal: Principal) -> StoredKey:
        """Return a key; raise NotFound where it does not exist, is revoked or may not be seen."""
        async with self.database.read_session() as session:
            row = await repository.find_visible(session, key_id, principal=principal)
            if row is None:
                raise key_not_found()
            return await self._stored(session, row, principal)

    async def create(self, body: KeyCreate, *, principal: Principal) -> tuple[Secret, StoredKey]:
        """Create a key; return its text and what is stored.

        Raise Forbidden for rights that the principal lacks, Conflict for an `expires_at` in the past, and
        InvalidInput for `providers` that do not exist, unless the body allows them.
        """
        grant = body.grant()
        _check_grant(principal, grant)
        async with self.database.transaction() as session:
            if not body.allow_unknown_providers:
                await reject_unknown_providers(session, body.providers or (), principal=principal)
            await require_recording_of(session, grant.upstream)
            minted, row = await repository.issue_key(
                session,
                self.vault,
                body.description(),
                grant=grant,
                actor=principal.key_id,
                tenant=principal.tenant_id,
            )
            stored = await self._stored(session, row, principal)
        await self.feed.catch_up()
        return minted.text, stored

    async def change(
        self, key_id: str, patch: KeyPatch, *, if_match: str | None, principal: Principal
    ) -> StoredKey:
        """Change description and rights of a key; return it after the change.

        Raise what `create` raises, NotFound, PreconditionFailed where `if_match` names another version, and
        Forbidden for the rights of the principal's own key and for a key with scopes that it lacks.
        """
        rights = sorted(patch.model_fields_set & _RIGHTS)
        if key_id == principal.key_id and rights:
            raise Forbidden(
                "A key cannot change its own rights.",
                errors=[FieldError(f"/{name}", "Use another key for this.") for name in rights],
                hint="Use another key with the scope `keys:manage`, or leave these members out.",
            )
        async with self.database.transaction() as session:
            row = await _locked(session, key_id, principal)
            if if_match is not None and not matches_etag(if_match, etag(row)):
                raise PreconditionFailed(
                    f"The key has changed since it was read: its ETag is {etag(row)} now."
                )
            before = repository.grant_of(row)
            grant = patch.changed_grant(before)
            if grant != before:
                _check_grant(principal, grant, is_new_expiry=grant.expires_at != before.expires_at)
            if not patch.allow_unknown_providers:
                await reject_unknown_providers(session, patch.providers or (), principal=principal)
            if grant.upstream != before.upstream:
                await require_recording_of(session, grant.upstream)
            description = patch.changed_description(
                repository.KeyDescription(row.name, row.owner, row.purpose)
            )
            await repository.change_key(
                session, row, description=description, grant=grant, actor=principal.key_id
            )
            stored = await self._stored(session, row, principal)
        await self.feed.catch_up()
        return stored

    async def rotate(
        self, key_id: str, body: KeyRotation, *, principal: Principal
    ) -> tuple[Secret, StoredKey]:
        """Create the successor of a key, which expires after the overlap; return the successor's text and
        what is stored of it.

        Raise Forbidden without `keys:manage` for another key than the principal's own, and for rights that
        the principal lacks; NotFound; and Conflict for a key that has expired or has a successor already.
        """
        require_own_or_managed(key_id, principal)
        async with self.database.transaction() as session:
            row = await _locked(session, key_id, principal)
            if row.successor_id is not None:
                raise Conflict(
                    f"The key was rotated already: its successor is {row.successor_id}.",
                    hint="Rotate the successor, or create another key with POST /keys.",
                )
            if repository.is_expired(row):
                raise Conflict(
                    "The key has expired.",
                    hint="Create another key with POST /keys.",
                )
            before = repository.grant_of(row)
            grant = body.changed_grant(before)
            holder = _with_stored_expiry(principal, row)
            _check_grant(holder, grant, is_new_expiry=grant.expires_at != before.expires_at)
            minted, successor = await repository.rotate_key(
                session,
                self.vault,
                row,
                grant=grant,
                overlap=timedelta(seconds=body.overlap_seconds),
                actor=principal.key_id,
            )
            stored = await self._stored(session, successor, principal)
        await self.feed.catch_up()
        return minted.text, stored

    async def revoke(self, key_id: str, *, principal: Principal) -> None:
        """Revoke a key: at once on this worker, on the others as soon as they read the change feed.

        Raise NotFound where it does not exist, is revoked or may not be seen; Forbidden for a key with scopes
        that the principal lacks; Conflict for the principal's own key.
        """
        if key_id == principal.key_id:
            raise Conflict("A key cannot revoke itself; use another key, e.g. its successor.")
        async with self.database.transaction() as session:
            row = await _locked(session, key_id, principal)
            await repository.revoke_key(session, row, actor=principal.key_id)
        await self.feed.catch_up()

    async def _stored(self, session: AsyncSession, row: Key, principal: Principal) -> StoredKey:
        (warnings,) = await read_key_warnings(session, [row], self.policy, viewer=principal)
        return StoredKey(row, warnings)


def etag(row: Key) -> str:
    """Return the strong entity tag of a key: its version in quotes (RFC 9110 section 8.8.3)."""
    return write_etag(row.version)


def key_not_found() -> NotFound:
    """Return the error for a key that does not exist, is revoked, or may not be seen by the principal."""
    return NotFound("There is no such key.")


def require_own_or_managed(key_id: str, principal: Principal) -> None:
    """Raise Forbidden for another key than the principal's own, unless it has the scope `keys:manage`."""
    if key_id != principal.key_id and not principal.has_scope("keys:manage"):
        raise scopes_missing(
            "For another key than itself, the API key needs the scope `keys:manage`.", ["keys:manage"]
        )


async def _locked(session: AsyncSession, key_id: str, principal: Principal) -> Key:
    """Return a key with its row locked; raise NotFound, and Forbidden for scopes that the principal lacks."""
    row = await repository.find_visible(session, key_id, principal=principal, lock=True)
    if row is None:
        raise key_not_found()
    missing = principal.missing_scopes(Grant(scopes=frozenset(row.scopes)))
    if missing:
        raise scopes_missing(f"The key has scopes that your key lacks: {', '.join(missing)}.", missing)
    return row


def _with_stored_expiry(principal: Principal, row: Key) -> Principal:
    """Return the principal; where its own key is rotated, with the expiry that is stored now: another worker
    may have changed it a moment ago.
    """
    return replace(principal, expires_at=row.expires_at) if row.key_id == principal.key_id else principal


def _check_grant(principal: Principal, grant: Grant, *, is_new_expiry: bool = True) -> None:
    """Raise Forbidden for rights that the principal lacks, and Conflict for a new expiry in the past."""
    missing = principal.missing_scopes(grant)
    if missing:
        raise scopes_missing(
            f"A key can grant only scopes that it has; yours lacks {', '.join(missing)}.",
            missing,
        )
    if not principal.covers_restrictions(grant):
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: give `providers`, `tags` or `toolsets` "
            "within its restrictions."
        )
    if not principal.covers_upstream(grant):
        raise Forbidden(
            "The calls of your key reach no upstream: give an `upstream` with the mode replay or mock."
        )
    if not principal.covers_rate_limit(grant):
        raise Forbidden("Your key has a rate limit: give a `rate_limit` that does not exceed it.")
    if not principal.covers_expiry(grant):
        raise Forbidden(
            "A key cannot expire later than its creator: give an `expires_at` no later than your key's."
        )
    if is_new_expiry and grant.expires_at is not None and grant.expires_at <= now():
        raise Conflict("`expires_at` is in the past.", hint="Give a time in the future, or none.")
