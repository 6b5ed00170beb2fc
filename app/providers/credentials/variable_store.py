"""Stores variables, the values of `${NAME}`: those of one provider, and those that all providers share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, and_, exists, func, not_, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import provider_filter
from app.core.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    not_found,
)
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.core.suggestions import MAX_CANDIDATES, find_similar
from app.protocols.operations import Operation
from app.protocols.registry import PROTOCOLS
from app.providers.credentials.model import VariableDraft
from app.providers.credentials.permissions import permissions_of
from app.providers.credentials.sealing import new_variable, seal_into_variable_row
from app.providers.registration.approval_requirements import (
    keep_requirements,
    operations_with_variables,
    require_where_changed,
)
from app.providers.registration.repository import lock_names, names_in_use
from app.providers.registration.service import RegistrationService
from app.providers.registration.shared_variables import allow_origins, bind_variable
from app.security.principal import Principal
from app.storage.models import TENANT, Provider, Variable, now

_ORDER: Final = Ordering(
    {
        "name": SortField(col(Variable.name).collate("C"), "name", unique=True),
        "updated_at": SortField(col(Variable.updated_at), "updated_at", datetime),
    },
    item_id=col(Variable.id),
)


@dataclass(frozen=True, slots=True)
class VariableStore:
    """Operations on variables. `provider` None stands for the variables of the tenant, which all share."""

    registry: RegistrationService

    async def page(
        self, provider: str | None, page: PageRequest, *, q: str | None, principal: Principal
    ) -> Page[Variable]:
        """Return a page of variables, with `q` of those whose name contains it; raise NotFound for the
        provider, InvalidInput for another list's cursor.
        """
        async with self.registry.database.read_session() as session:
            owner = await self._find_owner(session, provider, principal=principal)
            visible = (
                and_(_is_owned_by(owner), _is_visible_to(principal)) if owner is None else _is_owned_by(owner)
            )
            statement = select(Variable).where(visible)
            if q is not None:
                statement = statement.where(contains(q, col(Variable.name)))
            return await read_page(session, statement, ordering=_ORDER, page=page)

    async def put(
        self, provider: str | None, given: Mapping[str, VariableDraft], *, principal: Principal
    ) -> tuple[list[Variable], list[str]]:
        """Store variables or replace their values; return all rows, and the names that are new.

        Raises NotFound for the provider, and Forbidden where a limited key would write shared variables.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            await lock_names(session)
            owner = await self._find_owner(session, provider, principal=principal, writes=True)
            query = select(Variable).where(_is_owned_by(owner), col(Variable.name).in_(list(given)))
            existing = {row.name: row for row in (await session.execute(query)).scalars()}
            operations = await self._keep_requirements(session, owner, principal)
            rows: list[Variable] = []
            for name, value in given.items():
                row = existing.get(name)
                if row is None:
                    row = new_variable(owner, name, value, vault=registry.vault)
                    session.add(row)
                else:
                    row.version += 1
                    row.updated_at = now()
                    seal_into_variable_row(row, value, vault=registry.vault)
                rows.append(row)
            await session.flush()
            for row in rows:
                if owner is None and row.secret and row.allowed_origins is None:
                    await bind_variable(session, row, actor=principal.key_id)
                await self._record_event(session, row, provider, "stored", principal=principal)
            await require_where_changed(session, operations, actor=principal.key_id)
            if rows:
                name = rows[0].name if len(rows) == 1 else ""
                await record_change(session, kind="variable", provider_id=owner, object_id=name)
        await registry.feed.catch_up()
        return rows, [name for name in given if name not in existing]

    async def allow(self, name: str, origins: Sequence[str], *, principal: Principal) -> Variable:
        """Set the only origins to which a shared secret variable is sent, and return its row.

        Raise NotFound, InvalidInput for a variable that is not secret, and Forbidden for a limited key.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            await self._find_owner(session, None, principal=principal, writes=True)
            query = select(Variable).where(_is_owned_by(None), col(Variable.name) == name)
            row = (await session.execute(query.with_for_update())).scalar_one_or_none()
            if row is None:
                similar = await _suggest_variables(session, None, name, principal=principal)
                raise not_found(f"There is no variable {name!r}.", similar)
            if not row.secret:
                detail = f"The variable {name} is not secret: it has no allowed origins."
                raise InvalidInput(detail, errors=[FieldError("/allowed_origins", detail)])
            await allow_origins(session, row, origins, actor=principal.key_id)
        await registry.feed.catch_up()
        return row

    async def delete(self, provider: str | None, name: str, *, principal: Principal) -> None:
        """Delete a variable. Calls of tools that name it then fail with UnsetVariable.

        Raises NotFound; Forbidden where a limited key would delete a shared variable; and Conflict where a
        fetched manual names the variable, or the key is limited and a tool or credential of the provider
        names it: the shared variable of that name would take its place.
        """
        registry = self.registry
        async with registry.database.transaction() as session:
            await lock_names(session)
            owner = await self._find_owner(session, provider, principal=principal, writes=True)
            query = select(Variable).where(_is_owned_by(owner), col(Variable.name) == name)
            row = (await session.execute(query.with_for_update())).scalar_one_or_none()
            if row is None:
                similar = await _suggest_variables(session, owner, name, principal=principal)
                raise not_found(f"There is no variable {name!r}.", similar)
            if owner is not None:
                await self._reject_deletion_in_use(session, owner, name, principal=principal)
            operations = await self._keep_requirements(session, owner, principal)
            await session.delete(row)
            await session.flush()
            await self._record_event(session, row, provider, "deleted", principal=principal)
            await require_where_changed(session, operations, actor=principal.key_id)
            await record_change(session, kind="variable", provider_id=owner, object_id=name)
        await registry.feed.catch_up()

    async def _keep_requirements(
        self, session: AsyncSession, owner: UUID | None, principal: Principal
    ) -> dict[UUID, Operation]:
        """Keep what requires approval with the values of before a change of variables; return the operations
        that the change could make other ones, for `require_where_changed`.
        """
        await keep_requirements(session, actor=principal.key_id)
        return await operations_with_variables(session, owner)

    async def _find_owner(
        self, session: AsyncSession, provider: str | None, *, principal: Principal, writes: bool = False
    ) -> UUID | None:
        if provider is not None:
            return (await self.registry.visible_provider(session, provider, principal=principal)).id
        if writes and principal.is_restricted:
            raise Forbidden(
                "The API key is limited to certain providers; all providers share these variables."
            )
        return None

    async def _reject_deletion_in_use(
        self, session: AsyncSession, owner: UUID, name: str, *, principal: Principal
    ) -> None:
        """Raise Conflict where the deletion would put a shared variable in the place of this one, though
        whoever wrote the text that names it may not use shared variables.
        """
        provider = await session.get_one(Provider, owner)
        within_reach = permissions_of(principal).may_use_shared_secrets and not _is_fetched_manual(provider)
        if not within_reach and name in await names_in_use(session, provider):
            raise Conflict(
                f"A tool or credential of {provider.name!r} names {name}: replace its value instead."
            )

    async def _record_event(
        self, session: AsyncSession, row: Variable, provider: str | None, action: str, *, principal: Principal
    ) -> None:
        await record_event(
            session,
            actor=principal.key_id,
            action=action,
            object_type="variable",
            object_name=row.name if provider is None else f"{provider}/{row.name}",
            detail={"secret": row.secret, "version": row.version, "allowed_origins": row.allowed_origins},
        )


async def _suggest_variables(
    session: AsyncSession, owner: UUID | None, name: str, *, principal: Principal
) -> list[str]:
    """Return up to three names of variables similar to an unknown name, of those that the key may list."""
    if not principal.has_scope("providers:read"):
        return []
    visible = and_(_is_owned_by(owner), _is_visible_to(principal)) if owner is None else _is_owned_by(owner)
    query = select(col(Variable.name)).where(visible).order_by(col(Variable.name)).limit(MAX_CANDIDATES)
    return find_similar(name, (await session.execute(query)).scalars(), limit=3)


def _is_owned_by(owner: UUID | None) -> ColumnElement[bool]:
    provider = col(Variable.provider_id)
    mine = provider.is_(None) if owner is None else provider == owner
    return (col(Variable.tenant_id) == TENANT) & mine


def _is_visible_to(principal: Principal) -> ColumnElement[bool]:
    """Return the condition on shared variables that a key may see: not those in the namespace of a provider
    that it may not see.

    The namespace is UTCP's prefix (`utcp.variables.candidates`): `my__gw_KEY` belongs to `my_gw`.
    """
    if not principal.is_restricted:
        return true()
    plain = func.regexp_replace(col(Provider.name), r"[^A-Za-z0-9_]", "_", "g")
    prefix = func.replace(plain, "_", "__") + "_"
    within = (col(Provider.tenant_id) == TENANT, func.starts_with(col(Variable.name), prefix))
    seen = provider_filter(principal)
    return or_(not_(exists().where(*within, not_(seen))), exists().where(*within, seen))


def _is_fetched_manual(provider: Provider) -> bool:
    """Return whether the provider's tools come from a manual that was fetched."""
    return (
        provider.kind == "manual"
        and bool(provider.call_template)
        and provider.protocol not in PROTOCOLS.introspected
    )
