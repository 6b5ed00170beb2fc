"""`/variables` and `/providers/{name}/variables`."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.api.dependencies import PageLinks, UsesPageLinks, UsesSettings, location_of
from app.api.providers.dependencies import UsesVariables
from app.api.providers.parameters import ProviderPath, ReadsProviders, VariablePath, WritesCredentials
from app.api.providers.request_bodies import variable_body, variables_body
from app.api.providers.request_reader import read_variable, read_variables
from app.api.providers.responses import model_response
from app.api.providers.schemas import VariablePage, VariableQuery, VariablesImported, VariableView
from app.api.providers.views import variable_of
from app.core.schemas import PAGE_HEADERS, location_header, problem_responses
from app.providers.credentials.variable_store import VariableStore
from app.providers.registration.input_models import VariablePatch
from app.security.principal import Principal

router = APIRouter(tags=["providers"])

_PUT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Replaced"},
    201: {
        "model": VariableView,
        "description": "Stored for the first time",
        "headers": location_header("Path of the variable, at which it can be replaced and deleted."),
    },
}


@router.get(
    "/variables",
    operation_id="listVariables",
    summary="List shared variables",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_variables(
    principal: ReadsProviders,
    variables: UsesVariables,
    links: UsesPageLinks,
    query: Annotated[VariableQuery, Query()],
) -> VariablePage:
    """List the variables that all providers share; secret ones without their value."""
    return await _page(variables, None, query, principal, links)


@router.put(
    "/variables/{variable}",
    operation_id="putVariable",
    summary="Set a shared variable",
    response_model=VariableView,
    responses={**_PUT, **problem_responses(400, 413, 415)},
    openapi_extra=variable_body(),
)
async def put_variable(
    request: Request,
    variable: VariablePath,
    principal: WritesCredentials,
    variables: UsesVariables,
    settings: UsesSettings,
) -> Response:
    """Set a variable: by JSON, or by its value as text. Later calls use the new value."""
    draft = await read_variable(request, max_bytes=settings.max_request_bytes)
    rows, created = await variables.put(None, {variable: draft}, principal=principal)
    location = location_of(request, "variables", variable)
    return _stored(variable_of(rows[0]), location if created else None)


@router.patch(
    "/variables/{variable}",
    operation_id="updateVariable",
    summary="Change where a shared variable is sent",
    responses=problem_responses(400, 404, 413, 415),
)
async def update_variable(
    variable: VariablePath, body: VariablePatch, principal: WritesCredentials, variables: UsesVariables
) -> VariableView:
    """Set the only origins to which a secret variable is sent that all providers share; its value stays."""
    return variable_of(await variables.allow(variable, body.allowed_origins, principal=principal))


@router.delete(
    "/variables/{variable}",
    operation_id="deleteVariable",
    summary="Delete a shared variable",
    status_code=204,
    responses=problem_responses(404),
)
async def delete_variable(
    variable: VariablePath, principal: WritesCredentials, variables: UsesVariables
) -> None:
    """Delete a variable. Later calls that need it fail with an error that names it."""
    await variables.delete(None, variable, principal=principal)


@router.post(
    "/variables/import",
    operation_id="importVariables",
    summary="Import several shared variables",
    responses=problem_responses(400, 413, 415),
    openapi_extra=variables_body(),
)
async def import_variables(
    request: Request, principal: WritesCredentials, variables: UsesVariables, settings: UsesSettings
) -> VariablesImported:
    """Set all variables of a .env file, as secrets, or those of a JSON object."""
    given = await read_variables(request, max_bytes=settings.max_request_bytes)
    rows, created = await variables.put(None, given, principal=principal)
    return VariablesImported(stored=[row.name for row in rows], created=created)


@router.get(
    "/providers/{name}/variables",
    operation_id="listProviderVariables",
    summary="List the variables of a provider",
    responses=PAGE_HEADERS | problem_responses(404),
)
async def list_provider_variables(
    name: ProviderPath,
    principal: ReadsProviders,
    variables: UsesVariables,
    links: UsesPageLinks,
    query: Annotated[VariableQuery, Query()],
) -> VariablePage:
    """List the variables of one provider; they take precedence over the shared ones."""
    return await _page(variables, name, query, principal, links)


@router.put(
    "/providers/{name}/variables/{variable}",
    operation_id="putProviderVariable",
    summary="Set a variable of a provider",
    response_model=VariableView,
    responses={**_PUT, **problem_responses(400, 404, 413, 415)},
    openapi_extra=variable_body(),
)
async def put_provider_variable(
    request: Request,
    name: ProviderPath,
    variable: VariablePath,
    principal: WritesCredentials,
    variables: UsesVariables,
    settings: UsesSettings,
) -> Response:
    """Set a variable of one provider: by JSON, or by its value as text."""
    draft = await read_variable(request, max_bytes=settings.max_request_bytes)
    rows, created = await variables.put(name, {variable: draft}, principal=principal)
    location = location_of(request, "providers", name, "variables", variable)
    return _stored(variable_of(rows[0]), location if created else None)


@router.delete(
    "/providers/{name}/variables/{variable}",
    operation_id="deleteProviderVariable",
    summary="Delete a variable of a provider",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def delete_provider_variable(
    name: ProviderPath, variable: VariablePath, principal: WritesCredentials, variables: UsesVariables
) -> None:
    """Delete a variable of one provider."""
    await variables.delete(name, variable, principal=principal)


async def _page(
    variables: VariableStore,
    provider: str | None,
    query: VariableQuery,
    principal: Principal,
    links: PageLinks,
) -> VariablePage:
    page = await variables.page(provider, query.page(), q=query.q, principal=principal)
    links.set(page.next_cursor)
    return VariablePage.of(page, [variable_of(row) for row in page.rows])


def _stored(variable: VariableView, location: str | None) -> Response:
    """Return 201 with the path of a new variable, or 200 for one that was replaced."""
    if location is None:
        return model_response(200, variable)
    return model_response(201, variable, headers={"Location": location})
