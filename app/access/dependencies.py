"""Typed access to what the lifespan put into the state, for the routes of this room and those above it.

Coroutines, because FastAPI runs a plain function in a thread, which costs more than all that they do.
"""

from typing import Annotated

from fastapi import Depends, Request

from app.catalog.feed import Feed
from app.database import Database
from app.search import SearchIndex
from app.security.vault import Vault
from app.settings import Settings


async def _database(request: Request) -> Database:
    found: Database = request.state.database
    return found


async def _vault(request: Request) -> Vault:
    found: Vault = request.state.vault
    return found


async def _feed(request: Request) -> Feed:
    found: Feed = request.state.feed
    return found


async def _search(request: Request) -> SearchIndex:
    found: SearchIndex = request.state.search
    return found


async def _settings(request: Request) -> Settings:
    found: Settings = request.state.settings
    return found


UsesDatabase = Annotated[Database, Depends(_database)]
UsesVault = Annotated[Vault, Depends(_vault)]
UsesFeed = Annotated[Feed, Depends(_feed)]
UsesSearch = Annotated[SearchIndex, Depends(_search)]
UsesSettings = Annotated[Settings, Depends(_settings)]
