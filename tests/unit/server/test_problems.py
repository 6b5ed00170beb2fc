"""Every error becomes `application/problem+json`, with pointers, without echoes and without exception texts."""

import json
import math
from typing import Annotated, Any, Literal

import httpx2
import pytest
import structlog
from asyncpg import exceptions as pg
from fastapi import APIRouter, Body, Depends, FastAPI, Path, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator
from sqlalchemy.exc import DBAPIError, IntegrityError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

from app.core.errors import (
    CredentialMissing,
    FieldError,
    GatewayError,
    InvalidInput,
    ResponseTruncated,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UpstreamErrorResponse,
    UpstreamRejected,
    UpstreamTimeout,
)
from app.core.telemetry.logs import configure_logging
from app.server import problems
from tests.harness.cases import for_each

CANARY = "canary-3d9b"


@pytest.fixture(autouse=True)
def _logging() -> None:
    """Whatever level the tests before have configured."""
    configure_logging("info", "json")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: Annotated[int, Field(ge=1)]


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Pet(BaseModel):
    model_config = ConfigDict(extra="forbid")
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    size: Literal["small", "large"] = "small"
    note: str | int | None = None
    odd: dict[str, int] = {}
    checked: str = ""

    @field_validator("checked")
    @classmethod
    def _check(cls, value):
        if "bad" in value:
            msg = f"must not be {value}"
            raise ValueError(msg)
        return value


ERRORS: dict[str, Exception] = {}


def raising(name: str):
    raise ERRORS[name]


def make_app() -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    router = APIRouter()

    @router.post("/pets/{number}")
    async def make(
        number: Annotated[int, Path()], pet: Pet, limit: Annotated[int, Query(le=200)] = 50
    ) -> int:
        return number + limit

    @router.get("/pets/{number}")
    async def read(number: int) -> int:
        return number

    @router.delete("/pets/{number}")
    async def delete(number: int) -> int:
        return number

    @router.post("/any")
    async def anything(body: Annotated[Any, Body()]) -> str:
        return "ok"

    @router.get("/raise/{name}")
    async def fail(name: str) -> None:
        raising(name)

    @router.get("/depends/{name}", dependencies=[Depends(raising)])
    async def depends() -> None: ...

    async def plain(request: Request):
        request.state.call_id = "call-1"
        raising(request.path_params["name"])

    async def streaming(request: Request):
        async def parts():
            yield b"begin"
            raising(request.path_params["name"])

        return StreamingResponse(parts())

    async def inner(request: Request):
        return PlainTextResponse("ok")

    app.include_router(router)
    app.router.routes += [
        Route("/plain/{name}", plain, methods=["POST"]),
        Route("/stream/{name}", streaming),
        Mount("/mounted", routes=[Route("/x", inner, methods=["PUT"])]),
    ]
    problems.install(app)
    return app


