"""Typed access to what the lifespan put into the state, for the routes of this room and those above it."""

from typing import Annotated

from fastapi import Depends, Request

from app.catalog.feed import Feed
from app.database import Database
from app.search import SearchIndex
from app.security.vault import Vault
from app.settings import Settings


def _database(request: Request) -> Database:
    found: Database = request.state.database
    return found


def _vault(request: Request) -> Vault:
    found: Vault = request.state.vault
    return found


def _feed(request: Request) -> Feed:
    found: Feed = request.state.feed
    return found


def _search(request: Request) -> SearchIndex:
    found: SearchIndex = request.state.search
    return found


def _settings(request: Request) -> Settings:
    found: Settings = request.state.settings
    return found


UsesDatabase = Annotated[Database, Depends(_database)]
UsesVault = Annotated[Vault, Depends(_vault)]
UsesFeed = Annotated[Feed, Depends(_feed)]
UsesSearch = Annotated[SearchIndex, Depends(_search)]
UsesSettings = Annotated[Settings, Depends(_settings)]
