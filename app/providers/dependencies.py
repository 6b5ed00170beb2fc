"""What the routes of the control plane make of the services. Coroutines, as in `app.dependencies`."""

from typing import Annotated

from fastapi import Depends

from app.dependencies import UsesServices
from app.providers.approving import Approvals
from app.providers.changes import ProviderChanges
from app.providers.credentials import CredentialStore
from app.providers.exports import Exporter
from app.providers.hand import HandTools
from app.providers.variables import VariableStore
from app.registration.fetch import Fetcher
from app.registration.jobs import ImportJobs
from app.registration.service import Registry
from app.registration.source_reader import SourceReader
from app.services import Services


def registry_of(services: Services) -> Registry:
    """Return the registry over these services."""
    settings = services.settings
    fetcher = Fetcher(services.adapters, services.resolver, settings.max_document_bytes)
    reader = SourceReader(settings, services.vault, fetcher, services.converter)
    return Registry(settings, services.database, services.vault, services.feed, reader)


async def registry(services: UsesServices) -> Registry:
    """Return the registry of this application."""
    return registry_of(services)


UsesRegistry = Annotated[Registry, Depends(registry)]


async def jobs(services: UsesServices) -> ImportJobs:
    """Return the imports that run beside the requests."""
    return ImportJobs(services.database, services.converter)


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
