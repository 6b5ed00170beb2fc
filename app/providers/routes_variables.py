"""`/variables` and `/providers/{name}/variables`."""

from typing import Any

from fastapi import APIRouter, Request, Response

from app.credentials.model import VariableDraft
from app.dependencies import UsesSettings
from app.errors import BadRequest, UnsupportedMediaType
from app.pagination import Cursor, Limit, decode_cursor, encode_cursor
from app.providers.dependencies import UsesVariables
from app.providers.parameters import ProviderPath, ReadsProviders, VariablePath, WritesCredentials
from app.providers.responses import model_response
from app.providers.schemas import VariablePage, VariablesImported, VariableView
from app.providers.variable_store import VariableStore
from app.providers.views import variable_of
from app.registration.input_models import VariableInput
from app.registration.request_parser import read_body, variable_draft
from app.schemas import problem_responses
from app.security.principal import Principal
from app.utcp.variables import parse_dotenv

router = APIRouter(tags=["providers"])

_PUT: dict[int | str, dict[str, Any]] = {
    200: {"description": "Replaced"},
    201: {"model": VariableView, "description": "Stored for the first time"},
}


@router.get("/variables", operation_id="listVariables", responses=problem_responses())
async def list_variables(
    principal: ReadsProviders, variables: UsesVariables, *, limit: Limit = 50, cursor: Cursor = None
) -> VariablePage:
    """List the variables that all providers share; secret ones without their value."""
    return await _page(variables, None, principal, cursor, limit)


@router.put(
    "/variables/{variable}",
    operation_id="putVariable",
    response_model=VariableView,
    responses={**_PUT, **problem_responses(400, 413, 415)},
)
async def put_variable(
    variable: VariablePath, body: VariableInput, principal: WritesCredentials, variables: UsesVariables
) -> Response:
    """Set a variable. Later calls use the new value."""
    return await _put(variables, None, variable, body, principal)


@router.delete(
    "/variables/{variable}", operation_id="deleteVariable", status_code=204, responses=problem_responses(404)
)
async def delete_variable(
    variable: VariablePath, principal: WritesCredentials, variables: UsesVariables
) -> None:
    """Delete a variable. Later calls that need it fail with an error that names it."""
    await variables.delete(None, variable, principal=principal)


@router.post(
    "/variables/import",
    operation_id="importVariables",
    responses=problem_responses(400, 413, 415),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "text/plain": {"schema": {"type": "string", "minLength": 1}, "example": "API_TOKEN=secret\n"}
            },
        }
    },
)
async def import_variables(
    request: Request, principal: WritesCredentials, variables: UsesVariables, settings: UsesSettings
) -> VariablesImported:
    """Set all variables of a .env file, as secrets."""
    essence = request.headers.get("content-type", "text/plain").partition(";")[0].strip().lower()
    if essence not in {"text/plain", ""}:
        raise UnsupportedMediaType("Send the .env file as text/plain.")
    body = await read_body(request, max_bytes=min(settings.max_request_bytes, 1 << 20))
    if not body.strip():
        raise BadRequest("The body is empty.")
    try:
        found = parse_dotenv(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadRequest("The file is not UTF-8.") from None
    given = {name: VariableDraft(value) for name, value in found.items()}
    rows, created = await variables.put(None, given, principal=principal)
    return VariablesImported(stored=[row.name for row in rows], created=created)


@router.get(
    "/providers/{name}/variables", operation_id="listProviderVariables", responses=problem_responses(404)
)
async def list_provider_variables(
    name: ProviderPath,
    principal: ReadsProviders,
    variables: UsesVariables,
    *,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> VariablePage:
    """List the variables of one provider; they take precedence over the shared ones."""
    return await _page(variables, name, principal, cursor, limit)


@router.put(
    "/providers/{name}/variables/{variable}",
    operation_id="putProviderVariable",
    response_model=VariableView,
    responses={**_PUT, **problem_responses(400, 404, 413, 415)},
)
async def put_provider_variable(
    name: ProviderPath,
    variable: VariablePath,
    body: VariableInput,
    principal: WritesCredentials,
    variables: UsesVariables,
) -> Response:
    """Set a variable of one provider."""
    return await _put(variables, name, variable, body, principal)


@router.delete(
    "/providers/{name}/variables/{variable}",
    operation_id="deleteProviderVariable",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def delete_provider_variable(
    name: ProviderPath, variable: VariablePath, principal: WritesCredentials, variables: UsesVariables
) -> None:
    """Delete a variable of one provider."""
    await variables.delete(name, variable, principal=principal)


async def _page(
    variables: VariableStore, provider: str | None, principal: Principal, cursor: str | None, limit: int
) -> VariablePage:
    after = decode_cursor(cursor)
    rows, following = await variables.page(provider, principal=principal, after=after, limit=limit)
    return VariablePage(items=[variable_of(row) for row in rows], next_cursor=encode_cursor(following))


async def _put(
    variables: VariableStore, provider: str | None, name: str, body: VariableInput, principal: Principal
) -> Response:
    rows, created = await variables.put(provider, {name: variable_draft(body)}, principal=principal)
    return model_response(201 if created else 200, variable_of(rows[0]))
