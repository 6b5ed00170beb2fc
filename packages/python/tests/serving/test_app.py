"""The ASGI application: manuals of both versions, calls, problems, tokens, mounts."""

import asyncio
import json
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel
from serving_peers import http_server
from starlette.applications import Starlette
from starlette.routing import Mount

from utcp_gateway_client.serving import ToolsApp, serve
from utcp_gateway_client.tools import ToolCollection, ToolError, current_trace, tool

TOKEN = "a-token-for-tests"


class Book(BaseModel):
    title: str
    year: int | None = None


@tool(tags=["books"])
def find_book(title: str, limit: int = 3, year: int | None = None) -> list[Book]:
    """Find a book.

    Args:
        title: What it is called
    """
    return [Book(title=title, year=year)] * limit


@tool
async def cover() -> bytes:
    return b"\x89PNG"


@tool
def status() -> str:
    return "Größe"


@tool
def closed() -> str:
    raise ToolError("The shop is closed.")


@tool
def broken() -> str:
    raise ValueError("password=hunter2")


@tool
def trace() -> dict[str, str] | None:
    found = current_trace()
    return found and found.headers


COLLECTION = ToolCollection([find_book, cover, status, closed, broken, trace])
JSON = {"Content-Type": "application/json"}


def client(app: Any, base_url: str = "http://tools.example") -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=base_url)


@pytest.fixture
async def http():
    async with client(serve(COLLECTION)) as opened:
        yield opened


async def test_manual_of_utcp_1(http):
    manual = (await http.get("/utcp")).json()
    assert manual["utcp_version"] == "1.0.1"
    assert [each["name"] for each in manual["tools"]] == COLLECTION.get_tool_names()
    entry = manual["tools"][0]
    assert entry["description"] == "Find a book."
    assert entry["tags"] == ["books"]
    body = entry["inputs"]["properties"]["body"]
    assert entry["inputs"]["required"] == ["body"]
    assert body["required"] == ["title"]
    assert body["properties"]["title"]["description"] == "What it is called"
    assert body["properties"]["limit"]["default"] == 3
    assert entry["outputs"]["type"] == "array"
    assert entry["tool_call_template"] == {
        "name": "tools",
        "call_template_type": "http",
        "http_method": "POST",
        "url": "http://tools.example/tools/find_book",
        "content_type": "application/json",
        "headers": {"Accept": "application/json"},
        "body_field": "body",
    }


async def test_manual_of_utcp_0(http):
    manual = (await http.get("/utcp", params={"version": "0"})).json()
    assert manual["version"] == "0.2.3"
    assert manual["tools"][0]["tool_provider"]["provider_type"] == "http"
    assert all(each["outputs"]["type"] for each in manual["tools"])


@pytest.mark.parametrize("version", ["0", "1"])
async def test_manual_contains_no_null(http, version):
    text = (await http.get("/utcp", params={"version": version})).text
    assert "null" not in text.replace('"type": "null"', "")


async def test_version_that_there_is_not_is_rejected(http):
    assert (await http.get("/utcp?version=2")).status_code == 422


async def test_head_of_the_manual_has_no_body(http):
    got, head = await http.get("/utcp"), await http.head("/utcp")
    assert head.content == b""
    assert head.headers["Content-Length"] == str(len(got.content))


async def test_call_returns_json(http):
    found = await http.post("/tools/find_book", json={"title": "Sea", "limit": 1})
    assert found.headers["Content-Type"] == "application/json"
    assert found.json() == [{"title": "Sea", "year": None}]
    assert (await http.post("/tools/status", json={})).json() == "Größe"


async def test_bytes_are_returned_as_they_are(http):
    found = await http.post("/tools/cover", json={})
    assert (found.headers["Content-Type"], found.content) == ("application/octet-stream", b"\x89PNG")


async def test_call_without_arguments_may_have_an_empty_body(http):
    assert (await http.post("/tools/status", content=b"", headers=JSON)).json() == "Größe"


async def test_invalid_arguments_are_a_problem_with_pointers(http):
    found = await http.post("/tools/find_book", json={"limit": "many", "extra": 1})
    assert found.status_code == 422
    assert found.headers["Content-Type"] == "application/problem+json"
    problem = found.json()
    assert (problem["status"], problem["detail"]) == (422, "The arguments are not valid.")
    assert [each["pointer"] for each in problem["errors"]] == ["/extra", "/title", "/limit"]


