"""Variables: what `${NAME}` stands for, of the tenant or of one provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.audit.events import record_event
from app.catalog.feed import record_change
from app.errors import Conflict, Forbidden, NotFound
from app.models import TENANT, Provider, Variable, now
from app.providers.keeping import fill_variable, new_variable
from app.providers.registration import GivenVariable
from app.providers.repository import credentials_of, lock_names, tools_of
from app.providers.service import Registry
from app.security.principal import Principal
from app.utcp.variables import find_variables


@dataclass(frozen=True, slots=True)
class VariableStore:
    """What can be done with variables. `provider` None means: the tenant's."""

    registry: Registry

    async def page(
        self, provider: str | None, *, principal: Principal, after: str, limit: int
    ) -> tuple[list[Variable], str | None]:
        """Variables by name after `after`, and the name to go on after; NotFound for the provider."""
        async with self.registry.database.reading() as session:
            owner = await self._owner(session, provider, principal=principal)
            name = col(Variable.name).collate("C")
            query = select(Variable).where(_owned(owner), name > after).order_by(name).limit(limit + 1)
            rows = list((await session.execute(query)).scalars())
        return rows[:limit], rows[limit - 1].name if len(rows) > limit else None

    async def put(
        self, provider: str | None, given: Mapping[str, GivenVariable], *, principal: Principal
    ) -> tuple[list[Variable], list[str]]:
        """Stores variables, in the place of those that are there; gives all, and the names of new ones."""
        registry = self.registry
        async with registry.database.writing() as session:
            await lock_names(session)
            owner = await self._owner(session, provider, principal=principal, writes=True)
            query = select(Variable).where(_owned(owner), col(Variable.name).in_(list(given)))
            existing = {row.name: row for row in (await session.execute(query)).scalars()}
            rows: list[Variable] = []
            for name, value in given.items():
                row = existing.get(name)
                if row is None:
                    row = new_variable(owner, name, value, vault=registry.vault)
                    session.add(row)
                else:
                    row.version += 1
                    row.updated_at = now()
                    fill_variable(row, value, vault=registry.vault)
                rows.append(row)
            await session.flush()
            for row in rows:
                await self._event(session, row, provider, "stored", principal=principal)
            if rows:
                name = rows[0].name if len(rows) == 1 else ""
                await record_change(session, kind="variable", provider_id=owner, object_id=name)
        await registry.feed.catch_up()
        return rows, [name for name in given if name not in existing]

    async def delete(self, provider: str | None, name: str, *, principal: Principal) -> None:
        """Deletes a variable. What names it fails from now on, and says so.

        Raises NotFound, and Conflict where a fetched manual names it: the tenant's variable of that name,
        which such a manual must not reach, would take its place.
        """
        registry = self.registry
        async with registry.database.writing() as session:
            owner = await self._owner(session, provider, principal=principal, writes=True)
            query = select(Variable).where(_owned(owner), col(Variable.name) == name)
            row = (await session.execute(query.with_for_update())).scalar_one_or_none()
            if row is None:
                raise NotFound(f"There is no variable {name!r} here.")
            if owner is not None and await _fetched_manual_names(session, owner, name):
                raise Conflict(f"The fetched manual of {provider!r} names {name}: replace its value instead.")
            await session.delete(row)
            await session.flush()
            await self._event(session, row, provider, "deleted", principal=principal)
            await record_change(session, kind="variable", provider_id=owner, object_id=name)
        await registry.feed.catch_up()

    async def _owner(
        self, session: AsyncSession, provider: str | None, *, principal: Principal, writes: bool = False
    ) -> UUID | None:
        if provider is not None:
            return (await self.registry.visible_provider(session, provider, principal=principal)).id
        if writes and (principal.providers is not None or principal.tags is not None):
            raise Forbidden("The API key is limited to certain providers; these variables belong to all.")
        return None

    async def _event(
        self, session: AsyncSession, row: Variable, provider: str | None, action: str, *, principal: Principal
    ) -> None:
        await record_event(
            session,
            actor=principal.key_id,
            action=action,
            object_type="variable",
            object_name=row.name if provider is None else f"{provider}/{row.name}",
            detail={"secret": row.secret, "version": row.version},
        )


def _owned(owner: UUID | None) -> ColumnElement[bool]:
    provider = col(Variable.provider_id)
    mine = provider.is_(None) if owner is None else provider == owner
    return (col(Variable.tenant_id) == TENANT) & mine


async def _fetched_manual_names(session: AsyncSession, owner: UUID, name: str) -> bool:
    """Whether the provider's tools came from its upstream as a manual that names the variable."""
    provider = await session.get_one(Provider, owner)
    if provider.kind != "manual" or not provider.call_template.get("url"):
        return False
    tools = [tool for tool in await tools_of(session, owner) if tool.revision_id is not None]
    named = {one for tool in tools for one in find_variables(tool.call_template)}
    return name in named.union(*(row.variable_names for row in await credentials_of(session, [owner])))
