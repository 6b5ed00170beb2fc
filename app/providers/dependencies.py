"""FastAPI dependencies of the control plane's routes. Coroutines, as in `access.dependencies`."""

from typing import Annotated, Any

from fastapi import Depends, Request

from app.database import Database
from app.providers.approvals import Approvals
from app.providers.credential_store import CredentialStore
from app.providers.custom_tools import CustomTools
from app.providers.export import Exporter
from app.providers.provider_store import ProviderStore
from app.providers.variable_store import VariableStore
from app.registration.converter import Converter
from app.registration.fetch import Fetcher
from app.registration.jobs import ImportJobs
from app.registration.service import Registry
from app.registration.source_reader import SourceReader


def registry_of(state: Any) -> Registry:
    """Return a registry built from a lifespan state (`request.state`, or anything with its attributes)."""
    fetcher = Fetcher(state.adapters, state.resolver, state.settings.max_document_bytes)
    reader = SourceReader.of(state.settings, state.vault, fetcher, state.converter)
    return Registry(state.settings, state.database, state.vault, state.feed, reader)


async def registry(request: Request) -> Registry:
    """Return the registry of this application."""
    return registry_of(request.state)


UsesRegistry = Annotated[Registry, Depends(registry)]


async def jobs(request: Request) -> ImportJobs:
    """Return the runner of background imports."""
    database: Database = request.state.database
    converter: Converter = request.state.converter
    return ImportJobs(database, converter)


async def providers(of: UsesRegistry) -> ProviderStore:
    """Return the store of providers."""
    return ProviderStore(of)


async def approvals(of: UsesRegistry) -> Approvals:
    """Return the approvals of pending changes."""
    return Approvals(of)


async def credentials(of: UsesRegistry) -> CredentialStore:
    """Return the store of credentials."""
    return CredentialStore(of)


async def variables(of: UsesRegistry) -> VariableStore:
    """Return the store of variables."""
    return VariableStore(of)


async def custom_tools(of: UsesRegistry) -> CustomTools:
    """Return the writer of custom tools."""
    return CustomTools(of)


async def exporter(of: UsesRegistry) -> Exporter:
    """Return the exporter of definitions."""
    return Exporter(of)


UsesJobs = Annotated[ImportJobs, Depends(jobs)]
UsesProviders = Annotated[ProviderStore, Depends(providers)]
UsesApprovals = Annotated[Approvals, Depends(approvals)]
UsesCredentials = Annotated[CredentialStore, Depends(credentials)]
UsesVariables = Annotated[VariableStore, Depends(variables)]
UsesCustomTools = Annotated[CustomTools, Depends(custom_tools)]
UsesExporter = Annotated[Exporter, Depends(exporter)]
