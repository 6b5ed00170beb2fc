"""The stored API keys: creating, changing, rotating, finding, listing, revoking. Only the digest of a key's
text is stored.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import ColumnElement, Select, Text, any_, func, literal, or_, select, text, true, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.core.rate_limit import RateLimit
from app.core.upstream_mode import UpstreamMode
from app.security.keys import MintedKey, digest, mint
from app.security.principal import REPAIR_MODES, SCHEMA_FORMS, Grant, Principal
from app.security.vault import Vault
from app.storage.models import TENANT, Key, now

NEWEST_KEYS: Final = PageRequest("-created_at")
_ORDER: Final = Ordering(
    {
        "name": SortField(col(Key.name).collate("C"), "name"),
        "created_at": SortField(col(Key.created_at), "created_at", datetime),
        "expires_at": SortField(col(Key.expires_at), "expires_at", datetime, nullable=True),
        "last_used_at": SortField(col(Key.last_used_at), "last_used_at", datetime, nullable=True),
    },
    item_id=col(Key.id),
)
_SET_LAST_USED = text(
    "UPDATE keys SET last_used_at = greatest(coalesce(last_used_at, used.at), used.at)"
    " FROM unnest(CAST(:ids AS text[]), CAST(:moments AS timestamptz[])) AS used(key_id, at)"
    " WHERE keys.key_id = used.key_id"
)


@dataclass(frozen=True, slots=True)
class KeyDescription:
    """What people tell keys apart by: it gives no rights."""

    name: str
    owner: str = ""
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class KeyFilters:
    """Which keys: with `q`, those whose name, owner or purpose contains it, and with `toolset`, those that
    are limited to it.

    `state` is active, expired, revoked, or expiring: valid now, but not for long. Without it, revoked keys
    are among them with `include_revoked`.
    """

    q: str | None = None
    state: Literal["active", "expiring", "expired", "revoked"] | None = None
    include_revoked: bool = False
    toolset: str | None = None


UNREVOKED_KEYS: Final = KeyFilters()


def grant_of(row: Key) -> Grant:
    """Return the rights of a stored key."""
    return Grant(
        scopes=frozenset(row.scopes),
        providers=None if row.providers is None else frozenset(row.providers),
        tags=None if row.tags is None else frozenset(row.tags),
        expires_at=row.expires_at,
        rate_limit=RateLimit.from_stored(row.rate_limit),
        toolsets=None if row.toolsets is None else frozenset(row.toolsets),
        argument_repair=REPAIR_MODES.get(row.argument_repair or ""),
        upstream=UpstreamMode.from_stored(row.upstream),
        schemas=SCHEMA_FORMS.get(row.schemas or ""),
    )


KeyState = Literal["active", "expired", "revoked"]


def state_of(row: Key) -> KeyState:
    """Return the state of a stored key now."""
    if row.revoked_at is not None:
        return "revoked"
    return "expired" if is_expired(row) else "active"


def is_expired(row: Key) -> bool:
    """Return whether a stored key has expired, by the clock of this process."""
    return row.expires_at is not None and row.expires_at <= now()


async def create_key(
    session: AsyncSession,
    vault: Vault,
    *,
    name: str,
    scopes: Iterable[str],
    actor: str,
    providers: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    rate: RateLimit | None = None,
) -> MintedKey:
    """Create a key that does not expire, with its event and its change, in the session's transaction; return
    the key, whose text is not stored.
    """
    grant = Grant(
        scopes=frozenset(scopes),
        providers=None if providers is None else frozenset(providers),
        tags=None if tags is None else frozenset(tags),
        rate_limit=rate,
    )
    minted, _ = await issue_key(session, vault, KeyDescription(name), grant=grant, actor=actor)
    return minted


async def issue_key(
    session: AsyncSession,
    vault: Vault,
    description: KeyDescription,
    *,
    grant: Grant,
    actor: str,
    tenant: UUID = TENANT,
) -> tuple[MintedKey, Key]:
    """Create a key with these rights, its event and its change; return the key and its row.

    The caller has checked that `actor` may grant these rights.
    """
    minted, row = _new_key(vault, description, grant, tenant)
    session.add(row)
    await _record(session, row, actor=actor, action="created", detail=_event_detail(row))
    return minted, row


async def change_key(
    session: AsyncSession, row: Key, *, description: KeyDescription, grant: Grant, actor: str
) -> None:
    """Give a key another description and other rights, with its event and its change.

    The caller has locked the row, and checked that `actor` may grant these rights. Nothing is stored where
    nothing changes.
    """
    before = _event_detail(row)
    row.name, row.owner, row.purpose = description.name, description.owner, description.purpose
    for name, value in _stored_rights(grant).items():
        setattr(row, name, value)
    after = _event_detail(row)
    changed = {name: value for name, value in after.items() if value != before[name]}
    if not changed:
        return
    row.version += 1
    session.add(row)
    detail = {
        "name": row.name,
        "changed": sorted(changed),
        "before": {name: before[name] for name in changed},
        "after": changed,
    }
    await _record(session, row, actor=actor, action="updated", detail=detail)


async def rotate_key(
    session: AsyncSession, vault: Vault, row: Key, *, grant: Grant, overlap: timedelta, actor: str
) -> tuple[MintedKey, Key]:
    """Create the successor of a key, which expires after `overlap`, with their events and changes; return the
    successor and its row.

    The successor has the description of the key, the rights `grant`, and shares the state of its rate limit.
    The caller has locked the row, and checked that `actor` may grant these rights.
    """
    description = KeyDescription(row.name, row.owner, row.purpose)
    minted, successor = _new_key(vault, description, grant, row.tenant_id)
    successor.rotated_from = row.key_id
    successor.rate_limit_id = row.rate_limit_id or row.key_id
    session.add(successor)
    end = now() + overlap
    row.expires_at = end if row.expires_at is None else min(row.expires_at, end)
    row.successor_id = successor.key_id
    row.version += 1
    session.add(row)
    detail = {
        "name": row.name,
        "successor_id": successor.key_id,
        "expires_at": row.expires_at.isoformat(),
        "overlap_seconds": int(overlap.total_seconds()),
    }
    await _record(session, row, actor=actor, action="rotated", detail=detail)
    created = {**_event_detail(successor), "rotated_from": row.key_id}
    await _record(session, successor, actor=actor, action="created", detail=created)
    return minted, successor


async def revoke_key(session: AsyncSession, row: Key, *, actor: str) -> None:
    """Revoke a key irrevocably, with its event and its change; its row remains, for the audit events."""
    row.revoked_at = now()
    row.version += 1
    session.add(row)
    await _record(session, row, actor=actor, action="revoked", detail={"name": row.name})


async def has_keys(session: AsyncSession) -> bool:
    """Return whether there is any key, revoked ones included."""
    return (await session.scalars(select(Key).limit(1))).first() is not None


async def find_key(session: AsyncSession, key_id: str) -> Key | None:
    """Return the key that has this id, revoked or not."""
    query = select(Key).where(Key.key_id == key_id)  # type: ignore[arg-type]
    return (await session.scalars(query)).one_or_none()


async def find_keys(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, Key]:
    """Return the keys with these ids, revoked or not, by id; one statement for any number of ids."""
    query = select(Key).where(Key.key_id == any_(literal([*key_ids], ARRAY(Text))))  # type: ignore[arg-type]
    return {key.key_id: key for key in (await session.scalars(query)).all()}


async def key_names(
    session: AsyncSession, key_ids: Collection[str], *, principal: Principal
) -> dict[str, str]:
    """Return the names of the keys with these ids that the principal may see, by id; also of revoked keys."""
    if not key_ids:
        return {}
    wanted = any_(literal(sorted(key_ids), ARRAY(Text)))
    found = await session.scalars(_visible(principal).where(col(Key.key_id) == wanted))
    return {key.key_id: key.name for key in found}


async def list_key_ids(session: AsyncSession, *, after: UUID | None, limit: int) -> list[tuple[UUID, str]]:
    """Return row id and key id of at most `limit` valid keys (not revoked, not expired), ordered by row id,
    from the first one after `after`.
    """
    query = select(Key.id, Key.key_id).where(  # type: ignore[call-overload]
        Key.revoked_at.is_(None),  # type: ignore[union-attr]
        or_(Key.expires_at.is_(None), Key.expires_at > func.now()),  # type: ignore[union-attr]
    )
    if after is not None:
        query = query.where(Key.id > after)
    rows = (await session.execute(query.order_by(Key.id).limit(limit))).all()
    return [(row[0], row[1]) for row in rows]


async def expiring_keys(session: AsyncSession, *, within: timedelta, limit: int) -> tuple[int, list[Key]]:
    """Return the number of valid keys that expire `within` this time, and the first `limit` of them."""
    query = select(Key).where(*_expires(within))
    count = (await session.execute(select(func.count()).select_from(query.subquery()))).scalar_one()
    first = query.order_by(col(Key.expires_at), col(Key.id)).limit(limit)
    return count, list((await session.scalars(first)).all())


async def find_visible(
    session: AsyncSession,
    key_id: str,
    *,
    principal: Principal,
    lock: bool = False,
    include_revoked: bool = False,
) -> Key | None:
    """Return a key that the principal may see, or None; `lock` locks its row (FOR UPDATE).

    Revoked keys are found with `include_revoked` only.
    """
    query = _visible(principal).where(Key.key_id == key_id)  # type: ignore[arg-type]
    if not include_revoked:
        query = query.where(col(Key.revoked_at).is_(None))
    if lock:
        query = query.with_for_update()
    return (await session.scalars(query)).one_or_none()


async def list_keys(
    session: AsyncSession,
    page: PageRequest = NEWEST_KEYS,
    *,
    principal: Principal,
    filters: KeyFilters = UNREVOKED_KEYS,
    expiring_within: timedelta = timedelta(0),
) -> Page[Key]:
    """Return a page of the keys that the principal may see. The state expiring is: valid now, but not after
    `expiring_within`. Raise InvalidInput for another list's cursor.
    """
    revoked, expired = col(Key.revoked_at).is_not(None), col(Key.expires_at) <= func.now()
    query = _visible(principal)
    if filters.state == "revoked":
        query = query.where(revoked)
    elif filters.state is not None or not filters.include_revoked:
        query = query.where(~revoked)
    if filters.state == "expired":
        query = query.where(expired)
    elif filters.state == "active":
        query = query.where(func.coalesce(~expired, true()))
    elif filters.state == "expiring":
        query = query.where(*_expires(expiring_within))
    if filters.toolset is not None:
        query = query.where(literal(filters.toolset) == any_(col(Key.toolsets)))
    if filters.q is not None:
        query = query.where(contains(filters.q, col(Key.name), col(Key.owner), col(Key.purpose)))
    return await read_page(session, query, ordering=_ORDER, page=page)


async def record_last_used(session: AsyncSession, used: Mapping[str, float]) -> None:
    """Store when keys were last used (by key id, POSIX time), with one statement for all of them."""
    # Locked in the same order everywhere: two workers that update the same keys must not deadlock.
    keys = sorted(used)
    await session.execute(
        select(Key.id).where(Key.key_id.in_(keys)).order_by(Key.id).with_for_update()  # type: ignore[call-overload,attr-defined]
    )
    moments = [datetime.fromtimestamp(used[key], UTC) for key in keys]
    await session.execute(_SET_LAST_USED, {"ids": keys, "moments": moments})


def _visible(principal: Principal) -> Select[Key]:
    """Select the keys whose restrictions are within the principal's own: others would reveal what it may not
    see.
    """
    query = select(Key).where(Key.tenant_id == principal.tenant_id)  # type: ignore[arg-type]
    own = Key.key_id == principal.key_id
    limits = (
        (Key.providers, principal.own_providers),
        (Key.tags, principal.tags),
        (Key.toolsets, principal.toolsets),
    )
    for column, limit in limits:
        if limit is not None:
            within = type_coerce(column, ARRAY(Text)).contained_by(sorted(limit))
            query = query.where(or_(own, within))  # type: ignore[arg-type]
    return query


def _expires(within: timedelta) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that a key is valid, and expires within this time."""
    expires_at = col(Key.expires_at)
    return col(Key.revoked_at).is_(None), expires_at > func.now(), expires_at <= func.now() + within


