"""`/imports/{id}`, `/export` and `/import`."""

import asyncio
from functools import partial
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import JSONResponse

from app.dependencies import UsesSettings
from app.providers.answers import Answering, answered, import_view
from app.providers.dependencies import UsesExporter, UsesJobs, UsesRegistry
from app.providers.exports import ExportDocument, import_body, read_export
from app.providers.parameters import LOCATION, Prefer, ReadsProviders, WritesProviders
from app.providers.schemas import Entries, ImportView
from app.registration.request_parser import read_json
from app.schemas import problems

router = APIRouter(tags=["providers"])


@router.get("/imports/{import_id}", operation_id="getImport", responses=problems(404))
async def get_import(
    import_id: Annotated[UUID, Path(description="Id of an import, as its 202 named it.")],
    principal: ReadsProviders,
    jobs: UsesJobs,
) -> ImportView:
    """How an import fares that was asked for with `Prefer: respond-async`, and what it answered."""
    return import_view(await jobs.get(import_id, principal=principal))


@router.get("/export", operation_id="exportProviders", response_model=ExportDocument, responses=problems())
async def export_providers(principal: ReadsProviders, exporter: UsesExporter) -> Response:
    """The definitions of all providers that this key may see, without any secret; `POST /import` takes it."""
    return JSONResponse(await exporter.export(principal=principal))


@router.post(
    "/import",
    operation_id="importProviders",
    response_model=None,
    responses={
        200: {"model": Entries, "description": "All went well"},
        207: {"model": Entries, "description": "Some were refused"},
        202: {"model": ImportView, "description": "Asked for with `Prefer: respond-async`", **LOCATION},
        **problems(400, 413, 415),
    },
    openapi_extra=import_body(),
)
async def import_providers(
    request: Request,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    settings: UsesSettings,
    *,
    prefer: Prefer = None,
) -> Response:
    """Bring an export in: one verdict per provider. Doing it again is harmless."""
    raw = await read_json(request, max_bytes=settings.max_document_bytes)
    asked = await asyncio.to_thread(read_export, raw)
    work = partial(Answering(registry, principal).register, asked)
    return await answered(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )
