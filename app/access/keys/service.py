"""Changes keys on behalf of a principal, which can grant no right that it lacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access import repository
from app.access.keys.warnings import KeyWarning, KeyWarningPolicy, read_key_warnings
from app.catalog.feed import ChangeFeed
from app.catalog.tools import similar_providers, visible_providers
from app.core.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    scopes_missing,
)
from app.core.pagination import Page, PageRequest, matches_etag, write_etag
from app.core.suggestions import did_you_mean
from app.core.upstream_mode import UpstreamMode
from app.security.principal import Grant, Principal
from app.security.secret import Secret
from app.security.vault import Vault
from app.storage.database import Database
from app.storage.models import TENANT, Key, RecordingRow, now

_RIGHTS: Final = frozenset(
    {"scopes", "providers", "tags", "toolsets", "expires_at", "rate_limit", "upstream"}
)
_MAX_UNKNOWN_PROVIDERS: Final = 50
_MAX_SUGGESTIONS: Final = 5


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """A key to be created. `providers` are those of the grant in the order in which they were given, to which
    the pointers of errors refer.
    """

    description: repository.KeyDescription
    grant: Grant
    providers: Sequence[str] = ()
    allow_unknown_providers: bool = False


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The members of `Grant` and of `KeyDescription` that change; `providers` is as in `KeyDraft`."""

    rights: Mapping[str, Any]
    description: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    providers: Sequence[str] = ()
    allow_unknown_providers: bool = False


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

    async def page(
        self, request: PageRequest, *, filters: repository.KeyFilters, principal: Principal
    ) -> Page[StoredKey]:
        """Return a page of the keys that the principal may see; raise InvalidInput for another list's
        cursor.
        """
        async with self.database.read_session() as session:
            page = await repository.list_keys(
                session,
                request,
                principal=principal,
                filters=filters,
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
            return await self._with_warnings(session, row, principal)

    async def create(self, draft: KeyDraft, *, principal: Principal) -> tuple[Secret, StoredKey]:
        """Create a key; return its text and what is stored.

        Raise Forbidden for rights that the principal lacks, Conflict for an `expires_at` in the past, and
        InvalidInput for `providers` that do not exist, unless the draft allows them.
        """
        _check_grant(principal, draft.grant)
        async with self.database.transaction() as session:
            if not draft.allow_unknown_providers:
                await _reject_unknown_providers(session, draft.providers, principal=principal)
            await _require_recording(session, draft.grant.upstream)
            minted, row = await repository.issue_key(
                session,
                self.vault,
                draft.description,
                grant=draft.grant,
                actor=principal.key_id,
                tenant=principal.tenant_id,
            )
            stored = await self._with_warnings(session, row, principal)
        await self.feed.catch_up()
        return minted.text, stored

    async def change(
        self, key_id: str, change: KeyChange, *, if_match: str | None, principal: Principal
    ) -> StoredKey:
        """Change description and rights of a key; return it after the change.

        Raise what `create` raises, NotFound, PreconditionFailed where `if_match` names another version, and
        Forbidden for the rights of the principal's own key and for a key with scopes that it lacks.
        """
        rights = sorted(change.rights.keys() & _RIGHTS)
        if key_id == principal.key_id and rights:
            raise Forbidden(
                "A key cannot change its own rights.",
                errors=[FieldError(f"/{name}", "Use another key for this.") for name in rights],
                hint="Use another key with the scope `keys:manage`, or leave these members out.",
            )
        async with self.database.transaction() as session:
            row = await _lock_key(session, key_id, principal)
            if if_match is not None and not matches_etag(if_match, etag(row)):
                raise PreconditionFailed(
                    f"The key has changed since it was read: its ETag is {etag(row)} now."
                )
            before = repository.grant_of(row)
            grant = replace(before, **change.rights)
            if grant != before:
                _check_grant(principal, grant, is_new_expiry=grant.expires_at != before.expires_at)
            if not change.allow_unknown_providers:
                await _reject_unknown_providers(session, change.providers, principal=principal)
            if grant.upstream != before.upstream:
                await _require_recording(session, grant.upstream)
            description = replace(
                repository.KeyDescription(row.name, row.owner, row.purpose), **change.description
            )
            await repository.change_key(
                session, row, description=description, grant=grant, actor=principal.key_id
            )
            stored = await self._with_warnings(session, row, principal)
        await self.feed.catch_up()
        return stored

    async def rotate(
        self, key_id: str, change: KeyChange, *, overlap: timedelta, principal: Principal
    ) -> tuple[Secret, StoredKey]:
        """Create the successor of a key, with the changed rights; the key expires after the overlap. Return
        the successor's text and what is stored of it.

        Raise Forbidden without `keys:manage` for another key than the principal's own, and for rights that
        the principal lacks; NotFound; and Conflict for a key that has expired or has a successor already.
        """
        require_own_or_managed(key_id, principal)
        async with self.database.transaction() as session:
            row = await _lock_key(session, key_id, principal)
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
            grant = replace(before, **change.rights)
            holder = _take_stored_expiry(principal, row)
            _check_grant(holder, grant, is_new_expiry=grant.expires_at != before.expires_at)
            minted, successor = await repository.rotate_key(
                session,
                self.vault,
                row,
                grant=grant,
                overlap=overlap,
                actor=principal.key_id,
            )
            stored = await self._with_warnings(session, successor, principal)
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
            row = await _lock_key(session, key_id, principal)
            await repository.revoke_key(session, row, actor=principal.key_id)
        await self.feed.catch_up()

    async def _with_warnings(self, session: AsyncSession, row: Key, principal: Principal) -> StoredKey:
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


async def _lock_key(session: AsyncSession, key_id: str, principal: Principal) -> Key:
    """Return a key with its row locked; raise NotFound, and Forbidden for scopes that the principal lacks."""
    row = await repository.find_visible(session, key_id, principal=principal, lock=True)
    if row is None:
        raise key_not_found()
    missing = principal.missing_scopes(Grant(scopes=frozenset(row.scopes)))
    if missing:
        raise scopes_missing(f"The key has scopes that your key lacks: {', '.join(missing)}.", missing)
    return row


def _take_stored_expiry(principal: Principal, row: Key) -> Principal:
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


async def _reject_unknown_providers(
    session: AsyncSession, names: Sequence[str], *, principal: Principal
) -> None:
    """Raise InvalidInput with a pointer `/providers/N` to each name of which the principal sees no provider.

    Whether a provider does not exist or may not be seen makes no difference. The first five errors suggest
    similar names, of the providers that the principal may list.
    """
    if not names:
        return
    visible = await visible_providers(session, principal, names=set(names))
    errors: list[FieldError] = []
    for index, name in enumerate(names):
        if name in visible or len(errors) == _MAX_UNKNOWN_PROVIDERS:
            continue
        detail = "There is no provider of this name."
        if len(errors) < _MAX_SUGGESTIONS:
            similar = await similar_providers(session, name, principal=principal)
            detail = f"{detail} {did_you_mean(similar)}".rstrip()
        errors.append(FieldError(f"/providers/{index}", detail))
    if errors:
        raise InvalidInput(
            f"`providers` has names of which there is no provider: see {errors[0].pointer}.",
            errors=errors,
            hint="Correct the names, or give `allow_unknown_providers: true` if the providers are registered "
            "later.",
        )


async def _require_recording(session: AsyncSession, mode: UpstreamMode | None) -> None:
    """Raise InvalidInput where the mode of a key names a recording that does not exist."""
    if mode is None or mode.recording is None:
        return
    query = select(col(RecordingRow.id)).where(
        col(RecordingRow.tenant_id) == TENANT, col(RecordingRow.name) == mode.recording
    )
    if (await session.execute(query)).first() is not None:
        return
    detail = f"There is no recording {mode.recording}."
    raise InvalidInput(
        detail,
        errors=[FieldError("/upstream/recording", detail)],
        hint="Create it with POST /recordings, or import it with PUT /recordings/{name}.",
    )
