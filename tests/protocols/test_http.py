"""The HTTP adapter: what is sent, what comes back, and what an upstream cannot do."""

import asyncio
import gzip
import json

import pytest
from aiohttp import web

from app.core.errors import (
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credentials import WireCredential
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, Call
from app.protocols.http.adapter import HttpAdapter
from app.security.masking import Masker
from app.security.secret import Secret
from tests.harness.cases import for_each

QUICK = Limits(connect=1, first_byte=1, total=1, idle=0.5, response_bytes=2**20)


@pytest.fixture
def adapter(engine: Engine, masker: Masker) -> HttpAdapter:
    return HttpAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))


def wire(location, name: str, value: str) -> WireCredential:
    return WireCredential(location, name, Secret(value), "slot")


def calling(adapter: HttpAdapter, url: str, arguments: dict | None = None, **fields) -> Call:
    template = {"call_template_type": "http", "http_method": "GET", "url": url} | fields.pop("template", {})
    limits = fields.pop("limits", QUICK)
    return Call(
        target=adapter.prepare(template),
        arguments=arguments or {},
        credentials=fields.pop("credentials", ()),
        deadline=asyncio.get_running_loop().time() + limits.total,
        limits=limits,
        call_id="call-1",
        **fields,
    )


async def echo(request: web.Request) -> web.Response:
    headers = [[name, value] for name, value in request.headers.items()]
    seen = {
        "method": request.method,
        "target": request.raw_path,
        "headers": headers,
        "body": await request.text(),
    }
    return web.json_response(seen)


