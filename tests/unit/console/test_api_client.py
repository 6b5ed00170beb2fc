"""Requests of the console to an application in the same process."""

import asyncio
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.access.authorise import SESSION_PRINCIPAL
from app.console.http.api_client import ApiClient, ApiProblem, path_of
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each

PRINCIPAL = Principal(key_id="k", name="somebody", tenant_id=TENANT, scopes=frozenset({"admin"}))


async def _principal() -> Principal:
    return PRINCIPAL


async def _echo(request: Request) -> Response:
    source = request.scope["state"].get(SESSION_PRINCIPAL)
    return JSONResponse(
        {
            "method": request.method,
            "path": request.scope["path"],
            "name": request.path_params["name"],
            "query": request.query_params.multi_items(),
            "headers": dict(request.headers),
            "body": (await request.body()).decode(),
            "principal": None if source is None else (await source()).name,
            "client": request.client.host if request.client else None,
        }
    )


async def _problem(request: Request) -> Response:
    problem = {
        "type": "urn:utcp-gateway:problem:conflict", "title": "Conflict", "detail": "It exists.",
        "hint": "Take another name.", "errors": [{"pointer": "#/name", "detail": "taken"}],
    }  # fmt: skip
    return JSONResponse(problem, 409, media_type="application/problem+json")


class _Endless:
    """A stream that never ends by itself, and notes that it was abandoned."""

    def __init__(self) -> None:
        self.is_closed = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        async def parts() -> Any:
            number = 0
            try:
                while True:
                    yield f"{number}\n".encode()
                    number += 1
                    await asyncio.sleep(0)
            finally:
                self.is_closed.set()

        return StreamingResponse(parts(), media_type="text/plain")


def _client(app: Any, *, root_path: str = "") -> ApiClient:
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "method": "GET", "scheme": "http", "path": "/console",
        "query_string": b"", "root_path": root_path, "headers": [(b"host", b"gateway.example"), (b"cookie", b"secret=1")],
        "client": ("192.0.2.7", 1), "server": ("127.0.0.1", 8000), "state": {"principal": "another"}, "app": app,
    }  # fmt: skip
    return ApiClient(Request(scope), _principal)


@pytest.fixture
def app() -> Starlette:
    return Starlette(
        routes=[
            Route("/things/{name}", _echo, methods=["GET", "POST", "PATCH", "PUT", "DELETE"]),
            Route("/problem", _problem),
        ]
    )


async def test_a_request_has_query_body_and_the_principal_of_the_session(app: Starlette) -> None:
    sent = await _client(app).post(
        path_of("things", "a b"),
        {"x": [1]},
        {"q": ["one", "two"], "none": None, "empty": "", "flag": True},
        idempotency_key="once",
    )
    assert sent["method"] == "POST"
    assert sent["name"] == "a b"
    assert sent["query"] == [["q", "one"], ["q", "two"], ["flag", "true"]]
    assert sent["body"] == '{"x":[1]}'
    assert sent["principal"] == "somebody"
    assert sent["client"] == "192.0.2.7"
    assert sent["headers"]["idempotency-key"] == "once"
    assert sent["headers"]["host"] == "gateway.example"
    assert "cookie" not in sent["headers"]


async def test_a_problem_is_raised_with_its_members(app: Starlette) -> None:
    with pytest.raises(ApiProblem) as caught:
        await _client(app).get("/problem")
    problem = caught.value
    assert (problem.status, problem.slug, problem.title) == (409, "conflict", "Conflict")
    assert (problem.detail, problem.hint) == ("It exists.", "Take another name.")
    assert problem.field_errors == [{"pointer": "#/name", "detail": "taken"}]


async def test_without_check_the_response_is_returned(app: Starlette) -> None:
    response = await _client(app).send("GET", "/problem", check=False)
    assert response.status == 409
    assert response.is_problem


async def test_a_path_that_is_unknown_raises_a_problem_without_members(app: Starlette) -> None:
    with pytest.raises(ApiProblem) as caught:
        await _client(app).get("/nothing")
    assert (caught.value.status, caught.value.detail) == (404, "")


async def test_a_stream_is_read_while_it_is_written_and_is_abandoned() -> None:
    endless = _Endless()
    app = Starlette(routes=[Route("/stream", endless.__call__)])
    parts = []
    async with _client(app).stream("GET", "/stream") as response:
        assert response.status == 200
        async for part in response:
            parts.append(part)
            if len(parts) == 200:
                break
    assert parts[:2] == [b"0\n", b"1\n"]
    async with asyncio.timeout(5):
        await endless.is_closed.wait()


async def test_the_problem_of_a_stream_is_raised(app: Starlette) -> None:
    with pytest.raises(ApiProblem) as caught:
        async with _client(app).stream("GET", "/problem"):
            pass
    assert caught.value.slug == "conflict"


@for_each("segment", ["a/b", "ä", "%", "?x", "#", "..", "a b"])
async def test_a_segment_is_one_segment(segment: str) -> None:
    assert path_of("things", segment).count("/") == 2
    app = Starlette(routes=[Route("/things/{name:path}", _echo)])
    assert (await _client(app).get(path_of("things", segment)))["name"] == segment
