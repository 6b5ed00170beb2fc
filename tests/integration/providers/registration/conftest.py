"""The registration pipeline below the API: the reader of a gateway, and what a registration is about."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from sqlalchemy import delete

from app.core.settings import Settings
from app.core.telemetry.metrics import Metrics
from app.core.uuid7 import uuid7
from app.providers.credentials.permissions import UNRESTRICTED
from app.providers.registration.context import ImportContext
from app.providers.registration.source_reader import SourceReader
from app.security.vault import KeyRing, Vault
from app.services import Services, open_services
from app.storage.database import Database
from app.storage.models import Provider, Variable


@pytest.fixture(scope="module")
async def services(database_url: str, redis_url: str) -> AsyncIterator[Services]:
    """The services of a gateway on the database of this module."""
    settings = Settings(
        _env_file=None,
        database_url=database_url,
        redis_url=redis_url,
        sealing_keys=KeyRing.generate("test"),
        log_level="error",
    )
    async with open_services(settings, Metrics()) as services:
        yield services


@pytest.fixture
def vault(services: Services) -> Vault:
    return services.vault


@pytest.fixture
def reader(services: Services) -> SourceReader:
    return services.registration.reader


@pytest.fixture
async def registry(services: Services) -> AsyncIterator[Database]:
    """The database of the services; providers are deleted afterwards, while the services read there."""
    yield services.database
    async with services.database.transaction() as session:
        await session.execute(delete(Provider))


@pytest.fixture
def context() -> Callable[..., ImportContext]:
    """`context(**fields)` is about a provider `pets` without variables or credentials."""

    def make(*variables: Variable, **fields: Any) -> ImportContext:
        given = {"environment": {}, "options": {}, "permissions": UNRESTRICTED, **fields}
        return ImportContext(id=uuid7(), name="pets", variables=variables, **given)

    return make
