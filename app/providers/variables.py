"""Variables: what `${NAME}` stands for, of the tenant or of one provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import provider_filter
from app.credentials.model import GivenVariable
from app.credentials.permissions import reach_of
from app.credentials.sealing import fill_variable, new_variable
from app.errors import Conflict, Forbidden, NotFound
from app.models import TENANT, Provider, Variable, now
from app.protocols.registry import PROTOCOLS
from app.registration.repository import lock_names, names_in_use
from app.registration.service import Registry
from app.security.principal import Principal


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
            shown = and_(_owned(owner), _visible(principal)) if owner is None else _owned(owner)
            query = select(Variable).where(shown, name > after).order_by(name).limit(limit + 1)
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

        Raises NotFound, and Conflict where a fetched manual names it, or the caller's key is limited and
        anything of the provider names it: the tenant's variable of that name would take its place.
        """
        registry = self.registry
        async with registry.database.writing() as session:
            owner = await self._owner(session, provider, principal=principal, writes=True)
            query = select(Variable).where(_owned(owner), col(Variable.name) == name)
            row = (await session.execute(query.with_for_update())).scalar_one_or_none()
            if row is None:
                raise NotFound(f"There is no variable {name!r} here.")
            if owner is not None:
                await self._refuse_unveiling(session, owner, name, principal=principal)
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

    async def _refuse_unveiling(
        self, session: AsyncSession, owner: UUID, name: str, *, principal: Principal
    ) -> None:
        """Conflict where the variable of all, which would come to light, is out of reach for who names it."""
        provider = await session.get_one(Provider, owner)
        within_reach = reach_of(principal).shared and not _came_from_upstream(provider)
        if not within_reach and name in await names_in_use(session, provider):
            raise Conflict(
                f"A tool or credential of {provider.name!r} names {name}: replace its value instead."
            )

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


def _visible(principal: Principal) -> ColumnElement[bool]:
    """Which variables of all a key may see: not those in the namespace of a provider that it may not see.

    Their names begin as UTCP's do (`utcp.variables.candidates`): `my__gw_KEY` is for `my_gw`.
    """
    if principal.providers is None and principal.tags is None:
        return true()
    plain = func.regexp_replace(col(Provider.name), r"[^A-Za-z0-9_]", "_", "g")
    prefix = func.replace(plain, "_", "__") + "_"
    within = (col(Provider.tenant_id) == TENANT, func.starts_with(col(Variable.name), prefix))
    seen = provider_filter(principal)
    return or_(not_(exists().where(*within, not_(seen))), exists().where(*within, seen))


def _came_from_upstream(provider: Provider) -> bool:
    """Whether its tools are those of a manual that was fetched."""
    return (
        provider.kind == "manual"
        and bool(provider.call_template)
        and provider.protocol not in PROTOCOLS.introspected
    )
