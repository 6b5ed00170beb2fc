"""`/keys`: create, list, read, change, rotate and revoke API keys."""

from typing import Annotated, Final

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response

from app.access.keys.service import KeyService, StoredKey, etag
from app.access.keys.warnings import KeyWarningPolicy
from app.api.authorisation import Requires, requires
from app.api.crud import ETAG, describe_created, respond_stored
from app.api.dependencies import UsesPageLinks, location_of, services_of
from app.api.idempotency import IdempotentOperation, UsesIdempotency
from app.api.keys.schemas import (
    KeyCreate,
    KeyCreated,
    KeyPage,
    KeyPatch,
    KeyQuery,
    KeyRotation,
    KeyView,
)
from app.api.lists import IfMatch
from app.core import exact_json
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.security.keys import KEY_ID_PATTERN
from app.security.principal import Principal
from app.security.secret import Secret

router = APIRouter(tags=["keys"])
_CREATION: Final = IdempotentOperation("createKey", seconds=60, retention_seconds=600)
"""The stored response has the text of the key, sealed: so it is stored for ten minutes only."""
_ROTATION: Final = IdempotentOperation("rotateKey", seconds=60, retention_seconds=600)
_DEFAULT_ROTATION: Final = KeyRotation()

ManagesKeys = Annotated[Principal, Depends(requires("keys:manage"))]
ChangesKeys = Annotated[Principal, Depends(requires("keys:manage", recent=True))]
RotatesKeys = Annotated[Principal, Depends(Requires(None, recent=True))]
KeyIdPath = Annotated[str, Path(pattern=KEY_ID_PATTERN, description="Id of a key, as in `GET /keys`.")]


async def _keys(request: Request) -> KeyService:
    services = services_of(request)
    policy = KeyWarningPolicy.from_settings(services.settings)
    return KeyService(services.database, services.vault, services.feed, policy)


UsesKeys = Annotated[KeyService, Depends(_keys)]


@router.post(
    "/keys",
    operation_id="createKey",
    summary="Create an API key",
    status_code=201,
    response_model=KeyCreated,
    responses={
        201: describe_created(KeyCreated, "Path of the key.", idempotent=True),
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_key(
    request: Request, body: KeyCreate, principal: ChangesKeys, keys: UsesKeys, idempotency: UsesIdempotency
) -> Response:
    """Create an API key. Its text is returned only in this response, which a retry with the same
    `Idempotency-Key` gets again for ten minutes.

    A key can grant only scopes that it has, within its own restrictions, rate limit and expiry. 409 for an
    `expires_at` in the past; 422 for `providers` that do not exist, unless `allow_unknown_providers` is true.
    """

    async def create() -> Response:
        return _created(request, *await keys.create(body.to_draft(), principal=principal))

    content = body.model_dump_json().encode()
    return await idempotency.respond(_CREATION, create, principal=principal, content=content)


@router.get(
    "/keys",
    operation_id="listKeys",
    summary="List API keys",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_keys(
    principal: ManagesKeys,
    keys: UsesKeys,
    links: UsesPageLinks,
    query: Annotated[KeyQuery, Query()],
) -> KeyPage:
    """List the keys, newest first unless `sort` says otherwise."""
    page = await keys.page(query.page(), filters=query.to_filters(), principal=principal)
    links.set(page.next_cursor)
    return KeyPage.of(page, [KeyView.of(key) for key in page.rows])


@router.get(
    "/keys/{key_id}",
    operation_id="getKey",
    summary="Get an API key",
    responses={200: {"headers": ETAG}, **problem_responses(404)},
)
async def get_key(key_id: KeyIdPath, principal: ManagesKeys, keys: UsesKeys, response: Response) -> KeyView:
    """Get a key; 404 for a revoked key."""
    stored = await keys.get(key_id, principal=principal)
    response.headers["ETag"] = etag(stored.row)
    return KeyView.of(stored)


@router.patch(
    "/keys/{key_id}",
    operation_id="updateKey",
    summary="Update an API key",
    responses={200: {"headers": ETAG}, **problem_responses(400, 404, 409, 412, 413, 415)},
)
async def update_key(
    key_id: KeyIdPath,
    patch: KeyPatch,
    principal: ChangesKeys,
    keys: UsesKeys,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> KeyView:
    """Change description and rights of a key: at once on this worker, within seconds on all others.

    The rights after the change must be rights that the requesting key could grant to a new key. A key cannot
    change its own rights. 409 for an `expires_at` in the past; to end a key now, revoke it. `providers` must
    exist, as in `POST /keys`.
    """
    stored = await keys.change(key_id, patch.to_change(), if_match=if_match, principal=principal)
    response.headers["ETag"] = etag(stored.row)
    return KeyView.of(stored)


@router.post(
    "/keys/{key_id}/rotate",
    operation_id="rotateKey",
    summary="Rotate an API key",
    status_code=201,
    response_model=KeyCreated,
    responses={
        201: describe_created(KeyCreated, "Path of the successor.", idempotent=True),
        **problem_responses(400, 404, 409, 413, 415),
    },
)
async def rotate_key(
    request: Request,
    key_id: KeyIdPath,
    principal: RotatesKeys,
    keys: UsesKeys,
    idempotency: UsesIdempotency,
    body: Annotated[KeyRotation, Body()] = _DEFAULT_ROTATION,
) -> Response:
    """Create the successor of a key, with the same rights; the key itself expires after an overlap.

    The successor's text is returned only in this response, which a retry with the same `Idempotency-Key` gets
    again for ten minutes. Any key may rotate itself: it gains nothing, since both count against one rate
    limit, and the successor expires no later. For another key, `keys:manage` and the rights to create such a
    key are needed. 409 for a key that has expired or has a successor.
    """

    async def rotate() -> Response:
        successor = await keys.rotate(key_id, body.to_change(), overlap=body.overlap, principal=principal)
        return _created(request, *successor)

    content = exact_json.dumps([key_id, body.model_dump(mode="json", exclude_unset=True)])
    return await idempotency.respond(_ROTATION, rotate, principal=principal, content=content)


@router.delete(
    "/keys/{key_id}",
    operation_id="revokeKey",
    summary="Revoke an API key",
    status_code=204,
    responses=problem_responses(404, 409),
)
async def revoke_key(key_id: KeyIdPath, principal: ChangesKeys, keys: UsesKeys) -> None:
    """Revoke a key irrevocably: at once on this worker, within seconds on all others. 409 for the request's
    own key. Its successor remains valid.
    """
    await keys.revoke(key_id, principal=principal)


def _created(request: Request, text: Secret, stored: StoredKey) -> Response:
    view = KeyCreated.with_text(stored, text.reveal())
    location = location_of(request, "keys", stored.row.key_id)
    return respond_stored(view, etag=etag(stored.row), location=location, no_store=True)
