"""Typed access to what the lifespan put into the state."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from app.catalog.feed import Feed
from app.database import Database
from app.search import SearchIndex
from app.settings import Settings


def _database(request: Request) -> Database:
    found: Database = request.state.database
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
UsesFeed = Annotated[Feed, Depends(_feed)]
UsesSearch = Annotated[SearchIndex, Depends(_search)]
UsesSettings = Annotated[Settings, Depends(_settings)]
