"""What routes take from the services, as dependencies of FastAPI.

Coroutines, because FastAPI runs a plain function in a thread, which costs more than all that they do.
"""

from typing import Annotated

from fastapi import Depends, Request

from app.catalog.feed import ChangeFeed
from app.database import Database
from app.search import SearchIndex
from app.security.vault import Vault
from app.services import Services
from app.settings import Settings


def services_of(request: Request) -> Services:
    """Return the services of the application that serves the request."""
    found: Services = request.state.services
    return found


async def _services(request: Request) -> Services:
    return services_of(request)


async def _database(request: Request) -> Database:
    return services_of(request).database


async def _vault(request: Request) -> Vault:
    return services_of(request).vault


async def _feed(request: Request) -> ChangeFeed:
    return services_of(request).feed


async def _search(request: Request) -> SearchIndex:
    return services_of(request).search


async def _settings(request: Request) -> Settings:
    return services_of(request).settings


UsesServices = Annotated[Services, Depends(_services)]
UsesDatabase = Annotated[Database, Depends(_database)]
UsesVault = Annotated[Vault, Depends(_vault)]
UsesFeed = Annotated[ChangeFeed, Depends(_feed)]
UsesSearch = Annotated[SearchIndex, Depends(_search)]
UsesSettings = Annotated[Settings, Depends(_settings)]
