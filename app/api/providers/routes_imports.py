"""`/imports/{id}`, `/export` and `/import`."""

import asyncio
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import JSONResponse

from app.api.dependencies import UsesSettings
from app.api.providers.dependencies import UsesExporter, UsesJobs, UsesRegistry, UsesToolsetTransfer
from app.api.providers.parameters import LOCATION, Prefer, ReadsProviders, WritesProviders
from app.api.providers.request_bodies import import_body
from app.api.providers.request_reader import read_json
from app.api.providers.responses import ImportRunner, StatusAndModel, import_response, import_view
from app.api.providers.schemas import BatchResult, ImportView
from app.api.providers.views import entry_of_toolset
from app.core.schemas import problem_responses
from app.providers.registration.batch import ImportProgress
from app.providers.transfer.export import ExportDocument, read_export

router = APIRouter(tags=["providers"])


@router.get(
    "/imports/{import_id}",
    operation_id="getImport",
    summary="Get the state of an import",
    responses=problem_responses(404),
)
async def get_import(
    import_id: Annotated[UUID, Path(description="Id of an import, from its 202 response.")],
    principal: ReadsProviders,
    jobs: UsesJobs,
) -> ImportView:
    """Return the state and the result of an import that was requested with `Prefer: respond-async`."""
    return import_view(await jobs.get(import_id, principal=principal))


@router.get(
    "/export",
    operation_id="exportProviders",
    summary="Export all providers",
    response_model=ExportDocument,
    responses=problem_responses(),
)
async def export_providers(principal: ReadsProviders, exporter: UsesExporter) -> Response:
    """Export the definitions of all providers that this key may see, without secrets, for `POST /import`;
    with those of all toolsets, for a key without restrictions.
    """
    return JSONResponse(await exporter.export(principal=principal))


@router.post(
    "/import",
    operation_id="importProviders",
    summary="Import exported providers",
    response_model=None,
    responses={
        200: {"model": BatchResult, "description": "Every provider was imported"},
        207: {"model": BatchResult, "description": "At least one provider was not imported"},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(400, 413, 415),
    },
    openapi_extra=import_body(),
)
async def import_providers(
    request: Request,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    toolsets: UsesToolsetTransfer,
    settings: UsesSettings,
    *,
    prefer: Prefer = None,
) -> Response:
    """Import an export, with the outcome of each provider and toolset. Importing it again changes nothing."""
    raw = await read_json(request, max_bytes=settings.max_document_bytes)
    registrations = await asyncio.to_thread(read_export, raw)
    runner = ImportRunner(registry, principal)

    async def work(progress: ImportProgress) -> StatusAndModel:
        status, model = await runner.register(registrations, progress)
        entries = raw.get("toolsets")
        if entries and isinstance(model, BatchResult):
            # After the providers: whatever became of these, a definition may name what does not exist.
            imported = await toolsets.import_all(entries, principal=principal)
            model.toolsets = [entry_of_toolset(toolset) for toolset in imported]
            if any(toolset.error is not None for toolset in imported):
                status = 207
        return status, model

    return await import_response(
        work, request, jobs=jobs, principal=principal, prefer=prefer, registers=registrations
    )
