"""The stored data keys: loading them into a vault, creating the first ones, rewrapping them (rotation)."""

from collections import Counter
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.security.vault import DataKey, KeyRing, Vault
from app.storage.database import Database
from app.storage.models import DataKeyRow

# The advisory lock for creating and rewrapping data keys: replicas that start together create one set.
_LOCK = 7234


async def open_vault(database: Database, ring: KeyRing) -> Vault:
    """Return a vault with all stored data keys; create the data keys that do not exist yet.

    Raise SealBroken where the ring lacks the key of a stored data key, so that the gateway does not start
    with secrets that it cannot open. Raise Unavailable without PostgreSQL.
    """
    vault = Vault(ring)
    async with database.transaction() as session:
        await _lock(session)
        rows = await _rows(session)
        for purpose in ("data", "digest"):
            if not any(row.purpose == purpose for row in rows):
                rows.append(_to_row(vault.new_data_key(purpose)))
        # Raises before anything is stored, where the ring lacks a key.
        vault.load([_to_key(row) for row in rows])
        session.add_all(rows)
    return vault


async def check_ring(database: Database, ring: KeyRing) -> None:
    """Raise SealBroken, with the id of the missing key, where a stored data key does not open with the ring.

    Nothing is created or stored.
    """
    async with database.read_session() as session:
        Vault(ring).load([_to_key(row) for row in await _rows(session)])


async def rewrap(database: Database, ring: KeyRing) -> int:
    """Wrap every data key with the ring's first key; return the number of those that another key had wrapped.

    Sealed values are not rewritten. Afterwards, the ring's older keys may be removed.
    """
    vault = Vault(ring)
    changed = 0
    async with database.transaction() as session:
        await _lock(session)
        rows = await _rows(session)
        # All of them, also those that the first key wraps: a rotation is complete only if every one opens.
        vault.load([_to_key(row) for row in rows])
        for row in rows:
            if row.kek_id != ring.first:
                rewrapped = vault.rewrap(_to_key(row))
                row.kek_id, row.wrapped = rewrapped.kek_id, rewrapped.wrapped
                changed += 1
    return changed


async def wrapping_keys(database: Database) -> dict[str, int]:
    """Return how many data keys each key of the ring wraps, e.g. `{"k2": 2}`."""
    async with database.read_session() as session:
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
