"""Redirects of upstreams over HTTP: which are followed, with what, and what the others say."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from app.core.errors import (
    UpstreamError,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.credentials import WireCredential
from app.outbound.http1.head import split_url
from app.outbound.limits import Limits
from app.protocols.graphql.adapter import GraphqlAdapter
from app.protocols.http.adapter import HttpAdapter
from app.protocols.mcp.adapter import McpAdapter
from app.protocols.shared.redirects import is_same_origin, resolve_location
from app.protocols.sse.adapter import SseAdapter
from app.protocols.streamable_http.adapter import StreamableHttpAdapter
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import adapter_of, call_of, read_response
from tests.protocols.peers.http import HttpPeer
from tests.protocols.peers.mcp import McpPeer

CREDENTIALS = (
    WireCredential("header", "X-Key", Secret("canary-header"), "a"),
    WireCredential("query", "key", Secret("canary-query"), "b"),
    WireCredential("cookie", "c", Secret("canary-cookie"), "c"),
)


class RedirectingPeer(HttpPeer):
    """`/go?status=307&to=/end` redirects; all else is responded to with what arrived."""

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.end = 200

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        received = self.requests[-1]
        if request.path == "/go":
            location = request.query.get("to")
            headers = {} if location is None else {"Location": location}
            return web.Response(status=int(request.query["status"]), headers=headers, text="Moved.")
        seen = {"method": received.method, "target": received.target, "body": received.body.decode()}
        return web.json_response(seen, status=self.end)


@pytest.fixture
async def peer() -> AsyncIterator[RedirectingPeer]:
    running = RedirectingPeer()
    async with running.serve():
        yield running


@pytest.fixture
async def http() -> AsyncIterator[Any]:
    async with adapter_of(HttpAdapter, "canary-query") as adapter:
        yield adapter


def redirecting(peer: RedirectingPeer, method: str = "GET", **response: Any) -> dict[str, Any]:
    template = {"call_template_type": "http", "http_method": method, "url": f"{peer.url}/go"}
    return {**template, "response": response} if response else template


@for_each(
    ("status", "method", "followed"),
    [
        (301, "GET", "GET"),
        (302, "GET", "GET"),
        (303, "GET", "GET"),
        (307, "GET", "GET"),
        (308, "GET", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "DELETE", "GET"),
        (307, "POST", "POST"),
        (308, "PATCH", "PATCH"),
        (307, "DELETE", "DELETE"),
        (301, "HEAD", "HEAD"),
        (303, "HEAD", "HEAD"),
        (300, "GET", None),
        (305, "GET", None),
        (399, "GET", None),
        (301, "POST", None),
        (302, "PUT", None),
        (302, "DELETE", None),
    ],
)
async def test_a_redirect_within_the_origin_is_followed_as_its_status_says(
    http, peer, status, method, followed
):
    peer.requests.clear()
    body = {"body": {"a": 1}} if method in ("POST", "PUT", "PATCH") else {}
    sending = read_response(
        http, redirecting(peer, method), {"status": status, "to": "/end?b=1", **body}, credentials=CREDENTIALS
    )
    if followed is None:
        with pytest.raises(UpstreamRejected, match=f"not followed.*{peer.url}/end") as caught:
            await sending
        assert (caught.value.response.status, len(peer.requests)) == (status, 1)
        return
    seen = json.loads(await sending)
    first, last = peer.requests
    assert (first.method, last.method) == (method, followed)
    assert last.target == "/end?b=1&key=canary-query"
    assert (last.headers["x-key"], last.headers["cookie"]) == ("canary-header", "c=canary-cookie")
    keeps_body = followed == method
    assert last.body == (first.body if keeps_body else b"")
    assert ("content-type" in last.headers) is (keeps_body and bool(body))
    if method != "HEAD":
        assert seen["method"] == followed


@for_each(
    ("to", "target"),
    [
        ("/end", "/end"),
        ("end", "/end"),
        ("./a/../end#part", "/end"),
        ("?x=1", "/go?x=1"),
        ("/a%2Fb%7e", "/a%2Fb%7e"),
        ("/größe x", "/gr%C3%B6%C3%9Fe%20x"),
        ("{url}/end", "/end"),
    ],
)
async def test_its_location_is_seen_from_the_url_of_the_request(http, peer, to, target):
    peer.requests.clear()
    if target.startswith("/go"):
        peer.handler = lambda _: _gone(peer, to)
    arguments = {"status": 307, "to": to.format(url=peer.url)}
    await read_response(http, redirecting(peer), arguments)
    peer.handler = peer._respond
    assert [request.target for request in peer.requests[1:]] == [target]


async def _gone(peer: RedirectingPeer, to: str) -> web.Response:
    is_first = len(peer.requests) == 1
    return web.Response(status=307, headers={"Location": to}) if is_first else web.Response()


async def test_nothing_is_sent_to_another_origin_and_the_error_says_where_it_pointed(http, peer):
    other = RedirectingPeer()
    async with other.serve():
        for to in (
            f"{other.url}/x?token=abc",
            f"//{other.url.removeprefix('http://')}/x",
            peer.url.replace("http:", "https:") + "/x",
            peer.url.replace("http://", "http://u:p@") + "/x",
        ):
            for status in (301, 302, 303, 307, 308):
                with pytest.raises(UpstreamRejected, match="another origin") as caught:
                    await read_response(
                        http, redirecting(peer), {"status": status, "to": to}, credentials=CREDENTIALS
                    )
                assert "/x" in caught.value.detail
                shown = json.dumps([caught.value.detail, caught.value.as_problem()])
                assert "canary" not in shown
                assert "abc" not in caught.value.detail
                assert "u:p" not in caught.value.detail
        assert other.requests == []


@for_each(
    ("base", "to", "is_same"),
    [
        ("https://api.example/a", "HTTPS://API.Example:443/b", True),
        ("http://api.example:80/a", "http://api.example/b", True),
        ("http://[::1]:80/a", "http://[::1]/b", True),
        ("https://api.example/a", "//api.example/b", True),
        ("https://api.example/a", "///evil.example/b", True),
        ("https://api.example/a", "/\\evil.example", True),
        ("https://api.example/a", "http://api.example/b", False),
        ("https://api.example/a", "https://api.example:8443/b", False),
        ("https://api.example/a", "https://api.example./b", False),
        ("https://api.example/a", "https://api.example@evil.example/", False),
        ("https://api.example/a", "https://u:p@api.example/", False),
        ("https://api.example/a", "https://api.example.evil.example/", False),
        ("https://api.example/a", "//evil.example\\@api.example/", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(base, to, is_same):
    target = resolve_location(to, base)
    assert target is not None
    assert is_same_origin(target, base) is is_same
    # What is compared is what is connected to.
    if is_same:
        assert split_url(str(target))[0].origin.lower() == split_url(base)[0].origin


@for_each(
    "to",
    [None, "", "ftp://x/y", "http://[x", "http://x:99999/", "mailto:a@b", "http:///x", "http:x"],
)
async def test_a_location_that_is_no_url_of_http_is_said(http, peer, to):
    arguments = {"status": 302} if to is None else {"status": 302, "to": to}
    with pytest.raises(UpstreamRejected, match="not followed"):
        await read_response(http, redirecting(peer), arguments)


async def test_at_most_five_are_followed(http, peer):
    async def counting(request: web.Request) -> web.Response:
        left = int(request.query["left"])
        if not left:
            return web.json_response("end")
        return web.Response(status=302, headers={"Location": f"/go?left={left - 1}"})

    peer.handler = counting
    assert await read_response(http, redirecting(peer), {"left": 5}) == b'"end"'
    peer.requests.clear()
    with pytest.raises(UpstreamRejected, match="More than 5 redirects are not followed"):
        await read_response(http, redirecting(peer), {"left": 7})
    assert len(peer.requests) == 6


async def test_a_redirect_that_the_operation_declares_is_its_result(http, peer):
    for declared, status in (("302", 302), ("3XX", 307)):
        template = redirecting(peer, "POST", redirects=[declared])
        arguments = {"status": status, "to": "/end?token=canary-query", "body": {}}
        result = await http.call(call_of(http, template, arguments))
        assert (result.status, await result.read()) == (status, b"Moved.")
        assert ("Location", f"{peer.url}/end?token=***") in result.headers
    elsewhere = redirecting(peer, redirects=["302"])
    result = await http.call(call_of(http, elsewhere, {"status": 302, "to": "https://elsewhere.example/a"}))
    assert ("Location", "https://elsewhere.example/a") in result.headers
    assert await read_response(http, redirecting(peer, redirects=["303"]), {"status": 302, "to": "/end"})


async def test_a_response_behind_a_temporary_redirect_is_not_one_for_the_url_of_the_call(http, peer):
    """RFC 9111 section 4.2.2: it must not be cached for that; links in it are seen from where it is."""
    for status, cache_control in ((301, None), (302, "no-store"), (308, None), (307, "no-store")):
        call = call_of(
            http, redirecting(peer), {"status": status, "to": "/v2/list?a=1"}, credentials=CREDENTIALS
        )
        result = await http.call(call)
        await result.read()
        assert result.upstream_headers.get("cache-control") == cache_control
        assert result.url == f"{peer.url}/v2/list?a=1"
        assert http.resolve_link(call, "next", result.url) == f"{peer.url}/v2/next"


async def test_all_redirects_have_the_deadline_of_the_call(http, peer):
    async def endless(request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        return web.Response(status=302, headers={"Location": "/go"})

    peer.handler = endless
    with pytest.raises(UpstreamTimeout):
        await read_response(http, redirecting(peer), {}, seconds=0.5, limits=Limits(first_byte=10))
    assert 1 < len(peer.requests) < 5


@for_each(("end", "error"), [(401, UpstreamUnauthorized), (429, UpstreamRejected), (0, UpstreamUnreachable)])
async def test_a_call_that_was_processed_is_not_sent_again(http, peer, end, error):
    """A 303 says that a POST was processed: what comes of the GET after it is no reason to send it again."""

    async def processing(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.Response(status=303, headers={"Location": "/end"})
        if not end:
            request.transport.abort()
        return web.Response(status=end or 200)

    peer.handler = processing
    with pytest.raises(error) as caught:
        await read_response(http, redirecting(peer, "POST"), {"body": {}})
    assert isinstance(caught.value, UpstreamError)
    assert (caught.value.request_sent, caught.value.response_begun) == (True, True)


async def test_the_other_protocols_over_http_follow_them(peer):
    async def moved(request: web.Request) -> web.StreamResponse:
        if request.path == "/go":
            return web.Response(status=308, headers={"Location": "/there"})
        if request.headers.get("Accept") == "text/event-stream":
            return web.Response(body=b"data: 1\n\n", content_type="text/event-stream")
        return web.json_response({"data": {"a": 1}})

    peer.handler = moved
    url = f"{peer.url}/go"
    for kind, template, expected in (
        (SseAdapter, {"call_template_type": "sse", "url": url}, [1]),
        (StreamableHttpAdapter, {"call_template_type": "streamable_http", "url": url}, [{"data": {"a": 1}}]),
        (GraphqlAdapter, {"call_template_type": "graphql", "url": url, "query": "{ a }"}, {"a": 1}),
    ):
        async with adapter_of(kind) as adapter:
            assert json.loads(await read_response(adapter, template)) == expected


async def test_an_mcp_server_is_followed_to_its_own_address_only():
    peer, other = McpPeer(), McpPeer()
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(other.serve())
        await stack.enter_async_context(peer.serve())
        respond = peer.handler

        async def moved(request: web.Request) -> web.StreamResponse:
            if request.path == "/mcp":
                return web.Response(status=307, headers={"Location": "/mcp/"})
            return await respond(request)

        peer.handler = moved
        async with adapter_of(McpAdapter) as adapter:
            assert json.loads(await read_response(adapter, peer.template())) == "ok"

        async def left(request: web.Request) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": f"{other.url}/mcp"})

        peer.handler = left
        async with adapter_of(McpAdapter) as adapter:
            with pytest.raises(UpstreamRejected, match=f"another origin.*{other.url}/mcp"):
                await read_response(adapter, peer.template())
        assert other.requests == []
