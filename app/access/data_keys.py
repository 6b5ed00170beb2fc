"""The stored data keys: loading them into a vault, making the first ones, rewrapping them (rotation)."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.database import Database
from app.models import DataKeyRow
from app.security.vault import DataKey, KeyRing, Vault

# One lock for everything that makes or rewraps data keys, so that replicas starting together make one set.
_LOCK = 7234


async def open_vault(database: Database, ring: KeyRing) -> Vault:
    """A vault with all stored data keys, which are made at the first start.

    `SealBroken` when a stored key needs a key of the ring that is missing: starting without it would only
    hide that its secrets are lost.
    """
    vault = Vault(ring)
    async with database.writing() as session:
        await _lock(session)
        rows = await _rows(session)
        for purpose in ("data", "digest"):
            if not any(row.purpose == purpose for row in rows):
                rows.append(_to_row(vault.new_data_key(purpose)))
        # Before anything is stored: a ring that lacks a key must not leave data keys of its own.
        vault.load([_to_key(row) for row in rows])
        session.add_all(rows)
    return vault


async def check_ring(database: Database, ring: KeyRing) -> None:
    """Raise SealBroken, with the id of the missing key, where a stored data key does not open with the ring.

    Nothing is made and nothing is stored.
    """
    async with database.reading() as session:
        Vault(ring).load([_to_key(row) for row in await _rows(session)])


async def rewrap(database: Database, ring: KeyRing) -> int:
    """Wraps every data key with the ring's first key; answers how many were wrapped with another one.

    Nothing that was sealed is rewritten; afterwards the ring's older keys may be removed.
    """
    vault = Vault(ring)
    changed = 0
    async with database.writing() as session:
        await _lock(session)
        rows = await _rows(session)
        # Those of the first key, too: nothing may be called rotated that does not open.
        vault.load([_to_key(row) for row in rows])
        for row in rows:
            if row.kek_id != ring.first:
                fresh = vault.rewrap(_to_key(row))
                row.kek_id, row.wrapped = fresh.kek_id, fresh.wrapped
                changed += 1
    return changed


async def wrapping_keys(database: Database) -> dict[str, int]:
    """How many data keys each key of the ring wraps, e.g. `{"k2": 2}`."""
    async with database.reading() as session:
        return dict(Counter(row.kek_id for row in await _rows(session)))


async def _lock(session: AsyncSession) -> None:
    await session.execute(select(func.pg_advisory_xact_lock(_LOCK)))


async def _rows(session: AsyncSession) -> list[DataKeyRow]:
    found: Sequence[DataKeyRow] = (await session.execute(select(DataKeyRow))).scalars().all()
    return list(found)


def _to_key(row: DataKeyRow) -> DataKey:
    return DataKey(id=row.id, purpose=row.purpose, kek_id=row.kek_id, wrapped=row.wrapped)


def _to_row(key: DataKey) -> DataKeyRow:
    return DataKeyRow(id=key.id, purpose=key.purpose, kek_id=key.kek_id, wrapped=key.wrapped)
