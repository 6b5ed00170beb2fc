"""`/recordings`: create, list, read, change, export, import and delete recordings, and begin runs."""

from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from app.api.authorisation import requires
from app.api.crud import ETAG, describe_created, respond_stored
from app.api.dependencies import UsesPageLinks, UsesServices, location_of
from app.api.idempotency import IdempotentOperation, UsesIdempotency
from app.api.lists import IfMatch
from app.api.recordings.schemas import (
    InteractionPage,
    InteractionQuery,
    InteractionSummary,
    InteractionView,
    RecordingCreate,
    RecordingPage,
    RecordingPatch,
    RecordingQuery,
    RecordingView,
    RunCreate,
    RunView,
)
from app.calls.recordings.document import RecordingDocument
from app.calls.recordings.service import etag
from app.core import exact_json
from app.core.schemas import PAGE_HEADERS, problem_responses
from app.core.upstream_mode import RECORDING_NAME
from app.security.principal import Principal

router = APIRouter(tags=["recordings"])
_CREATION: Final = IdempotentOperation("createRecording", seconds=60)
_NO_STORE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": {"Cache-Control": {"schema": {"type": "string"}, "description": "`no-store`."}}}
}

ReadsRecordings = Annotated[Principal, Depends(requires("recordings:read"))]
WritesRecordings = Annotated[Principal, Depends(requires("recordings:write"))]
DeletesRecordings = Annotated[Principal, Depends(requires("recordings:write", recent=True))]
RecordingPath = Annotated[
    str,
    Path(alias="name", pattern=RECORDING_NAME, description="Name of a recording.", examples=["checkout"]),
]
InteractionPath = Annotated[UUID, Path(alias="id", description="Id of a recorded call.")]


@router.post(
    "/recordings",
    operation_id="createRecording",
    summary="Create a recording",
    status_code=201,
    response_model=RecordingView,
    responses={
        201: describe_created(RecordingView, "Path of the recording.", idempotent=True),
        **problem_responses(400, 409, 413, 415),
    },
)
async def create_recording(
    request: Request,
    body: RecordingCreate,
    principal: WritesRecordings,
    services: UsesServices,
    idempotency: UsesIdempotency,
) -> Response:
    """Create an empty recording, for keys and toolsets in the mode `record`. 403 for a key with
    restrictions.
    """

    async def create() -> Response:
        row = await services.recordings.create(
            body.name, description=body.description, options=body.options, principal=principal
        )
        location = location_of(request, "recordings", row.name)
        return respond_stored(RecordingView.of(row), etag=etag(row), location=location)

    content = body.model_dump_json().encode()
    return await idempotency.respond(_CREATION, create, principal=principal, content=content)


@router.get(
    "/recordings",
    operation_id="listRecordings",
    summary="List all recordings",
    responses=PAGE_HEADERS | problem_responses(),
)
async def list_recordings(
    principal: ReadsRecordings,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[RecordingQuery, Query()],
) -> RecordingPage:
    """List the recordings. 403 for a key with restrictions."""
    page = await services.recordings.page(query.page(), q=query.q, principal=principal)
    links.set(page.next_cursor)
    return RecordingPage.of(page, [RecordingView.of(row) for row in page.rows])


@router.get(
    "/recordings/{name}",
    operation_id="getRecording",
    summary="Get a recording",
    responses={200: {"headers": ETAG}, **problem_responses(404)},
)
async def get_recording(
    name: RecordingPath, principal: ReadsRecordings, services: UsesServices, response: Response
) -> RecordingView:
    """Get a recording, without its calls."""
    found = await services.recordings.get(name, principal=principal)
    response.headers["ETag"] = etag(found)
    return RecordingView.of(found)


@router.patch(
    "/recordings/{name}",
    operation_id="updateRecording",
    summary="Change a recording",
    responses={200: {"headers": ETAG}, **problem_responses(400, 404, 412, 413, 415)},
)
async def update_recording(
    name: RecordingPath,
    body: RecordingPatch,
    principal: WritesRecordings,
    services: UsesServices,
    response: Response,
    *,
    if_match: IfMatch = None,
) -> RecordingView:
    """Change the description and the options of a recording. Which arguments are ignored holds for the calls
    that are recorded already, too.
    """
    changed = await services.recordings.change(
        name,
        description=body.description if "description" in body.model_fields_set else None,
        options={one: getattr(body.options, one) for one in body.options.model_fields_set},
        if_match=if_match,
        principal=principal,
    )
    response.headers["ETag"] = etag(changed)
    return RecordingView.of(changed)


