"""FastAPI dependencies of the control plane's routes. Coroutines, as in `app.api.dependencies`."""

from typing import Annotated

from fastapi import Depends

from app.api.dependencies import UsesServices
from app.calls.approvals.service import ApprovalService
from app.providers.checks.credentials import CredentialChecker
from app.providers.checks.health import ProviderHealthReader
from app.providers.checks.service import ProviderChecks
from app.providers.credentials.store import CredentialStore
from app.providers.credentials.variable_store import VariableStore
from app.providers.registration.jobs import ImportJobs
from app.providers.registration.service import RegistrationService
from app.providers.registration.store import ProviderStore
from app.providers.tools.custom_tools import CustomTools
from app.providers.transfer.export import Exporter
from app.providers.transfer.toolsets import ToolsetTransfer


async def registry(services: UsesServices) -> RegistrationService:
    """Return the registration of this application."""
    return services.registration


UsesRegistry = Annotated[RegistrationService, Depends(registry)]


async def jobs(services: UsesServices) -> ImportJobs:
    """Return the runner of background imports."""
    return ImportJobs(services.database, services.converter, services.feed)


async def providers(of: UsesRegistry) -> ProviderStore:
    """Return the store of providers."""
    return ProviderStore(of)


async def approvals(services: UsesServices) -> ApprovalService:
    """Return the approvals of this application."""
    return services.approvals


async def credentials(of: UsesRegistry) -> CredentialStore:
    """Return the store of credentials."""
    return CredentialStore(of)


async def variables(of: UsesRegistry) -> VariableStore:
    """Return the store of variables."""
    return VariableStore(of)


async def custom_tools(of: UsesRegistry) -> CustomTools:
    """Return the writer of custom tools."""
    return CustomTools(of)


async def checks(services: UsesServices) -> ProviderChecks:
    """Return the checks of providers."""
    checker = CredentialChecker(services.catalog, services.resolver)
    return ProviderChecks(
        services.registration, services.engine, checker, services.calls.rate_limiter, services.commands
    )


async def health(services: UsesServices) -> ProviderHealthReader:
    """Return the reader of the health of providers."""
    return ProviderHealthReader(services.database, services.origins, services.commands)


async def toolset_transfer(services: UsesServices) -> ToolsetTransfer:
    """Return what exports and imports toolsets."""
    return ToolsetTransfer(services.database, services.feed)


UsesToolsetTransfer = Annotated[ToolsetTransfer, Depends(toolset_transfer)]


async def exporter(of: UsesRegistry, toolsets: UsesToolsetTransfer) -> Exporter:
    """Return the exporter of definitions."""
    return Exporter(of, toolsets)


UsesJobs = Annotated[ImportJobs, Depends(jobs)]
UsesProviders = Annotated[ProviderStore, Depends(providers)]
UsesApprovals = Annotated[ApprovalService, Depends(approvals)]
UsesCredentials = Annotated[CredentialStore, Depends(credentials)]
UsesVariables = Annotated[VariableStore, Depends(variables)]
UsesCustomTools = Annotated[CustomTools, Depends(custom_tools)]
UsesChecks = Annotated[ProviderChecks, Depends(checks)]
UsesHealth = Annotated[ProviderHealthReader, Depends(health)]
UsesExporter = Annotated[Exporter, Depends(exporter)]