def _new_key(vault: Vault, description: KeyDescription, grant: Grant, tenant: UUID) -> tuple[MintedKey, Key]:
    minted = mint()
    row = Key(
        tenant_id=tenant,
        key_id=minted.key_id,
        name=description.name,
        owner=description.owner,
        purpose=description.purpose,
        digest=digest(minted.text.reveal(), vault=vault),
        **_stored_rights(grant),
    )
    return minted, row


def _stored_rights(grant: Grant) -> dict[str, Any]:
    """Return rights as the columns of a key."""
    return {
        "scopes": sorted(grant.scopes),
        "providers": _sorted(grant.providers),
        "tags": _sorted(grant.tags),
        "toolsets": _sorted(grant.toolsets),
        "expires_at": grant.expires_at,
        "rate_limit": None if grant.rate_limit is None else grant.rate_limit.to_stored(),
        "argument_repair": grant.argument_repair,
        "upstream": None if grant.upstream is None else grant.upstream.to_stored(),
        "schemas": grant.schemas,
    }


def _event_detail(row: Key) -> dict[str, Any]:
    """Return description and rights of a key as JSON."""
    return {
        "name": row.name,
        "owner": row.owner,
        "purpose": row.purpose,
        "scopes": row.scopes,
        "providers": row.providers,
        "tags": row.tags,
        "toolsets": row.toolsets,
        "expires_at": None if row.expires_at is None else row.expires_at.isoformat(),
        "rate_limit": row.rate_limit,
        "argument_repair": row.argument_repair,
        "upstream": row.upstream,
        "schemas": row.schemas,
    }


async def _record(
    session: AsyncSession, row: Key, *, actor: str, action: str, detail: Mapping[str, Any]
) -> None:
    """Add the event and the change of a key to the session's transaction."""
    await record_event(
        session, actor=actor, action=action, object_type="key", object_name=row.key_id, detail=dict(detail)
    )
    await record_change(session, kind="key", object_id=row.key_id)


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
