"""Where secret variables that all providers share may be sent: to their allowed origins only.

One for which nobody has named origins gets those of its first use. Later credentials that name it need the
consent of who may change the variable; a call to another origin fails (`outbound.credential_rendering`).
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.loader import VariableFinder, sealed_credential
from app.core.errors import FieldError
from app.outbound.credential_rendering import destinations_of, variable_not_allowed
from app.providers.registration.repository import variables_for
from app.storage.models import (
    TENANT,
    Credential,
    Provider,
    Variable,
    now,
)


async def bind_shared_variables(
    session: AsyncSession, provider: Provider, credentials: Iterable[Credential], *, actor: str
) -> None:
    """Give the shared secret variables in new or changed credentials of a provider, whose rows were flushed,
    the origins of their first use.

    Raise CredentialNotAllowed for a variable that has origins already, beyond which the credential goes, too.
    """
    naming = [row for row in credentials if row.variable_names]
    if not naming:
        return
    stored = {row.id: row for row in await variables_for(session, provider.id)}
    finder = VariableFinder(provider.name, list(stored.values()), {})
    for credential in naming:
        sealed = sealed_credential(credential, finder=finder)
        for variable in sealed.variables:
            if variable.provider_id is not None or not variable.secret:
                continue
            row = stored[variable.id]
            destinations = destinations_of(sealed)
            if row.allowed_origins is None:
                await bind_variable(session, row, destinations, actor=actor)
                continue
            outside = [one for one in destinations if one not in row.allowed_origins]
            if outside:
                error = variable_not_allowed(row.name, outside[0])
                error.errors = (FieldError("", f"The credential {credential.slot!r} names {row.name}."),)
                raise error


async def bind_variable(
    session: AsyncSession, row: Variable, destinations: Iterable[str] = (), *, actor: str
) -> None:
    """Give a variable the origins `destinations` and those of all credentials that name it; none where there
    are none yet.
    """
    origins = sorted({*destinations, *await _find_origins_in_use(session, row)})
    if origins:
        await allow_origins(session, row, origins, actor=actor)


async def allow_origins(session: AsyncSession, row: Variable, origins: Iterable[str], *, actor: str) -> None:
    """Set the only origins to which a shared secret variable is sent, with the event and the change."""
    row.allowed_origins = list(dict.fromkeys(origins))
    row.updated_at = now()
    session.add(row)
    await session.flush()
    detail: dict[str, Any] = {"secret": True, "version": row.version, "allowed_origins": row.allowed_origins}
    await record_event(
        session, actor=actor, action="updated", object_type="variable", object_name=row.name, detail=detail
    )
    await record_change(session, kind="variable", provider_id=None, object_id=row.name)


async def _find_origins_in_use(session: AsyncSession, variable: Variable) -> set[str]:
    """Return the destinations of all credentials that name a shared variable, by any of its spellings."""
    owned: defaultdict[UUID | None, list[Variable]] = defaultdict(list)
    for row in await session.scalars(select(Variable).where(col(Variable.tenant_id) == TENANT)):
        owned[row.provider_id].append(row)
    query = (
        select(col(Provider.name), Credential)
        .join(Provider, col(Provider.id) == col(Credential.provider_id))
        .where(col(Credential.tenant_id) == TENANT, func.cardinality(col(Credential.variable_names)) > 0)
    )
    origins: set[str] = set()
    for provider, credential in (await session.execute(query)).all():
        finder = VariableFinder(provider, [*owned[credential.provider_id], *owned[None]], {})
        sealed = sealed_credential(credential, finder=finder)
        if any(one.id == variable.id for one in sealed.variables):
            origins.update(destinations_of(sealed))
    return origins
