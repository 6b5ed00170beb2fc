"""`/providers`: registering, listing, changing, refreshing and deleting."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request, Response

from app.credentials.permissions import reach_of
from app.dependencies import UsesSettings
from app.pagination import Cursor, IfMatch, Limit, cursor_behind, name_before
from app.providers.answers import Answering, answered, model_response
from app.providers.changes import ProviderFacts
from app.providers.dependencies import UsesApprovals, UsesChanges, UsesJobs, UsesRegistry
from app.providers.parameters import (
    ETAG,
    LOCATION,
    NameQuery,
    Prefer,
    ProviderPath,
    ReadsProviders,
    WritesCredentials,
    WritesProviders,
    registration_body,
)
from app.providers.schemas import (
    Entries,
    ImportView,
    Preview,
    ProviderPage,
    ProviderView,
    Refreshed,
    Registered,
)
from app.providers.views import summary_of, view_of
from app.registration.input_models import ProviderPatch
from app.registration.request_parser import read_request
from app.schemas import problems

router = APIRouter(tags=["providers"])

_READING = (400, 409, 413, 415, 502, 504)


@router.post(
    "/providers",
    operation_id="registerProvider",
    status_code=201,
    response_model=None,
    responses={
        201: {"model": Registered, **ETAG},
        200: {"model": Entries, "description": "The verdicts on a list: all went well"},
        207: {"model": Entries, "description": "The verdicts on a list: some were refused"},
        202: {"model": ImportView, "description": "Asked for with `Prefer: respond-async`", **LOCATION},
        **problems(*_READING),
    },
    openapi_extra=registration_body(),
)
async def register_provider(
    request: Request,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    settings: UsesSettings,
    *,
    name: NameQuery = None,
    prefer: Prefer = None,
) -> Response:
    """Register an API: `{name, source}`, a UTCP provider, call template or manual, an OpenAPI document (JSON,
    YAML, multipart), a whole providers.json or a list of `manual_call_templates`; told apart by itself.
    """
    asked = await read_request(request, name=name, max_bytes=settings.max_document_bytes)
    work = partial(Answering(registry, principal).register, asked)
    return await answered(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.post(
    "/providers/preview",
    operation_id="previewProvider",
    status_code=200,
    response_model=None,
    responses={
        200: {"model": Preview | Entries},
        207: {"model": Entries, "description": "The verdicts on a list: some were refused"},
        202: {"model": ImportView, "description": "Asked for with `Prefer: respond-async`", **LOCATION},
        **problems(*_READING),
    },
    openapi_extra=registration_body(),
)
async def preview_provider(
    request: Request,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    settings: UsesSettings,
    *,
    name: NameQuery = None,
    prefer: Prefer = None,
) -> Response:
    """What a registration with this body would do. Nothing is stored."""
    asked = await read_request(request, name=name, max_bytes=settings.max_document_bytes)
    work = partial(Answering(registry, principal).register, asked, preview=True)
    return await answered(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.get("/providers", operation_id="listProviders", responses=problems())
async def list_providers(
    principal: ReadsProviders, changes: UsesChanges, *, limit: Limit = 50, cursor: Cursor = None
) -> ProviderPage:
    """The providers that this key may see, by name."""
    rows, following = await changes.page(principal=principal, after=name_before(cursor), limit=limit)
    return ProviderPage(items=[summary_of(one) for one in rows], next_cursor=cursor_behind(following))


@router.get(
    "/providers/{name}", operation_id="getProvider", responses={200: ETAG, **problems(404)},
    response_model=ProviderView,
)  # fmt: skip
async def get_provider(name: ProviderPath, principal: ReadsProviders, changes: UsesChanges) -> Response:
    """One provider with its slots, credentials (without values) and the report of its last import."""
    return await _shown(await changes.get(name, principal=principal))


@router.patch(
    "/providers/{name}",
    operation_id="updateProvider",
    response_model=ProviderView,
    responses={200: ETAG, **problems(400, 404, 412, 413, 415)},
)
async def update_provider(
    name: ProviderPath,
    patch: ProviderPatch,
    principal: WritesProviders,
    changes: UsesChanges,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Change description, tags, limits, options or enabled. In limits and options, null takes one back."""
    if patch.options is not None and patch.options.model_fields_set & {"proxy_url", "client_key"}:
        reach_of(principal).permit_sealing()
    return await _shown(await changes.patch(name, patch, if_match=if_match, principal=principal))


@router.delete(
    "/providers/{name}",
    operation_id="deleteProvider",
    status_code=204,
    responses=problems(404, 412),
)
async def delete_provider(
    name: ProviderPath, principal: WritesProviders, changes: UsesChanges, *, if_match: IfMatch = None
) -> None:
    """Delete a provider with its tools, credentials and variables; only the audit remembers it."""
    await changes.delete(name, if_match=if_match, principal=principal)


@router.post(
    "/providers/{name}/refresh",
    operation_id="refreshProvider",
    response_model=None,
    responses={
        200: {"model": Refreshed, **ETAG},
        202: {"model": ImportView, "description": "Asked for with `Prefer: respond-async`", **LOCATION},
        **problems(404, 409, 413, 502, 504),
    },
)
async def refresh_provider(
    request: Request,
    name: ProviderPath,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    *,
    prefer: Prefer = None,
) -> Response:
    """Read the source again. Names and what people changed stay; credentials go where they went before; a
    change of origin, token URL or security waits for approval.
    """
    work = partial(Answering(registry, principal).refresh, name)
    return await answered(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.post(
    "/providers/{name}/approve",
    operation_id="approveProvider",
    response_model=ProviderView,
    responses={200: ETAG, **problems(404, 409, 412)},
)
async def approve_provider(
    name: ProviderPath, principal: WritesCredentials, approvals: UsesApprovals, *, if_match: IfMatch = None
) -> Response:
    """Put to use what refreshes held back (`pending`): other origins, token URLs and security."""
    return await _shown(await approvals.approve(name, if_match=if_match, principal=principal))


async def _shown(facts: ProviderFacts) -> Response:
    # Reports of 10,000 operations take tenths of a second.
    return await asyncio.to_thread(lambda: model_response(200, view_of(facts)))
