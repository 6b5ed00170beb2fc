"""Toolsets behind a real server, with a real upstream that returns the request."""

import pytest
from aiohttp import web

from tests.api.tools.conftest import api, served
from tests.harness.beside import web_server

__all__ = ["api", "served"]

LOAN = {
    "type": "object",
    "properties": {
        "branch": {"type": "string"},
        "body": {
            "type": "object",
            "properties": {"copy": {"type": "string"}, "desk": {"type": "integer"}},
            "required": ["copy", "desk"],
        },
    },
    "required": ["branch", "body"],
}


@pytest.fixture
async def upstream():
    """The URL of a server that returns each request: method, path with query, and body."""

    async def respond(request):
        body = await request.text()
        return web.json_response({"method": request.method, "path": request.raw_path, "body": body})

    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    async with web_server(application) as url:
        yield url


@pytest.fixture
async def library(api, upstream):
    books = await api.provider("library", tags=["public"])
    query = {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}}
    await api.tool(
        books,
        "books",
        {"url": f"{upstream}/books"},
        description="Search the catalogue.",
        inputs=query | {"required": ["q", "limit"]},
    )
    await api.tool(
        books,
        "loan",
        {"url": f"{upstream}/loans", "http_method": "POST", "body_field": "body"},
        description="Borrow a copy.",
        inputs=LOAN,
    )
    other = await api.provider("weather", tags=["internal"])
    await api.tool(other, "now", {"url": f"{upstream}/now"}, description="Rain or sun.")
    return books
