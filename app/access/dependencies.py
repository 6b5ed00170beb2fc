"""Typed access to what the lifespan put into the state."""

from typing import Annotated

from fastapi import Depends, Request

from app.catalog.feed import Feed
from app.database import Database
from app.security.vault import Vault


def _database(request: Request) -> Database:
    found: Database = request.state.database
    return found


def _vault(request: Request) -> Vault:
    found: Vault = request.state.vault
    return found


def _feed(request: Request) -> Feed:
    found: Feed = request.state.feed
    return found


UsesDatabase = Annotated[Database, Depends(_database)]
UsesVault = Annotated[Vault, Depends(_vault)]
UsesFeed = Annotated[Feed, Depends(_feed)]
