"""`/providers`: register, list, change, refresh and delete providers."""

import asyncio
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.api.dependencies import UsesPageLinks, UsesSettings
from app.api.idempotency import IDEMPOTENCY_HEADERS, IdempotentOperation, UsesIdempotency, request_content
from app.api.lists import IfMatch
from app.api.providers.dependencies import UsesApprovals, UsesJobs, UsesProviders, UsesRegistry
from app.api.providers.parameters import (
    ETAG,
    LOCATION,
    DeletesProviders,
    NameQuery,
    Prefer,
    ProviderPath,
    ReadsProviders,
    WritesCredentials,
    WritesProviders,
)
from app.api.providers.request_bodies import registration_body
from app.api.providers.request_reader import read_request
from app.api.providers.responses import ImportRunner, import_response, model_response
from app.api.providers.schemas import (
    BatchResult,
    ImportView,
    Preview,
    ProviderPage,
    ProviderQuery,
    ProviderView,
    RefreshedProvider,
    RegisteredProvider,
)
from app.api.providers.views import summary_of, view_of
from app.calls.approvals.kinds import Decision
from app.core.schemas import PAGE_HEADERS, location_header, problem_responses
from app.providers.credentials.permissions import permissions_of
from app.providers.registration.input_models import ProviderPatch
from app.providers.registration.store import ProviderDetails

router = APIRouter(tags=["providers"])

_READING = (400, 409, 413, 415, 502, 504)
_REGISTRATION: Final = IdempotentOperation("registerProvider", seconds=600)


@router.post(
    "/providers",
    operation_id="registerProvider",
    summary="Register a provider",
    status_code=201,
    response_model=None,
    responses={
        201: {
            "model": RegisteredProvider,
            "description": "Registered",
            "headers": {
                **ETAG["headers"],
                **location_header("Path of the provider."),
                **IDEMPOTENCY_HEADERS,
            },
        },
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
    idempotency: UsesIdempotency,
    *,
    name: NameQuery = None,
    prefer: Prefer = None,
) -> Response:
    """Register an API. The body is `{name, url}`, `{name, source}`, a UTCP provider, call template or manual,
    an OpenAPI document (JSON, YAML, multipart), a whole providers.json or a list of `manual_call_templates`;
    the gateway detects which.
    """
    content = b"" if idempotency.key is None else await request_content(request, name or "", prefer or "")
    registrations = await read_request(request, name=name, max_bytes=settings.max_document_bytes)
    work = partial(ImportRunner(registry, principal).register, registrations)
    run = partial(
        import_response,
        work,
        request,
        jobs=jobs,
        principal=principal,
        prefer=prefer,
        registers=registrations,
    )
    return await idempotency.respond(_REGISTRATION, run, principal=principal, content=content)


@router.post(
    "/providers/preview",
    operation_id="previewProvider",
    summary="Preview a registration",
    status_code=200,
    response_model=None,
    responses={
        200: {
            "model": Preview | BatchResult,
            "description": "What would be registered; of a list, the result of each entry.",
        },
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
    return await import_response(work, request, jobs=jobs, principal=principal, prefer=prefer)


@router.get(
    "/providers",
    operation_id="listProviders",
    summary="List registered providers",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_providers(
    principal: ReadsProviders,
    providers: UsesProviders,
    links: UsesPageLinks,
    query: Annotated[ProviderQuery, Query()],
) -> ProviderPage:
    """List the providers that this key may see."""
    page = await providers.page(query.page(), q=query.q, state=query.state, principal=principal)
    links.set(page.next_cursor)
    return ProviderPage.of(page, [summary_of(one) for one in page.rows])


@router.get(
    "/providers/{name}", operation_id="getProvider", summary="Get a provider", response_model=ProviderView,
    responses={200: ETAG, **problem_responses(404)},
)  # fmt: skip
async def get_provider(name: ProviderPath, principal: ReadsProviders, providers: UsesProviders) -> Response:
    """Return one provider with its slots, credentials (without values) and the report of its last import."""
    return await _response(await providers.get(name, principal=principal))


@router.patch(
    "/providers/{name}",
    operation_id="updateProvider",
    summary="Update a provider",
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
    return await _response(await providers.patch(name, patch, if_match=if_match, principal=principal))


@router.delete(
    "/providers/{name}",
    operation_id="deleteProvider",
    summary="Delete a provider",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_provider(
    name: ProviderPath, principal: DeletesProviders, providers: UsesProviders, *, if_match: IfMatch = None
) -> None:
    """Delete a provider with its tools, credentials and variables. The records of calls and events remain."""
    await providers.delete(name, if_match=if_match, principal=principal)


@router.post(
    "/providers/{name}/refresh",
    operation_id="refreshProvider",
    summary="Refresh a provider from its source",
    response_model=None,
    responses={
        200: {"model": RefreshedProvider, **ETAG},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(404, 409, 502, 504),
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
    return await import_response(work, request, jobs=jobs, principal=principal, prefer=prefer, refreshes=name)


@router.post(
    "/providers/{name}/refresh/preview",
    operation_id="previewRefresh",
    summary="Preview a refresh",
    response_model=None,
    responses={
        200: {"model": Preview, "description": "What a refresh would change."},
        202: {"model": ImportView, "description": "Requested with `Prefer: respond-async`", **LOCATION},
        **problem_responses(404, 409, 502, 504),
    },
)
async def preview_refresh(
    request: Request,
    name: ProviderPath,
    principal: WritesProviders,
    registry: UsesRegistry,
    jobs: UsesJobs,
    *,
    prefer: Prefer = None,
) -> Response:
    """Read the source again, and return what a refresh would change (`difference`). Nothing is stored."""
    work = partial(ImportRunner(registry, principal).preview_refresh, name)
    return await import_response(work, request, jobs=jobs, principal=principal, prefer=prefer, refreshes=name)


@router.post(
    "/providers/{name}/approve",
    operation_id="approveProvider",
    summary="Approve pending changes of a provider",
    response_model=ProviderView,
    responses={200: ETAG, **problem_responses(404, 409, 412)},
)
async def approve_provider(
    name: ProviderPath,
    principal: WritesCredentials,
    providers: UsesProviders,
    approvals: UsesApprovals,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Apply the pending changes of a refresh (`pending`): `POST /approvals/{id}/approve` of their approval,
    with the ETag of the provider as a precondition. 403 for the key that requested the refresh.
    """
    await providers.get(name, principal=principal)
    pending = await approvals.pending_changes(name, principal=principal)
    await approvals.approve(pending.id, Decision(principal, if_match=if_match))
    return await _response(await providers.get(name, principal=principal))


async def _response(details: ProviderDetails) -> Response:
    # Building the view of a report of 10,000 operations takes tenths of a second.
    return await asyncio.to_thread(lambda: model_response(200, view_of(details)))
