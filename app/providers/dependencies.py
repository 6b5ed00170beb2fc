"""What the routes of the control plane take from the state, typed. Coroutines, as in `access`."""

from typing import Annotated, Any

from fastapi import Depends, Request

from app.database import Database
from app.providers.approving import Approvals
from app.providers.changes import ProviderChanges
from app.providers.credentials import CredentialStore
from app.providers.exports import Exporter
from app.providers.hand import HandTools
from app.providers.variables import VariableStore
from app.registration.converter import Converter
from app.registration.fetch import Fetcher
from app.registration.jobs import ImportJobs
from app.registration.service import Registry
from app.registration.source_reader import SourceReader


def registry_of(state: Any) -> Registry:
    """The registry over a lifespan state (`request.state`, or anything with its attributes)."""
    fetcher = Fetcher(state.adapters, state.resolver, state.settings.max_document_bytes)
    reader = SourceReader(state.settings, state.vault, fetcher, state.converter)
    return Registry(state.settings, state.database, state.vault, state.feed, reader)


async def registry(request: Request) -> Registry:
    """The registry of this application."""
    return registry_of(request.state)


UsesRegistry = Annotated[Registry, Depends(registry)]


async def jobs(request: Request) -> ImportJobs:
    """Imports that run beside the requests."""
    database: Database = request.state.database
    converter: Converter = request.state.converter
    return ImportJobs(database, converter)


async def changes(of: UsesRegistry) -> ProviderChanges:
    """Changes of providers."""
    return ProviderChanges(of)


async def approvals(of: UsesRegistry) -> Approvals:
    """Approvals of what a refresh held back."""
    return Approvals(of)


async def credentials(of: UsesRegistry) -> CredentialStore:
    """Credentials of providers."""
    return CredentialStore(of)


async def variables(of: UsesRegistry) -> VariableStore:
    """Variables."""
    return VariableStore(of)


async def hand_tools(of: UsesRegistry) -> HandTools:
    """Tools written by hand."""
    return HandTools(of)


async def exporter(of: UsesRegistry) -> Exporter:
    """The export."""
    return Exporter(of)


UsesJobs = Annotated[ImportJobs, Depends(jobs)]
UsesChanges = Annotated[ProviderChanges, Depends(changes)]
UsesApprovals = Annotated[Approvals, Depends(approvals)]
UsesCredentials = Annotated[CredentialStore, Depends(credentials)]
UsesVariables = Annotated[VariableStore, Depends(variables)]
UsesHandTools = Annotated[HandTools, Depends(hand_tools)]
UsesExporter = Annotated[Exporter, Depends(exporter)]
