"""The registration of a server that does not describe its tools says how each of them is registered."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from aiohttp import web
from websockets.asyncio.server import ServerConnection

from tests.harness.beside import beside, web_server
from tests.harness.cases import for_each
from tests.protocols.kits.grpc import grpc_server
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.websocket import websocket_server


async def plain(request: web.Request) -> web.Response:
    match request.path:
        case "/json":
            return web.json_response({"a": 1})
        case "/text":
            return web.Response(text="{ hello: [")
        case "/graphql":
            return web.json_response({"errors": [{"message": "no introspection here"}]})
    return web.json_response({"detail": "no such path"}, status=404)


async def silent_socket(connection: ServerConnection) -> None:
    await connection.recv()
    await connection.close()


async def greeting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(10)
    writer.write(b"who are you?")
    await writer.drain()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@contextlib.asynccontextmanager
async def servers_without_discovery() -> AsyncIterator[dict[str, Any]]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", plain)
    async with (
        web_server(application) as http,
        websocket_server(silent_socket) as websocket,
        tcp_server(greeting) as greeted,
        tcp_server(silent) as muted,
        grpc_server() as grpc,
    ):
        host = {"host": "127.0.0.1"}
        yield {
            "http of another document": {"call_template_type": "http", "url": f"{http}/json"},
            "http of a text": {"call_template_type": "http", "url": f"{http}/text"},
            "http of nothing": {"call_template_type": "http", "url": f"{http}/nothing"},
            "sse": {"call_template_type": "sse", "url": f"{http}/json"},
            "graphql": {"call_template_type": "graphql", "url": f"{http}/graphql"},
            "grpc": {"call_template_type": "grpc", **host, "port": grpc},
            "websocket": {"call_template_type": "websocket", "url": websocket},
            "tcp of a greeting": {"call_template_type": "tcp", **host, "port": greeted},
            "tcp of silence": {"call_template_type": "tcp", **host, "port": muted, "timeout": 500},
        }


NAMES = ["http of another document", "http of a text", "http of nothing", "sse", "graphql", "grpc", "websocket",
         "tcp of a greeting", "tcp of silence"]  # fmt: skip


@pytest.fixture(scope="module")
def templates() -> Iterator[dict[str, Any]]:
    with beside(servers_without_discovery()) as running:  # type: ignore[arg-type]
        yield running  # type: ignore[misc]


@for_each("name", NAMES)
def test_a_server_without_discovery_gets_a_hint(
    client: httpx2.Client, templates: dict[str, Any], name: str
) -> None:
    rejected = client.post("/providers", json={"name": "none", "source": {"call_template": templates[name]}})
    assert rejected.status_code in (422, 502, 504), rejected.text
    assert "POST /tools" in rejected.json()["hint"], rejected.text
    assert client.get("/providers/none").status_code == 404


WITH_ARGUMENTS = [
    ({"call_template_type": "http", "url": "http://127.0.0.1:1/users/{id}"}, "/url", "id"),
    ({"call_template_type": "http", "url": "http://127.0.0.1:1/users?x={page}"}, "/url", "page"),
    ({"call_template_type": "graphql", "url": "http://127.0.0.1:1/{room}/graphql"}, "/url", "room"),
    ({"call_template_type": "websocket", "url": "ws://127.0.0.1:1/{room}"}, "/url", "room"),
]


@for_each(("template", "at", "name"), WITH_ARGUMENTS, ids=[str(n) for n in range(len(WITH_ARGUMENTS))])
@for_each("form", ["source", "provider"])
def test_a_source_with_arguments_gets_a_hint(
    client: httpx2.Client, template: dict[str, Any], at: str, name: str, form: str
) -> None:
    body = {"source": {"call_template": template}} if form == "source" else template
    rejected = client.post("/providers", json={"name": "none", **body})
    assert rejected.status_code == 422, rejected.text
    problem = rejected.json()
    assert problem["type"].endswith("invalid-input")
    assert "POST /tools" in problem["hint"]
    (error,) = problem["errors"]
    assert error["pointer"] == ("/source/call_template" if form == "source" else "") + at
    assert repr(name) in error["detail"]


def test_a_url_with_arguments_gets_a_hint_in_the_short_form(client: httpx2.Client) -> None:
    rejected = client.post("/providers", json={"name": "none", "url": "http://127.0.0.1:1/users/{id}"})
    assert rejected.json()["errors"][0]["pointer"] == "/url", rejected.text
    assert "POST /tools" in rejected.json()["hint"]