async def test_errors_of_functions_are_problems(http):
    said = await http.post("/tools/closed", json={})
    assert (said.status_code, said.json()["detail"]) == (422, "The shop is closed.")
    failed = await http.post("/tools/broken", json={})
    assert (failed.status_code, failed.json()["detail"]) == (500, "The tool has failed (ValueError).")
    assert "hunter2" not in failed.text


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/tools/find_book", 405, "POST"),
        ("POST", "/utcp", 405, "GET, HEAD"),
        ("POST", "/tools/unknown", 404, None),
        ("GET", "/", 404, None),
        ("POST", "/find_book", 404, None),
    ],
)
async def test_other_paths_and_methods_are_problems(http, method, path, status, allow):
    found = await http.request(method, path)
    assert (found.status_code, found.headers.get("Allow")) == (status, allow)
    assert found.json()["status"] == status


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_body_of_another_type_is_rejected(http, content_type):
    # A page of another origin may send these without being asked.
    headers = {"Content-Type": content_type}
    assert (await http.post("/tools/status", content=b"{}", headers=headers)).status_code == 415


async def test_body_that_is_too_large_is_rejected():
    async with client(ToolsApp(COLLECTION, max_body_bytes=20)) as http:
        found = await http.post("/tools/find_book", json={"title": "x" * 20})
        assert found.status_code == 413


@pytest.mark.parametrize(
    "given", [None, "Bearer wrong", "Basic " + TOKEN, "Bearer", TOKEN, "Bearer ä".encode()]
)
async def test_token_is_required(given):
    async with client(serve(COLLECTION, token=TOKEN)) as http:
        headers = {} if given is None else {"Authorization": given}
        for found in (
            await http.get("/utcp", headers=headers),
            await http.post("/tools/status", json={}, headers=headers),
        ):
            assert (found.status_code, found.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert TOKEN not in found.text


async def test_token_is_accepted_and_not_in_the_manual():
    async with client(serve(COLLECTION, token=TOKEN)) as http:
        headers = {"Authorization": f"bearer {TOKEN}"}
        assert (await http.post("/tools/status", json={}, headers=headers)).json() == "Größe"
        manual = await http.get("/utcp", headers=headers)
    assert TOKEN not in manual.text
    assert manual.json()["tools"][0]["tool_call_template"]["auth"] == {
        "auth_type": "api_key",
        "api_key": "Bearer ${TOOLS_TOKEN}",
        "var_name": "Authorization",
        "location": "header",
    }


@pytest.mark.parametrize("token", ["", "  "])
def test_empty_token_is_a_value_error(token):
    with pytest.raises(ValueError, match="empty"):
        serve(COLLECTION, token=token)


async def test_mounted_application_knows_its_path():
    app = Starlette(routes=[Mount("/agents/python", app=serve(COLLECTION))])
    async with client(app) as http:
        manual = (await http.get("/agents/python/utcp")).json()
        url = manual["tools"][0]["tool_call_template"]["url"]
        assert url == "http://tools.example/agents/python/tools/find_book"
        assert (await http.post(url, json={"title": "a", "limit": 0})).json() == []


async def test_base_url_and_name_are_options():
    app = serve(COLLECTION, base_url="https://x.example/{a}/$b/", name="shop")
    async with client(app) as http:
        template = (await http.get("/utcp")).json()["tools"][0]["tool_call_template"]
    # Clients take { and $ for parameters and variables.
    assert template["url"] == "https://x.example/%7Ba%7D/%24b/tools/find_book"
    assert template["name"] == "shop"


async def test_server_runs_it_with_lifespan_and_closes_web_sockets():
    async with http_server(serve(COLLECTION)) as url, httpx2.AsyncClient() as http:
        assert (await http.post(f"{url}/tools/status", json={})).json() == "Größe"
        upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
        assert (await http.get(f"{url}/utcp", headers=upgrade)).status_code == 403


async def test_call_is_cancelled_when_its_client_leaves():
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with http_server(serve([wait])) as url, httpx2.AsyncClient() as http:
        calling = asyncio.create_task(http.post(f"{url}/tools/wait", json={}, timeout=None))
        await started.wait()
        calling.cancel()
        await asyncio.wait([calling])
        await cancelled.wait()


async def test_functions_are_collected():
    def one() -> int:
        return 1

    async with client(serve([one, status])) as http:
        manual = (await http.get("/utcp")).json()
    assert json.dumps([each["name"] for each in manual["tools"]]) == '["one", "status"]'


async def test_the_trace_of_a_request_is_that_of_its_function():
    headers = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=b"}
    async with client(ToolsApp(COLLECTION)) as http:
        traced = await http.post("/tools/trace", json={}, headers=headers)
        assert traced.json() == headers
        assert (await http.post("/tools/trace", json={})).json() is None