@pytest.fixture(scope="module")
async def client():
    transport = httpx2.ASGITransport(make_app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://gateway") as client:
        yield client


def checked(response, status, slug):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["type"] == f"urn:utcp-gateway:problem:{slug}"
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    return body


async def answer(client, error, method="GET", path="/raise/x"):
    ERRORS["x"] = error
    return await client.request(method, path)


# --- our own errors ---


async def test_an_error_of_ours_shows_its_faults_extra_and_headers(client):
    error = InvalidInput(
        "See a.", errors=[FieldError("/a", "Must be a number.", "number")], extra={"tool": "x.y"}
    )
    body = checked(await answer(client, error), 422, "invalid-input")
    assert body["errors"] == [{"pointer": "/a", "detail": "Must be a number.", "expected": "number"}]
    assert body["tool"] == "x.y"
    assert (await answer(client, Unauthenticated())).headers["www-authenticate"] == "Bearer"
    assert (await answer(client, Unavailable(retry_after=7))).headers["retry-after"] == "7"


async def test_a_dependency_may_raise_it_too(client):
    ERRORS["x"] = CredentialMissing("No credential in the slot `api_key`.")
    checked(await client.get("/depends/x"), 424, "credential-missing")


async def test_extra_cannot_change_what_kind_of_problem_it_is(client):
    error = GatewayError("no", extra={"type": "about:blank", "status": 200, "detail": CANARY})
    body = checked(await answer(client, error), 500, "internal-error")
    assert CANARY not in json.dumps(body)


@for_each(
    ("body", "reason"),
    [
        ({"error": "q is empty"}, "q is empty"),
        ({"error": None, "message": " ", "detail": "no such book"}, "no such book"),
        ({"error": {"code": "FULL"}, "message": "failed"}, '{"code": "FULL"}'),
        ({"errors": [{"message": "no field x"}]}, '[{"message": "no field x"}]'),
        ({"why": "taken"}, '{"why": "taken"}'),
        (["a", 1], '["a", 1]'),
        ("two\nlines\x1b[31m", "two lines [31m"),
        ("x" * 2_000, "x" * 1_000 + " [truncated]"),
    ],
)
def test_the_detail_includes_what_the_upstream_states(body: Any, reason: str) -> None:
    error = UpstreamRejected("It failed.", response=UpstreamErrorResponse(403, body))
    assert error.as_problem()["detail"] == f"It failed. Its response says: {reason}"
    assert str(error) == "It failed."


@for_each("body", [None, "", {}, [], "  \n", "<!doctype html><title>No</title>"])
def test_an_upstream_that_states_nothing_adds_nothing_to_the_detail(body: Any) -> None:
    error = UpstreamRejected("It failed.", response=UpstreamErrorResponse(502, body))
    assert error.as_problem()["detail"] == "It failed."


async def test_an_upstream_refusal_keeps_its_status_and_body(client):
    error = UpstreamRejected(response=UpstreamErrorResponse(409, {"why": "taken"}, {"Retry-After": "3"}))
    response = await answer(client, error)
    body = checked(response, 409, "upstream-rejected")
    assert body["upstream_status"] == 409
    assert body["upstream_body"] == {"why": "taken"}
    assert response.headers["x-error-source"] == "upstream"
    assert response.headers["x-upstream-status"] == "409"
    assert response.headers["retry-after"] == "3"


@pytest.mark.parametrize("said", [{"a": "\ud800"}, {"a": 1 << 80}, {"a": math.nan}, {"a": {1, 2}}])
async def test_an_upstream_body_that_is_no_json_of_ours_does_not_break_the_response(client, said):
    checked(
        await answer(client, UpstreamRejected(response=UpstreamErrorResponse(400, said))),
        400,
        "upstream-rejected",
    )


async def test_a_detail_with_odd_text_does_not_break_the_response(client):
    assert (await answer(client, GatewayError("odd \ud800"))).status_code == 500


async def test_a_header_that_cannot_be_sent_is_left_out(client):
    error = UpstreamRejected(
        response=UpstreamErrorResponse(400, None, {"X-Bad": "a\r\nSet-Cookie: b", "X-Worse": "日"})
    )
    response = await answer(client, error)
    assert "x-bad" not in response.headers
    assert "x-worse" not in response.headers
    assert "set-cookie" not in response.headers


async def test_the_call_id_is_shown_where_there_is_one(client):
    body = checked(await answer(client, UpstreamTimeout(), "POST", "/plain/x"), 504, "upstream-timeout")
    assert body["call_id"] == "call-1"


# --- validation ---


@for_each(
    ("body", "pointers"),
    [
        ({"pets": [{"kind": "cat", "lives": 0}]}, ["/pets/0/lives"]),
        ({"pets": [{"kind": "cat", "lives": 1}, {"kind": "dog"}]}, ["/pets/1/name"]),
        ({"pets": [{"kind": "bird"}]}, ["/pets/0"]),
        ({"pets": {"a": 1}}, ["/pets"]),
        ({"note": [1]}, ["/note", "/note"]),
        ({"odd": {"a/b~c": "x"}}, ["/odd/a~1b~0c"]),
        ({"more": 1}, ["/more"]),
        ({"size": "huge", "note": {}}, ["/size", "/note", "/note"]),
        ([], [""]),
        ("text", [""]),
        (None, [""]),
    ],
)
async def test_faults_of_a_body_are_json_pointers_into_it(client, body, pointers):
    response = await client.post("/pets/1", json=body)
    problem = checked(response, 422, "invalid-input")
    assert [fault["pointer"] for fault in problem["errors"]] == pointers


async def test_faults_of_parameters_name_their_place(client):
    response = await client.post("/pets/x?limit=500", json={})
    problem = checked(response, 422, "invalid-input")
    assert {fault["pointer"] for fault in problem["errors"]} == {"#/path/number", "#/query/limit"}


async def test_an_enumeration_says_what_was_expected(client):
    problem = (await client.post("/pets/1", json={"size": "huge"})).json()
    assert problem["errors"][0]["expected"] == "'small' or 'large'"


@for_each(
    "body",
    [
        {"size": CANARY},
        {"note": {"x": CANARY}},
        {"odd": {"x": CANARY}},
        {"pets": [{"kind": CANARY}]},
        {"pets": CANARY},
        {"checked": f"bad {CANARY}"},
        CANARY,
    ],
)
async def test_what_was_sent_is_never_repeated(client, body):
    response = await client.post("/pets/1", json=body)
    assert response.status_code == 422
    assert CANARY not in response.text


async def test_parameters_are_never_repeated(client):
    response = await client.post(f"/pets/{CANARY}?limit={CANARY}", json={})
    assert response.status_code == 422
    assert CANARY not in response.text


async def test_ten_thousand_faults_give_a_bounded_response(client):
    response = await client.post("/pets/1", json={"odd": {str(number): "x" for number in range(10_000)}})
    assert len(response.json()["errors"]) == 50
    assert len(response.content) < 20_000


@for_each(
    "content",
    [b"{", b'{"a": }', b"\xff\xfe", b"[" * 200_000, b"1" * 10_000, b"{'a': 1}", CANARY.encode()],
)
async def test_a_body_that_is_no_json_is_a_400(client, content):
    response = await client.post("/any", content=content, headers={"Content-Type": "application/json"})
    checked(response, 400, "bad-request")
    assert CANARY not in response.text


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_a_body_of_another_media_type_is_a_415(client, media_type):
    headers = {"Content-Type": media_type} if media_type else {}
    checked(await client.post("/pets/1", content=b"{}", headers=headers), 415, "unsupported-media-type")


async def test_an_error_of_ours_while_the_body_is_read_keeps_its_status():
    async def refuse():
        raise TooLarge("At most 10 bytes.")

    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/any",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "state": {},
    }
    await make_app()(scope, refuse, send)
    assert sent[0]["status"] == 413
    assert b"At most 10 bytes." in sent[1]["body"]


