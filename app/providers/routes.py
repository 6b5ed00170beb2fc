"""`/providers`: register, list, change, refresh and delete providers."""

import asyncio
from functools import partial

from fastapi import APIRouter, Request, Response

from app.credentials.permissions import permissions_of
from app.dependencies import UsesSettings
from app.pagination import Cursor, IfMatch, Limit, decode_cursor, encode_cursor
from app.providers.dependencies import UsesApprovals, UsesJobs, UsesProviders, UsesRegistry
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
from app.providers.provider_store import ProviderDetails
from app.providers.responses import ImportRunner, import_response, model_response
from app.providers.schemas import (
    BatchResult,
    ImportView,
    Preview,
    ProviderPage,
    ProviderView,
    RefreshedProvider,
    RegisteredProvider,
)
from app.providers.views import summary_of, view_of
from app.registration.input_models import ProviderPatch
from app.registration.request_parser import read_request
from app.schemas import problem_responses

router = APIRouter(tags=["providers"])

_READING = (400, 409, 413, 415, 502, 504)


@router.post(
    "/providers",
    operation_id="registerProvider",
    status_code=201,
    response_model=None,
    responses={
        201: {"model": RegisteredProvider, **ETAG},
        200: {"model": BatchResult, "description": "Results of a list: every entry succeeded"},
        207: {"model": BatchResult, "description": "Results of a list: at least one entry failed"},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(*_READING),
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
    """Register an API. The body is `{name, source}`, a UTCP provider, call template or manual, an OpenAPI
    document (JSON, YAML, multipart), a whole providers.json or a list of `manual_call_templates`; the gateway
    detects which.
    """
    registrations = await read_request(request, name=name, max_bytes=settings.max_document_bytes)
    work = partial(ImportRunner(registry, principal).register, registrations)
    return await import_response(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.post(
    "/providers/preview",
    operation_id="previewProvider",
    status_code=200,
    response_model=None,
    responses={
        200: {"model": Preview | BatchResult},
        207: {"model": BatchResult, "description": "Results of a list: at least one entry failed"},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(*_READING),
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
    """Return what a registration with this body would do. Nothing is stored."""
    registrations = await read_request(request, name=name, max_bytes=settings.max_document_bytes)
    work = partial(ImportRunner(registry, principal).register, registrations, preview=True)
    return await import_response(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.get("/providers", operation_id="listProviders", responses=problem_responses())
async def list_providers(
    principal: ReadsProviders, providers: UsesProviders, *, limit: Limit = 50, cursor: Cursor = None
) -> ProviderPage:
    """List the providers that this key may see, by name."""
    rows, following = await providers.page(principal=principal, after=decode_cursor(cursor), limit=limit)
    return ProviderPage(items=[summary_of(one) for one in rows], next_cursor=encode_cursor(following))


@router.get(
    "/providers/{name}", operation_id="getProvider", responses={200: ETAG, **problem_responses(404)},
    response_model=ProviderView,
)  # fmt: skip
async def get_provider(name: ProviderPath, principal: ReadsProviders, providers: UsesProviders) -> Response:
    """Return one provider with its slots, credentials (without values) and the report of its last import."""
    return await _shown(await providers.get(name, principal=principal))


@router.patch(
    "/providers/{name}",
    operation_id="updateProvider",
    response_model=ProviderView,
    responses={200: ETAG, **problem_responses(400, 404, 412, 413, 415)},
)
async def update_provider(
    name: ProviderPath,
    patch: ProviderPatch,
    principal: WritesProviders,
    providers: UsesProviders,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Change description, tags, limits, options or enabled. In limits and options, null restores the
    default.
    """
    if patch.options is not None and patch.options.model_fields_set & {"proxy_url", "client_key"}:
        permissions_of(principal).require_credentials_write()
    return await _shown(await providers.patch(name, patch, if_match=if_match, principal=principal))


@router.delete(
    "/providers/{name}",
    operation_id="deleteProvider",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_provider(
    name: ProviderPath, principal: WritesProviders, providers: UsesProviders, *, if_match: IfMatch = None
) -> None:
    """Delete a provider with its tools, credentials and variables. The records of calls and events remain."""
    await providers.delete(name, if_match=if_match, principal=principal)


@router.post(
    "/providers/{name}/refresh",
    operation_id="refreshProvider",
    response_model=None,
    responses={
        200: {"model": RefreshedProvider, **ETAG},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(404, 409, 413, 502, 504),
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
    """Read the source again. Names and people's changes are preserved; credentials keep their origins; a
    change of origin, token URL or security waits for approval.
    """
    work = partial(ImportRunner(registry, principal).refresh, name)
    return await import_response(
        work, jobs=jobs, principal=principal, prefer=prefer, root_path=request.scope.get("root_path", "")
    )


@router.post(
    "/providers/{name}/approve",
    operation_id="approveProvider",
    response_model=ProviderView,
    responses={200: ETAG, **problem_responses(404, 409, 412)},
)
async def approve_provider(
    name: ProviderPath, principal: WritesCredentials, approvals: UsesApprovals, *, if_match: IfMatch = None
) -> Response:
    """Apply the changes that refreshes held back (`pending`): other origins, token URLs and security."""
    return await _shown(await approvals.approve(name, if_match=if_match, principal=principal))


async def _shown(facts: ProviderDetails) -> Response:
    # Building the view of a report of 10,000 operations takes tenths of a second.
    return await asyncio.to_thread(lambda: model_response(200, view_of(facts)))
