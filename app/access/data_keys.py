"""The stored data keys: loading them into a vault, creating the first ones, rewrapping them (rotation)."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.database import Database
from app.models import DataKeyRow
from app.security.vault import DataKey, KeyRing, Vault

# One lock for all that creates or rewraps data keys, so that replicas starting together create one set.
_LOCK = 7234


async def open_vault(database: Database, ring: KeyRing) -> Vault:
    """Return a vault with all stored data keys, which are created at the first start.

    Raise SealBroken when the ring lacks the key of a stored data key: starting without it would only hide
    that its secrets are lost.
    """
    vault = Vault(ring)
    async with database.writing() as session:
        await _lock(session)
        rows = await _rows(session)
        for purpose in ("data", "digest"):
            if not any(row.purpose == purpose for row in rows):
                rows.append(_to_row(vault.new_data_key(purpose)))
        # Before anything is stored: with a ring that lacks a key, no new data keys must be stored.
        vault.load([_to_key(row) for row in rows])
        session.add_all(rows)
    return vault


async def check_ring(database: Database, ring: KeyRing) -> None:
    """Raise SealBroken, with the id of the missing key, where a stored data key does not open with the ring.

    Nothing is created or stored.
    """
    async with database.reading() as session:
        Vault(ring).load([_to_key(row) for row in await _rows(session)])


async def rewrap(database: Database, ring: KeyRing) -> int:
    """Wrap every data key with the ring's first key; return how many were wrapped with another one before.

    Sealed values are not rewritten. Afterwards, the ring's older keys may be removed.
    """
    vault = Vault(ring)
    changed = 0
    async with database.writing() as session:
        await _lock(session)
        rows = await _rows(session)
        # Including those of the first key: a rotation is complete only if every data key opens.
        vault.load([_to_key(row) for row in rows])
        for row in rows:
            if row.kek_id != ring.first:
                fresh = vault.rewrap(_to_key(row))
                row.kek_id, row.wrapped = fresh.kek_id, fresh.wrapped
                changed += 1
    return changed


async def wrapping_keys(database: Database) -> dict[str, int]:
    """Return how many data keys each key of the ring wraps, e.g. `{"k2": 2}`."""
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
