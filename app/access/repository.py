"""The stored API keys: creating, finding, listing, revoking. Only the digest of a key's text is stored."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import Select, Text, any_, func, literal, or_, select, text, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from app.access.events import record_event
from app.catalog.feed import record_change
from app.models import TENANT, Key, now
from app.security.keys import MintedKey, digest, mint
from app.security.principal import Grant, Principal
from app.security.rate_limit import RateLimit
from app.security.vault import Vault

_SET_LAST_USED = text(
    "UPDATE keys SET last_used_at = greatest(coalesce(last_used_at, used.at), used.at)"
    " FROM unnest(CAST(:ids AS text[]), CAST(:moments AS timestamptz[])) AS used(key_id, at)"
    " WHERE keys.key_id = used.key_id"
)


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
    """Create a key that does not expire, with its event and its change, in the session's transaction."""
    grant = Grant(
        scopes=frozenset(scopes),
        providers=None if providers is None else frozenset(providers),
        tags=None if tags is None else frozenset(tags),
        rate_limit=rate,
    )
    minted, _ = await issue_key(session, vault, name=name, grant=grant, actor=actor)
    return minted


async def issue_key(
    session: AsyncSession, vault: Vault, *, name: str, grant: Grant, actor: str, tenant: UUID = TENANT
) -> tuple[MintedKey, Key]:
    """Create a key with these rights and return it with its row.

    Whether `actor` may grant these rights has been checked before.
    """
    minted = mint()
    row = Key(
        tenant_id=tenant,
        key_id=minted.key_id,
        name=name,
        digest=digest(minted.text.reveal(), vault=vault),
        scopes=sorted(grant.scopes),
        providers=_sorted(grant.providers),
        tags=_sorted(grant.tags),
        expires_at=grant.expires_at,
        rate_limit=None if grant.rate_limit is None else grant.rate_limit.to_stored(),
    )
    session.add(row)
    detail = {
        "name": name,
        "scopes": row.scopes,
        "providers": row.providers,
        "tags": row.tags,
        "expires_at": None if row.expires_at is None else row.expires_at.isoformat(),
        "rate_limit": row.rate_limit,
    }
    await record_event(
        session, actor=actor, action="created", object_type="key", object_name=row.key_id, detail=detail
    )
    await record_change(session, kind="key", object_id=row.key_id)
    return minted, row


async def revoke_key(session: AsyncSession, row: Key, *, actor: str) -> None:
    """Revoke a key for good; its row remains, because the audit refers to it."""
    row.revoked_at = now()
    session.add(row)
    await record_event(
        session,
        actor=actor,
        action="revoked",
        object_type="key",
        object_name=row.key_id,
        detail={"name": row.name},
    )
    await record_change(session, kind="key", object_id=row.key_id)


async def has_keys(session: AsyncSession) -> bool:
    """Return whether any key was ever created."""
    return (await session.scalars(select(Key).limit(1))).first() is not None


async def find_key(session: AsyncSession, key_id: str) -> Key | None:
    """Return the key that has this id, revoked or not."""
    query = select(Key).where(Key.key_id == key_id)  # type: ignore[arg-type]
    return (await session.scalars(query)).one_or_none()


async def find_keys(session: AsyncSession, key_ids: Sequence[str]) -> dict[str, Key]:
    """Return the keys with these ids, revoked or not, by id; one statement for any number of ids."""
    query = select(Key).where(Key.key_id == any_(literal([*key_ids], ARRAY(Text))))  # type: ignore[arg-type]
    return {key.key_id: key for key in (await session.scalars(query)).all()}


async def list_key_ids(session: AsyncSession, *, after: UUID | None, limit: int) -> list[tuple[UUID, str]]:
    """Return (row id, key id) of at most `limit` unrevoked, unexpired keys after row id `after`, in that
    order.
    """
    query = select(Key.id, Key.key_id).where(  # type: ignore[call-overload]
        Key.revoked_at.is_(None),  # type: ignore[union-attr]
        or_(Key.expires_at.is_(None), Key.expires_at > func.now()),  # type: ignore[union-attr]
    )
    if after is not None:
        query = query.where(Key.id > after)
    rows = (await session.execute(query.order_by(Key.id).limit(limit))).all()
    return [(row[0], row[1]) for row in rows]


async def find_visible(
    session: AsyncSession, key_id: str, *, principal: Principal, lock: bool = False
) -> Key | None:
    """Return an unrevoked key that the principal may see, or None; `lock` locks its row (FOR UPDATE)."""
    query = _visible(principal).where(Key.key_id == key_id, Key.revoked_at.is_(None))  # type: ignore[union-attr,arg-type]
    if lock:
        query = query.with_for_update()
    return (await session.scalars(query)).one_or_none()


async def list_keys(
    session: AsyncSession,
    *,
    principal: Principal,
    include_revoked: bool = False,
    cursor: UUID | None = None,
    limit: int = 50,
) -> tuple[list[Key], UUID | None]:
    """Return a page of the keys that the principal may see, newest first, and the cursor of the next one."""
    query = _visible(principal)
    if not include_revoked:
        query = query.where(Key.revoked_at.is_(None))  # type: ignore[union-attr]
    if cursor is not None:
        query = query.where(Key.id < cursor)  # type: ignore[arg-type]
    query = query.order_by(Key.id.desc()).limit(limit + 1)  # type: ignore[attr-defined]
    rows = list((await session.scalars(query)).all())
    return rows[:limit], rows[limit - 1].id if len(rows) > limit else None


async def record_last_used(session: AsyncSession, used: dict[str, datetime]) -> None:
    """Store when keys were last used (by key id, aware UTC), with one statement for all of them."""
    # Locked in the same order everywhere: two workers that update the same keys must not deadlock.
    keys = sorted(used)
    await session.execute(
        select(Key.id).where(Key.key_id.in_(keys)).order_by(Key.id).with_for_update()  # type: ignore[call-overload,attr-defined]
    )
    await session.execute(_SET_LAST_USED, {"ids": keys, "moments": [used[key] for key in keys]})


def _visible(principal: Principal) -> Select[Key]:
    """Select the keys whose restrictions are within the principal's own: others would reveal what it may not
    see.
    """
    query = select(Key).where(Key.tenant_id == principal.tenant_id)  # type: ignore[arg-type]
    own = Key.key_id == principal.key_id
    for column, limit in ((Key.providers, principal.providers), (Key.tags, principal.tags)):
        if limit is not None:
            within = type_coerce(column, ARRAY(Text)).contained_by(sorted(limit))
            query = query.where(or_(own, within))  # type: ignore[arg-type]
    return query


def _sorted(names: frozenset[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