def head(status: str = "200 OK", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


class TestSending:
    async def test_arguments_in_their_places(self, adapter: HttpAdapter, serve) -> None:
        url = await serve(echo)
        template = {"http_method": "POST", "body_field": "body", "header_fields": ["X-Team"]}
        arguments = {"id": "a/b", "q": "ü&", "X-Team": "seven", "body": {"a": [1]}}
        result = await adapter.call(calling(adapter, url + "/p/{id}?v=1", arguments, template=template))
        seen = json.loads(await result.read())
        assert seen["target"] == "/p/a%2Fb?v=1&q=%C3%BC%26"
        assert seen["body"] == '{"a":[1]}'
        assert ["X-Team", "seven"] in seen["headers"]
        assert ["Content-Type", "application/json"] in seen["headers"]

    async def test_credentials_win_over_arguments(self, adapter: HttpAdapter, serve) -> None:
        url = await serve(echo)
        credentials = (
            wire("header", "X-Key", "good-1"),
            wire("query", "key", "good-2"),
            wire("cookie", "c", "good-3"),
        )
        call = calling(
            adapter,
            url + "/",
            {"key": "evil", "X-Key": "evil"},
            template={"header_fields": ["X-Key"]},
            credentials=credentials,
        )
        text = (await (await adapter.call(call)).read()).decode()
        assert "evil" not in text
        assert all(f"good-{number}" in text for number in (1, 2, 3))

    async def test_headers_of_the_call_yield_to_the_tool_and_to_credentials(
        self, adapter: HttpAdapter, serve
    ) -> None:
        url = await serve(echo)
        call = calling(
            adapter,
            url,
            {"X-A": "argument"},
            template={"header_fields": ["X-A"]},
            credentials=(wire("header", "x-b", "credential"),),
            headers=(("x-a", "call"), ("X-B", "call"), ("X-C", "call")),
        )
        seen = dict(json.loads(await (await adapter.call(call)).read())["headers"])
        assert (seen["X-A"], seen["x-b"], seen["X-C"]) == ("argument", "credential", "call")
        assert "x-a" not in seen

    async def test_a_path_argument_cannot_leave_its_segment(self, adapter: HttpAdapter, serve) -> None:
        url = await serve(echo)
        for value in ("..", ".", "%2e%2e", "%252e%252e", "../../keys"):
            with pytest.raises(InvalidArguments):
                await adapter.call(calling(adapter, url + "/v1/{id}/x", {"id": value}))
        result = await adapter.call(calling(adapter, url + "/v1/{id}/x", {"id": "a/keys?a#b"}))
        assert json.loads(await result.read())["target"] == "/v1/a%2Fkeys%3Fa%23b/x"

    async def test_a_template_that_cannot_be_called_is_rejected_when_prepared(
        self, adapter: HttpAdapter
    ) -> None:
        for url in ("", "ftp://h/", "not a url", "https://{host}/x"):
            with pytest.raises(InvalidInput):
                adapter.prepare({"call_template_type": "http", "http_method": "GET", "url": url})


class TestDescribing:
    async def test_shows_the_request_with_secrets_masked(self, adapter: HttpAdapter) -> None:
        credentials = (wire("header", "Authorization", "Bearer canary"), wire("query", "key", "canary"))
        call = calling(
            adapter,
            "https://api.example/p/{id}?v=1",
            {"id": 7, "body": {"a": "ü"}},
            template={"http_method": "POST", "body_field": "body"},
            credentials=(*credentials, wire("cookie", "sid", "canary")),
            headers=(("X-Trace", "t"),),
        )
        assert adapter.describe(call) == {
            "method": "POST",
            "url": "https://api.example/p/7?v=1&key=***",
            "headers": {
                "Content-Type": "application/json",
                "X-Trace": "t",
                "Authorization": "***",
                "Cookie": "sid=***",
            },
            "body": {"a": "ü"},
        }

    async def test_is_what_is_sent(self, adapter: HttpAdapter, serve) -> None:
        url = await serve(echo)
        call = calling(
            adapter, url + "/{a}", {"a": "x y", "b": [1, 2]}, credentials=(wire("query", "key", "k"),)
        )
        described = adapter.describe(call)
        seen = json.loads(await (await adapter.call(call)).read())
        assert described["url"].replace("***", "k") == url + seen["target"]

    async def test_says_where_calls_go(self, adapter: HttpAdapter) -> None:
        target = calling(adapter, "HTTPS://API.Example:443/x").target
        assert adapter.origin(target) == "https://api.example"
        assert adapter.is_safe(target)


class TestResults:
    async def test_a_small_response_is_there_at_once(self, adapter: HttpAdapter, serve) -> None:
        result = await adapter.call(calling(adapter, await serve(echo)))
        assert result.body is not None
        assert (result.status, result.stream, result.media_type) == (
            200,
            None,
            "application/json; charset=utf-8",
        )

    async def test_a_large_one_is_streamed(self, adapter: HttpAdapter, serve) -> None:
        async def large(_: web.Request) -> web.Response:
            return web.Response(body=b"x" * 300_000)

        result = await adapter.call(calling(adapter, await serve(large)))
        assert result.body is None
        assert len([piece async for piece in result.iterate()]) > 1
        result = await adapter.call(calling(adapter, await serve(large)))
        assert len(await result.read()) == 300_000

    async def test_a_slow_one_arrives_piece_by_piece(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head(), b"one", b"two")
        result = await adapter.call(calling(adapter, url))
        assert [piece async for piece in result.iterate()] == [b"one", b"two"]

    async def test_it_comes_as_events_where_the_call_may_last(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(
            head(Content_Type="text/event-stream"),
            b"data: 1\n\ndata:",
            b" 2\n\n",
            *[b":\n"] * 30,
            b"data: 3\n\n",
        )
        call = calling(adapter, url, limits=Limits(total=1))
        call.stream_deadline = call.deadline + 5
        result = await adapter.call(call)
        assert [event.data async for event in result.events] == [b"1", b"2", b"3"]

    @pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified", "205 Reset"])
    async def test_a_response_without_body(self, adapter: HttpAdapter, respond, status: str) -> None:
        url = await respond(head(status, Content_Length="0"))
        result = await adapter.call(calling(adapter, url))
        assert (result.status, await result.read()) == (int(status[:3]), b"")

    async def test_head_has_no_body_whatever_length_it_names(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head(Content_Length="99999999999"))
        result = await adapter.call(calling(adapter, url, template={"http_method": "HEAD"}))
        assert json.loads(await result.read())["headers"]["content-length"] == "99999999999"

    async def test_the_result_of_head_is_status_and_headers(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(
            head(
                Content_Type="text/plain",
                ETag='"1"',
                Content_Length="7",
                Content_Encoding="x",
                Set_Cookie="a=b",
                X_Amz_Meta_Owner="ada",
                Connection="close, X-Hop",
                X_Hop="1",
            )
        )
        result = await adapter.call(calling(adapter, url, template={"http_method": "HEAD"}))
        assert (result.media_type, dict(result.headers)) == ("application/json", {"ETag": '"1"'})
        expected = {
            "content-type": "text/plain",
            "etag": '"1"',
            "content-length": "7",
            "content-encoding": "x",
            "x-amz-meta-owner": "ada",
        }
        assert json.loads(await result.read()) == {"status": 200, "headers": expected}

    async def test_the_result_of_options_is_its_body_or_status_and_headers(
        self, adapter: HttpAdapter, respond
    ) -> None:
        url = await respond(head("204 No Content", Allow="GET, HEAD"))
        result = await adapter.call(calling(adapter, url, template={"http_method": "OPTIONS"}))
        assert json.loads(await result.read()) == {"status": 204, "headers": {"allow": "GET, HEAD"}}
        url = await respond(head(Content_Length="2") + b"{}")
        result = await adapter.call(calling(adapter, url, template={"http_method": "OPTIONS"}))
        assert await result.read() == b"{}"

    async def test_gzip_is_decoded_and_not_announced(self, adapter: HttpAdapter, respond) -> None:
        packed = gzip.compress(b"hello")
        url = await respond(head(Content_Encoding="gzip", Content_Length=str(len(packed))) + packed)
        result = await adapter.call(calling(adapter, url))
        assert (await result.read(), result.headers) == (b"hello", [])

    async def test_only_harmless_headers_are_passed_on(
        self, adapter: HttpAdapter, respond, masker: Masker
    ) -> None:
        masker.add("s3cr3t-key")
        url = await respond(
            head(
                Link="<https://api/x?key=s3cr3t-key>; rel=next",
                ETag='"a"',
                RateLimit_Remaining="5",
                X_RateLimit_Limit="9",
                Retry_After="3",
                Set_Cookie="session=1",
                Server="evil",
                Content_Security_Policy="x",
                Access_Control_Allow_Origin="*",
                Strict_Transport_Security="max-age=1",
                Connection="keep-alive",
                WWW_Authenticate="Basic",
                X_Error_Source="gateway",
                Content_Disposition="attachment; filename=ü",
                Content_Length="0",
            )
        )
        result = await adapter.call(calling(adapter, url))
        assert result.headers == [
            ("Link", "<https://api/x?key=***>; rel=next"),
            ("ETag", '"a"'),
            ("RateLimit-Remaining", "5"),
            ("X-RateLimit-Limit", "9"),
            ("Retry-After", "3"),
        ]


class TestRefusals:
    @for_each(
        ("status", "shown"),
        [
            (400, 400),
            (404, 404),
            (409, 409),
            (422, 422),
            (429, 429),
            (403, 502),
            (407, 502),
            (500, 502),
            (503, 502),
        ],
    )
    async def test_keep_an_upstream_status_that_the_agent_can_mend(
        self, adapter: HttpAdapter, respond, status: int, shown: int
    ) -> None:
        body = b'{"why":"because"}'
        headers = head(
            f"{status} X", Content_Type="application/json", Content_Length=str(len(body)), Retry_After="9"
        )
        with pytest.raises(UpstreamRejected) as refused:
            await adapter.call(calling(adapter, await respond(headers + body)))
        error = refused.value
        assert error.status == shown
        assert error.response is not None
        assert (error.response.status, error.response.body) == (status, {"why": "because"})
        assert error.headers["Retry-After"] == "9"
        assert error.headers["X-Error-Source"] == "upstream"
        assert error.headers["X-Upstream-Status"] == str(status)

    async def test_401_is_an_error_of_its_own(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head("401 No", Content_Type="text/plain", Content_Length="4") + b"nope")
        with pytest.raises(UpstreamUnauthorized, match="stored credential") as refused:
            await adapter.call(calling(adapter, url, credentials=(wire("header", "X", "y"),)))
        assert (refused.value.status, refused.value.response and refused.value.response.body) == (502, "nope")
        with pytest.raises(UpstreamUnauthorized, match="without a credential"):
            await adapter.call(calling(adapter, url))

    @for_each("status", [300, 301, 302, 303, 307, 308])
    async def test_a_redirect_is_not_followed_and_says_where_it_points(
        self, adapter: HttpAdapter, respond, status: int
    ) -> None:
        url = await respond(head(f"{status} Go", Location="https://elsewhere.example/", Content_Length="0"))
        with pytest.raises(UpstreamRejected, match="not followed") as refused:
            await adapter.call(calling(adapter, url, credentials=(wire("header", "X", "y"),)))
        assert (refused.value.status, refused.value.headers["Location"]) == (
            502,
            "https://elsewhere.example/",
        )

    @pytest.mark.parametrize(
        "form",
        ["canary-s3cr3t", "Y2FuYXJ5LXMzY3IzdA", "63616e6172792d733363723374"],
        ids=["raw", "base64", "hex"],
    )
    async def test_a_reflected_secret_is_struck_out(
        self, adapter: HttpAdapter, respond, masker: Masker, form: str
    ) -> None:
        masker.add("canary-s3cr3t")
        body = json.dumps({"you sent": form, "list": [form]}).encode()
        for media in ("application/json", "text/html", "application/problem+json"):
            url = await respond(head("400 No", Content_Type=media, Content_Length=str(len(body))) + body)
            with pytest.raises(UpstreamRejected) as refused:
                await adapter.call(calling(adapter, url))
            assert form not in f"{refused.value.extra}{refused.value.detail}{refused.value.headers}"
            assert "***" in str(refused.value.extra)

    async def test_a_long_body_is_cut_and_the_rest_not_waited_for(
        self, adapter: HttpAdapter, respond
    ) -> None:
        url = await respond(head("500 No", Content_Type="text/plain"), b"x" * 50_000, forever=True)
        with pytest.raises(UpstreamRejected) as refused:
            await adapter.call(calling(adapter, url))
        assert refused.value.response is not None
        assert len(refused.value.response.body) < 66_000
        async with asyncio.timeout(1):
            await respond.closed.wait()

    @for_each(
        ("headers", "body", "shown"),
        [
            ({"Content_Type": "image/png"}, b"\x89PNG", None),
            ({"Content_Type": "application/octet-stream"}, b"\x89PNG\x00", None),
            ({"Content_Type": "application/octet-stream"}, b"PK\x03\x04", None),
            ({"Content_Type": "application/octet-stream"}, b'{"error": "full"}', {"error": "full"}),
            ({"Content_Type": "application/json"}, b"not json", "not json"),
            ({"Content_Type": "application/json"}, b"[" * 5000, "[" * 5000),
            ({"Content_Type": "text/plain"}, b"\xff\xfe", "\ufffd\ufffd"),
            ({"Content_Encoding": "gzip"}, b"abc", None),
            ({}, b"", None),
            ({}, b'{"a": 1}', {"a": 1}),
        ],
    )
    async def test_a_body_of_any_kind_can_be_reported(
        self, adapter: HttpAdapter, respond, headers, body: bytes, shown
    ) -> None:
        url = await respond(head("400 No", Content_Length=str(len(body)), **headers) + body)
        with pytest.raises(UpstreamRejected) as refused:
            await adapter.call(calling(adapter, url))
        assert refused.value.response is not None
        assert refused.value.response.body == shown

    async def test_a_body_that_never_comes_does_not_hide_the_status(
        self, adapter: HttpAdapter, serve
    ) -> None:
        async def stuck(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(status=404)
            await response.prepare(request)
            await asyncio.sleep(3)
            return response

        with pytest.raises(UpstreamRejected) as refused:
            await adapter.call(calling(adapter, await serve(stuck)))
        assert (refused.value.status, refused.value.response and refused.value.response.body) == (404, None)


class TestBounds:
    async def test_a_declared_length_above_the_limit(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head(Content_Length=str(2**20 + 1)), b"x")
        with pytest.raises(ResponseTooLarge):
            await adapter.call(calling(adapter, url))

    async def test_an_undeclared_length_above_the_limit(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head(), b"x" * 500_000, forever=True)
        result = await adapter.call(calling(adapter, url))
        with pytest.raises(ResponseTooLarge):
            await result.read()
        async with asyncio.timeout(1):
            await respond.closed.wait()

    async def test_a_stream_that_stops_or_breaks_is_reported(self, adapter: HttpAdapter, respond) -> None:
        endless = await respond(head(Transfer_Encoding="chunked"), b"1\r\nx\r\n", forever=True)
        with pytest.raises(UpstreamTimeout):
            await (await adapter.call(calling(adapter, endless))).read()
        broken = await respond(head(Transfer_Encoding="chunked"), b"5\r\nx")
        with pytest.raises((UpstreamUnreachable, UpstreamMalformed)):
            await (await adapter.call(calling(adapter, broken))).read()

    async def test_closing_an_unread_result_ends_the_upstream(self, adapter: HttpAdapter, respond) -> None:
        url = await respond(head(Transfer_Encoding="chunked"), b"1\r\nx\r\n", forever=True)
        result = await adapter.call(calling(adapter, url))
        await result.aclose()
        async with asyncio.timeout(1):
            await respond.closed.wait()
        await result.aclose()

    async def test_a_client_that_disconnects_from_a_stream_ends_the_upstream(
        self, adapter: HttpAdapter, respond
    ) -> None:
        url = await respond(head(Transfer_Encoding="chunked"), b"1\r\nx\r\n", forever=True)
        stream = (await adapter.call(calling(adapter, url))).iterate()
        await anext(stream)
        await stream.aclose()
        async with asyncio.timeout(1):
            await respond.closed.wait()


class TestDiscovery:
    async def test_gives_the_document_with_its_address(self, adapter: HttpAdapter, serve) -> None:
        async def document(request: web.Request) -> web.Response:
            if request.headers.get("X-Key") != "k" or request.query.get("q") != "s":
                return web.Response(status=401)
            return web.Response(text="openapi: 3.1.0", content_type="application/yaml")

        url = await serve(document)
        credentials = (wire("header", "X-Key", "k"), wire("query", "q", "s"))
        found = await adapter.discover(calling(adapter, url + "/openapi?v=1", credentials=credentials))
        assert (found.raw, found.url) == (b"openapi: 3.1.0", url + "/openapi?v=1")
        assert found.media_type.startswith("application/yaml")

    async def test_is_bounded_and_rejects_what_is_no_document(self, adapter: HttpAdapter, respond) -> None:
        small = Limits(connect=1, first_byte=1, total=1, idle=1, response_bytes=10)
        with pytest.raises(ResponseTooLarge):
            await adapter.discover(calling(adapter, await respond(head(), b"x" * 11), limits=small))
        with pytest.raises(UpstreamRejected):
            await adapter.discover(calling(adapter, await respond(head("404 No", Content_Length="0"))))
