"""`/agent-tests`: run a test, read its results as JSON or JUnit XML, cancel it."""

from functools import partial
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from app.agents.tests.definition import AgentTestRequest
from app.agents.tests.junit import junit_xml
from app.agents.tests.runs import AgentTestRuns, StoredTest, TestHeaders
from app.agents.tests.schemas import AgentTestRun
from app.api.authorisation import requires
from app.api.dependencies import UsesServices, location_of
from app.api.streams.connection import until_disconnected
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.core.errors import Conflict
from app.core.media_types import parse_accept
from app.core.schemas import location_header, problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["agent tests"])


RunsTests = Annotated[Principal, Depends(requires("agent-tests:run"))]
TestPath = Annotated[UUID, Path(alias="id", description="Id of an agent test.")]
ResultFormat = Annotated[
    Literal["json", "junit"] | None,
    Query(
        alias="format",
        description="The form of the results. Default: JSON, or JUnit XML with `Accept: application/xml`.",
    ),
]
Prefer = Annotated[
    str | None,
    Header(
        max_length=200, description="`respond-async` returns 202 at once (RFC 7240).", examples=["wait=10"]
    ),
]
_XML: Final[dict[str, Any]] = {
    "application/xml": {
        "schema": {"type": "string", "description": "JUnit XML: a test suite for each model."}
    }
}
_NO_STORE: Final = {"Cache-Control": "no-store"}


async def _runs(request: Request) -> AgentTestRuns:
    found: AgentTestRuns = request.state.agent_tests
    return found


UsesRuns = Annotated[AgentTestRuns, Depends(_runs)]


@router.post(
    "/agent-tests",
    operation_id="runAgentTest",
    summary="Run an agent test",
    response_model=AgentTestRun,
    responses={
        200: {"description": "The results, whether or not they have passed", "content": _XML},
        202: {
            "model": AgentTestRun,
            "description": "Requested with `Prefer: respond-async`",
            "headers": location_header("Path of the test."),
        },
        **problem_responses(400, 413, 415),
    },
)
async def run_agent_test(
    request: Request,
    body: AgentTestRequest,
    principal: RunsTests,
    runs: UsesRuns,
    services: UsesServices,
    *,
    result_format: ResultFormat = None,
    prefer: Prefer = None,
) -> Response:
    """Give each case to each model, with the tools of the named plugins and toolsets, make the calls of its
    responses, and compare what it responds and calls with the assertions.

    Models are asked by the gateway, with the keys that it is configured with, or with those of the request.
    Calls have the rights, limits and records of the API key. A client that disconnects cancels the test; with
    `Prefer: respond-async` it goes on, and `GET /agent-tests/{id}` has its results.
    """
    row = await runs.start(body, principal=principal, headers=_headers(request))
    if _is_async(prefer):
        view = AgentTestRun.of(StoredTest(row))
        headers = {
            "Location": location_of(request, "agent-tests", str(row.id)),
            "Preference-Applied": "respond-async",
        }
        return _json(view, status=202, headers=headers)
    try:
        with DisconnectWatch(partial(until_disconnected, request.receive), services.calls.clock):
            await runs.wait(row.id)
    except ClientDisconnected:
        await runs.cancel(row.id, principal=principal)
        return Response(status_code=499)
    return _response(await runs.get(row.id, principal=principal), request, result_format)


@router.get(
    "/agent-tests/{id}",
    operation_id="getAgentTest",
    summary="Get an agent test",
    response_model=AgentTestRun,
    responses={
        200: {"description": "Its state, and its results", "content": _XML},
        **problem_responses(404, 409),
    },
)
async def get_agent_test(
    request: Request,
    test_id: TestPath,
    principal: RunsTests,
    runs: UsesRuns,
    *,
    result_format: ResultFormat = None,
) -> Response:
    """Return the state of a test that this key has started, and its results once it has ended, for
    AGENT_TEST_RETENTION_DAYS. 409 for JUnit XML of a test that still runs.
    """
    return _response(await runs.get(test_id, principal=principal), request, result_format)


@router.post(
    "/agent-tests/{id}/cancel",
    operation_id="cancelAgentTest",
    summary="Cancel an agent test",
    response_model=AgentTestRun,
    responses=problem_responses(404),
)
async def cancel_agent_test(test_id: TestPath, principal: RunsTests, runs: UsesRuns) -> Response:
    """Cancel a test; its results are those of what has ended before. One that has ended stays as it is, and
    one of another worker ends within a few seconds.
    """
    return _json(AgentTestRun.of(await runs.cancel(test_id, principal=principal)))


def _response(stored: StoredTest, request: Request, chosen: str | None) -> Response:
    if (chosen or _negotiated(request.headers.get("accept", ""))) != "junit":
        return _json(AgentTestRun.of(stored))
    if stored.results is None:
        raise Conflict(f"The test has no results: its state is {stored.row.state}.")
    content = junit_xml(stored.row.name, stored.results, at=stored.row.created_at)
    return Response(content, media_type="application/xml", headers=_NO_STORE)


def _negotiated(accept: str) -> str:
    """Return the form that an Accept header prefers, of several of one weight the first that it names."""
    ranges = [media_range for media_range in parse_accept(accept) if media_range.weight > 0]
    for media_range in sorted(ranges, key=lambda media_range: -media_range.weight):
        if media_range.includes("application/json"):
            return "json"
        if media_range.includes("application/xml") or media_range.includes("text/xml"):
            return "junit"
    return "json"


def _json(view: AgentTestRun, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    content = view.model_dump_json(by_alias=True, exclude_none=True)
    return Response(content, status, media_type="application/json", headers={**_NO_STORE, **(headers or {})})


def _is_async(prefer: str | None) -> bool:
    found = (prefer or "").replace(";", ",").split(",")
    return "respond-async" in {preference.strip().lower() for preference in found}


def _headers(request: Request) -> TestHeaders:
    head = {name: value for name, value in request.scope["headers"] if name in _CONTINUED}
    return TestHeaders(head.get(b"cdn-loop", b""), head)


_CONTINUED: Final = frozenset({b"cdn-loop", b"traceparent", b"tracestate"})