async def test_a_client_that_leaves_does_no_harm():
    async def leave():
        return {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/any",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "state": {},
    }
    with structlog.testing.capture_logs() as logs:
        await make_app()(scope, leave, send)
    assert sent[0]["status"] == 400
    assert logs == []


# --- the framework ---


async def test_an_unknown_address_is_a_404(client):
    checked(await client.get(f"/{CANARY}"), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/pets/1", {"GET", "HEAD", "POST", "DELETE"}),
        ("BREW", "/pets/1", {"GET", "HEAD", "POST", "DELETE"}),
        ("GET", "/plain/x", {"POST"}),
        ("GET", "/mounted/x", {"PUT"}),
    ],
)
async def test_a_405_names_all_methods_of_the_address(client, method, path, allowed):
    response = await client.request(method, path)
    checked(response, 405, "method-not-allowed")
    assert set(response.headers["allow"].split(", ")) == allowed
    assert len(response.headers.get_list("allow")) == 1


@pytest.mark.parametrize(
    ("status", "slug"),
    [(400, "bad-request"), (413, "too-large"), (418, "im-a-teapot"), (429, "too-many-requests")],
)
async def test_errors_of_the_framework_become_problems_without_their_text(client, status, slug):
    response = await answer(client, HTTPException(status, CANARY, headers={"X-Kept": "yes"}))
    checked(response, status, slug)
    assert CANARY not in response.text
    assert response.headers["x-kept"] == "yes"


# --- the database ---


def database_error(kind, state, *, of=DBAPIError, invalidated=False):
    original = kind(CANARY)
    original.sqlstate = state
    return of(f"SELECT '{CANARY}'", {"x": CANARY}, original, connection_invalidated=invalidated)


@for_each(
    ("error", "status", "slug"),
    [
        (database_error(pg.UniqueViolationError, "23505", of=IntegrityError), 409, "conflict"),
        (database_error(pg.ForeignKeyViolationError, "23503", of=IntegrityError), 409, "conflict"),
        (database_error(pg.NotNullViolationError, "23502", of=IntegrityError), 500, "internal-error"),
        (database_error(pg.DeadlockDetectedError, "40P01"), 503, "unavailable"),
        (database_error(pg.LockNotAvailableError, "55P03"), 503, "unavailable"),
        (database_error(pg.QueryCanceledError, "57014"), 503, "unavailable"),
        (database_error(pg.TooManyConnectionsError, "53300"), 503, "unavailable"),
        (database_error(pg.InterfaceError, None, invalidated=True), 503, "unavailable"),
        (database_error(pg.CharacterNotInRepertoireError, "22021"), 422, "invalid-input"),
        (database_error(pg.UndefinedTableError, "42P01"), 500, "internal-error"),
    ],
)
async def test_errors_of_the_database_by_their_state(client, error, status, slug):
    response = await answer(client, error)
    checked(response, status, slug)
    assert CANARY not in response.text


# --- what nobody expected ---


@pytest.mark.parametrize("path", ["/raise/x", "/plain/x", "/depends/x"])
async def test_an_unexpected_error_is_a_500_with_an_id_that_the_log_knows(client, path):
    with structlog.testing.capture_logs() as logs:
        response = await answer(client, KeyError(CANARY), "POST" if "plain" in path else "GET", path)
    body = checked(response, 500, "internal-error")
    (line,) = logs
    assert line["error_id"] == body["error_id"]
    assert line["error"] == "KeyError"
    assert "test_problems.py" in line["frames"][-1]
    assert CANARY not in response.text
    assert CANARY not in str(logs)


async def test_endless_recursion_over_an_input_is_a_400(client):
    checked(await answer(client, RecursionError(CANARY)), 400, "bad-request")


@pytest.mark.parametrize("error", [UpstreamTimeout(), KeyError(CANARY)])
async def test_an_error_within_a_response_cuts_it_off(client, error):
    with structlog.testing.capture_logs() as logs, pytest.raises(ResponseTruncated):
        await answer(client, error, "GET", "/stream/x")
    assert CANARY not in str([line for line in logs if line["log_level"] != "debug"])
    assert logs[0]["event"] == (
        "a response was truncated" if isinstance(error, GatewayError) else "unexpected error"
    )
