"""What routes take from the services, as dependencies of FastAPI.

Coroutines, because FastAPI runs a plain function in a thread, which costs more than all that they do.
"""

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request, Response

from app.catalog.feed import ChangeFeed
from app.core.pagination import link_header
from app.core.settings import Settings
from app.search.vectors import SearchVectors
from app.security.vault import Vault
from app.services import Services
from app.storage.database import Database


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


async def _search_vectors(request: Request) -> SearchVectors:
    return services_of(request).vectors


async def _settings(request: Request) -> Settings:
    return services_of(request).settings


def location_of(request: Request, *segments: str) -> str:
    """Return the path of a resource, for the header `Location`: ROOT_PATH, and the segments, each
    percent-encoded.
    """
    root: str = request.scope.get("root_path", "")
    return "/".join((root.rstrip("/"), *(quote(segment, safe="") for segment in segments)))


class PageLinks:
    """Sets the header `Link` of a list's response."""

    def __init__(self, request: Request, response: Response) -> None:
        self._request = request
        self._response = response

    def set(self, next_cursor: str | None) -> None:
        """Set the links to the first page, and to the next one where there is one.

        The URLs begin with PUBLIC_BASE_URL; without it they are paths that begin with ROOT_PATH.
        """
        scope = self._request.scope
        root = scope.get("root_path", "").rstrip("/")
        path = scope["path"]
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        base = services_of(self._request).settings.public_base_url or root
        query = self._request.query_params.multi_items()
        self._response.headers["Link"] = link_header(base + path, query, next_cursor=next_cursor)


async def _page_links(request: Request, response: Response) -> PageLinks:
    return PageLinks(request, response)


UsesServices = Annotated[Services, Depends(_services)]
UsesDatabase = Annotated[Database, Depends(_database)]
UsesVault = Annotated[Vault, Depends(_vault)]
UsesFeed = Annotated[ChangeFeed, Depends(_feed)]
UsesSearchVectors = Annotated[SearchVectors, Depends(_search_vectors)]
UsesSettings = Annotated[Settings, Depends(_settings)]
UsesPageLinks = Annotated[PageLinks, Depends(_page_links)]
