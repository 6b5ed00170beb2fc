"""Which credential slots of each provider hold a credential that calls can use. No secret is read."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.loader import VariableFinder
from app.security.requirements import CLIENT_CERTIFICATE
from app.storage.models import TENANT, Credential, Provider, Variable


@dataclass(frozen=True, slots=True)
class StoredCredentials:
    """The slots with a credential, by the name of the provider; and the names of the providers by id."""

    slots: Mapping[str, frozenset[str]] = field(default_factory=dict)
    providers: Mapping[UUID, str] = field(default_factory=dict)


async def read_stored_credentials(
    session: AsyncSession, *, environment: Mapping[str, str]
) -> StoredCredentials:
    """Return the slots of all providers that hold a credential of which every variable has a value, and
    `CLIENT_CERTIFICATE` for those that have one.

    `environment` has the variables that the operator allows. Raise Unavailable without PostgreSQL.
    """
    statement = (
        select(
            col(Provider.id),
            col(Provider.name),
            col(Provider.options)["client_certificate"].astext.is_not(None).label("has_certificate"),
            col(Credential.slot),
            col(Credential.variable_names),
        )
        .outerjoin(
            Credential,
            (col(Credential.provider_id) == col(Provider.id)) & col(Credential.principal).is_(None),
        )
        .where(col(Provider.tenant_id) == TENANT)
    )
    rows = (await session.execute(statement)).all()
    stored: defaultdict[UUID | None, list[Variable]] = defaultdict(list)
    if any(row.variable_names for row in rows):
        # Values are not needed, and not read.
        names = select(col(Variable.provider_id), col(Variable.name)).where(col(Variable.tenant_id) == TENANT)
        for provider_id, name in (await session.execute(names)).all():
            stored[provider_id].append(Variable(provider_id=provider_id, name=name, secret=False, value=""))
    slots: dict[str, set[str]] = {
        row.name: {CLIENT_CERTIFICATE} if row.has_certificate else set() for row in rows
    }
    for row in rows:
        if row.slot is not None and _has_values(
            row.variable_names, row.name, [*stored[row.id], *stored[None]], environment
        ):
            slots[row.name].add(row.slot)
    return StoredCredentials(
        {name: frozenset(found) for name, found in slots.items()}, {row.id: row.name for row in rows}
    )


def _has_values(
    names: Sequence[str], provider: str, stored: Sequence[Variable], environment: Mapping[str, str]
) -> bool:
    finder = VariableFinder(provider, stored, environment)
    return all(finder.find(name) is not None for name in names)
