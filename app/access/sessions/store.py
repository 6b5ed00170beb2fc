"""The stored sessions and sign-in links. Only digests of their texts are stored."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.sessions import texts
from app.core.uuid7 import uuid7
from app.security.vault import Vault
from app.storage.models import TENANT, ConsoleSessionRow, SignInTokenRow

_SET_LAST_USED: Final = text(
    "UPDATE console_sessions SET last_used_at = greatest(last_used_at, used.at)"
    " FROM unnest(CAST(:ids AS uuid[]), CAST(:moments AS timestamptz[])) AS used(id, at)"
    " WHERE console_sessions.id = used.id"
)
_DELETE_OLDEST: Final = text(
    "DELETE FROM console_sessions WHERE id IN (SELECT id FROM console_sessions"
    " WHERE tenant_id = :tenant AND key_id = :key ORDER BY last_used_at DESC, id DESC OFFSET :retained)"
    " RETURNING id"
)
_DELETE_ENDED: Final = text(
    "DELETE FROM console_sessions WHERE ctid = ANY(ARRAY(SELECT console_sessions.ctid FROM console_sessions"
    " LEFT JOIN keys ON keys.key_id = console_sessions.key_id"
    " WHERE console_sessions.expires_at <= :at OR console_sessions.last_used_at <= :idle_since"
    " OR keys.id IS NULL OR keys.revoked_at IS NOT NULL OR keys.expires_at <= :at LIMIT 10000))"
)
_DELETE_TOKENS: Final = text(
    "DELETE FROM sign_in_tokens WHERE ctid = ANY(ARRAY(SELECT ctid FROM sign_in_tokens"
    " WHERE expires_at <= :at LIMIT 10000))"
)


async def find_session(session: AsyncSession, digest: bytes) -> ConsoleSessionRow | None:
    """Return the session of this digest, ended or not."""
    query = select(ConsoleSessionRow).where(
        col(ConsoleSessionRow.tenant_id) == TENANT, col(ConsoleSessionRow.digest) == digest
    )
    return (await session.scalars(query)).one_or_none()


async def delete_session(session: AsyncSession, digest: bytes) -> tuple[UUID, str] | None:
    """Delete the session of this digest; return its id and that of its key, None where there is none."""
    statement = (
        delete(ConsoleSessionRow)
        .where(col(ConsoleSessionRow.tenant_id) == TENANT, col(ConsoleSessionRow.digest) == digest)
        .returning(col(ConsoleSessionRow.id), col(ConsoleSessionRow.key_id))
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else (row[0], row[1])


async def delete_sessions_of(session: AsyncSession, key_id: str) -> int:
    """Delete the sessions of a key; return their number."""
    statement = (
        delete(ConsoleSessionRow)
        .where(col(ConsoleSessionRow.tenant_id) == TENANT, col(ConsoleSessionRow.key_id) == key_id)
        .returning(col(ConsoleSessionRow.id))
    )
    return len((await session.execute(statement)).all())


async def delete_oldest_of(session: AsyncSession, key_id: str, *, retained: int) -> int:
    """Delete the sessions of a key but for those `retained` that were used last; return their number."""
    values = {"tenant": TENANT, "key": key_id, "retained": retained}
    return len((await session.execute(_DELETE_OLDEST, values)).all())


def add_token(
    session: AsyncSession, vault: Vault, *, key_id: str, tenant_id: UUID, expires_at: datetime
) -> str:
    """Add a sign-in link of a key to the transaction, which is valid once, and return its token."""
    token = texts.mint("sign-in-link", vault=vault).reveal()
    digest = texts.digest("sign-in-link", token, vault=vault) or b""
    session.add(
        SignInTokenRow(id=uuid7(), tenant_id=tenant_id, digest=digest, key_id=key_id, expires_at=expires_at)
    )
    return token


async def set_authenticated(session: AsyncSession, digest: bytes, at: datetime) -> UUID | None:
    """Store that the key of a session was presented; return the session's id, None where there is none."""
    statement = (
        update(ConsoleSessionRow)
        .where(col(ConsoleSessionRow.tenant_id) == TENANT, col(ConsoleSessionRow.digest) == digest)
        .values(authenticated_at=at)
        .returning(col(ConsoleSessionRow.id))
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def record_last_used(session: AsyncSession, used: Mapping[UUID, datetime]) -> None:
    """Store when sessions were last used (by id, aware UTC), with one statement for all of them."""
    # Locked in the same order everywhere: two workers that update the same rows must not deadlock.
    ids = sorted(used)
    await session.execute(
        select(col(ConsoleSessionRow.id))
        .where(col(ConsoleSessionRow.id).in_(ids))
        .order_by(col(ConsoleSessionRow.id))
        .with_for_update()
    )
    await session.execute(_SET_LAST_USED, {"ids": ids, "moments": [used[one] for one in ids]})


async def delete_ended(session: AsyncSession, *, at: datetime, idle_since: datetime) -> None:
    """Delete sessions that have expired or were not used since `idle_since`, those of revoked and expired
    keys, and sign-in links that have expired; at most 10,000 of each.
    """
    await session.execute(_DELETE_ENDED, {"at": at, "idle_since": idle_since})
    await session.execute(_DELETE_TOKENS, {"at": at})


async def redeem_token(session: AsyncSession, digest: bytes) -> tuple[str, datetime] | None:
    """Delete a sign-in link, so that it is used once; return its key and expiry, None where there is none."""
    statement = (
        delete(SignInTokenRow)
        .where(col(SignInTokenRow.tenant_id) == TENANT, col(SignInTokenRow.digest) == digest)
        .returning(col(SignInTokenRow.key_id), col(SignInTokenRow.expires_at))
    )
    row = (await session.execute(statement)).one_or_none()
    return None if row is None else (row[0], row[1])
