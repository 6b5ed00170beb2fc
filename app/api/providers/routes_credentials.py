"""`/providers/{name}/credentials`. Values are write-only."""

from fastapi import APIRouter, Request, Response

from app.api.dependencies import location_of
from app.api.lists import IfMatch
from app.api.providers.dependencies import UsesCredentials
from app.api.providers.parameters import (
    ETAG,
    ProviderPath,
    ReadsProviders,
    SlotPath,
    WritesCredentials,
)
from app.api.providers.responses import model_response
from app.api.providers.schemas import CredentialList, CredentialView, DestinationView
from app.api.providers.views import credential_of
from app.core.schemas import location_header, problem_responses
from app.providers.credentials.input_models import CredentialInput

router = APIRouter(tags=["providers"])


@router.get(
    "/providers/{name}/credentials",
    operation_id="listCredentials",
    summary="List the credentials of a provider",
    responses=problem_responses(404),
)
async def list_credentials(
    name: ProviderPath, principal: ReadsProviders, credentials: UsesCredentials
) -> CredentialList:
    """List the stored credentials: kind, fingerprint, version, last use and origins; never their values.

    `destinations` tells, for each slot, where a credential stored without `allowed_origins` would be sent.
    """
    rows = await credentials.list_stored(name, principal=principal)
    found = await credentials.find_destinations(name, principal=principal)
    destinations = [DestinationView.model_validate(one, from_attributes=True) for one in found]
    return CredentialList(items=[credential_of(row) for row in rows], destinations=destinations)


@router.put(
    "/providers/{name}/credentials/{slot}",
    operation_id="putCredential",
    summary="Store a credential",
    response_model=CredentialView,
    responses={
        200: {"description": "Replaced", **ETAG},
        201: {
            "model": CredentialView,
            "description": "Stored for the first time",
            "headers": {**ETAG["headers"], **location_header("Path of the credential, which is write-only.")},
        },
        **problem_responses(400, 404, 412, 413, 415),
    },
)
async def put_credential(
    request: Request,
    name: ProviderPath,
    slot: SlotPath,
    body: CredentialInput,
    principal: WritesCredentials,
    credentials: UsesCredentials,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Store a credential. It is sent only to `allowed_origins`, and never shown again.

    One that replaces another keeps its origins and token URL, unless it names others.
    """
    row, is_new = await credentials.put(name, slot, body.to_draft(), if_match=if_match, principal=principal)
    if not is_new:
        return model_response(200, credential_of(row))
    headers = {"Location": location_of(request, "providers", name, "credentials", slot)}
    return model_response(201, credential_of(row), headers=headers)


@router.delete(
    "/providers/{name}/credentials/{slot}",
    operation_id="deleteCredential",
    summary="Delete a credential",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_credential(
    name: ProviderPath,
    slot: SlotPath,
    principal: WritesCredentials,
    credentials: UsesCredentials,
    *,
    if_match: IfMatch = None,
) -> None:
    """Delete a credential. Later calls do not send it."""
    await credentials.delete(name, slot, if_match=if_match, principal=principal)