@router.put(
    "/recordings/{name}",
    operation_id="putRecording",
    summary="Import a recording",
    response_model=RecordingView,
    responses={
        200: {"headers": ETAG},
        201: describe_created(RecordingView, "Path of the recording."),
        **problem_responses(400, 412, 413, 415),
    },
)
async def put_recording(
    request: Request,
    name: RecordingPath,
    body: RecordingDocument,
    principal: WritesRecordings,
    services: UsesServices,
    *,
    if_match: IfMatch = None,
) -> Response:
    """Replace a recording by a document that `GET /recordings/{name}/export` returned, here or at another
    gateway, or create it. Runs begin anew. Headers that no live response would pass on are left out.
    """
    row, is_new = await services.recordings.put(name, body, if_match=if_match, principal=principal)
    location = location_of(request, "recordings", name) if is_new else None
    return respond_stored(RecordingView.of(row), etag=etag(row), location=location)


@router.delete(
    "/recordings/{name}",
    operation_id="deleteRecording",
    summary="Delete a recording",
    status_code=204,
    responses=problem_responses(404, 412),
)
async def delete_recording(
    name: RecordingPath, principal: DeletesRecordings, services: UsesServices, *, if_match: IfMatch = None
) -> None:
    """Delete a recording with its calls. Calls of keys and toolsets that use it fail from then on: they reach
    no upstream.
    """
    await services.recordings.delete(name, if_match=if_match, principal=principal)


@router.get(
    "/recordings/{name}/export",
    operation_id="exportRecording",
    summary="Export a recording",
    response_model=RecordingDocument,
    responses=problem_responses(404) | _NO_STORE,
)
async def export_recording(
    name: RecordingPath, principal: ReadsRecordings, services: UsesServices
) -> Response:
    """Return a recording as a document that can be stored in a repository: it has no secret, and nothing that
    only this gateway can read.
    """
    document = await services.recordings.export(name, principal=principal)
    headers = {"Cache-Control": "no-store"}
    return Response(exact_json.dumps(document), headers=headers, media_type="application/json")


@router.get(
    "/recordings/{name}/interactions",
    operation_id="listInteractions",
    summary="List the calls of a recording",
    responses=PAGE_HEADERS | problem_responses(404),
)
async def list_interactions(
    name: RecordingPath,
    principal: ReadsRecordings,
    services: UsesServices,
    links: UsesPageLinks,
    query: Annotated[InteractionQuery, Query()],
) -> InteractionPage:
    """List the recorded calls with their arguments, in the order of recording."""
    page, arguments = await services.recordings.interactions(
        name, query.page(), tool=query.tool, q=query.q, principal=principal
    )
    links.set(page.next_cursor)
    pairs = zip(page.rows, arguments, strict=True)
    return InteractionPage.of(page, [InteractionSummary.of(row, given) for row, given in pairs])


@router.get(
    "/recordings/{name}/interactions/{id}",
    operation_id="getInteraction",
    summary="Get a call of a recording",
    response_model=InteractionView,
    response_model_exclude_unset=True,
    responses=problem_responses(404) | _NO_STORE,
)
async def get_interaction(
    name: RecordingPath,
    interaction_id: InteractionPath,
    principal: ReadsRecordings,
    services: UsesServices,
    response: Response,
) -> InteractionView:
    """Get a recorded call with its arguments and its response, secrets masked."""
    row, arguments, given = await services.recordings.interaction(name, interaction_id, principal=principal)
    response.headers["Cache-Control"] = "no-store"
    return InteractionView.with_response(row, arguments, given)


@router.delete(
    "/recordings/{name}/interactions/{id}",
    operation_id="deleteInteraction",
    summary="Delete a call of a recording",
    status_code=204,
    responses=problem_responses(404),
)
async def delete_interaction(
    name: RecordingPath, interaction_id: InteractionPath, principal: DeletesRecordings, services: UsesServices
) -> None:
    """Delete a recorded call: it is not replayed any more."""
    await services.recordings.delete_interaction(name, interaction_id, principal=principal)


@router.post(
    "/recordings/{name}/runs",
    operation_id="beginRun",
    summary="Begin a run of replays",
    responses=problem_responses(400, 404, 413, 415),
)
async def begin_run(
    name: RecordingPath, principal: WritesRecordings, services: UsesServices, body: RunCreate | None = None
) -> RunView:
    """Return the name of a new run for the header `X-Recording-Run` of calls: each run gets the recorded
    responses of a request in their order, so that parallel tests do not disturb each other. With `key_id`,
    the calls of this key that name no run begin anew.
    """
    key_id = None if body is None else body.key_id
    return RunView(run=await services.recordings.begin_run(name, key_id=key_id, principal=principal))
