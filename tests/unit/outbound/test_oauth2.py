"""Tokens from real token endpoints, friendly and otherwise."""

from dataclasses import replace
from uuid import uuid4

import pytest
from aiohttp import web

from app.core.errors import (
    BlockedAddress,
    GatewayError,
    TokenRequestFailed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.security.secret import Secret
from tests.harness.cases import for_each

SECRET = "s3cr3t-of-the-client"


PATIENT = Limits(connect=30, first_byte=30, total=60, idle=30, response_bytes=65536)
QUICK = Limits(connect=1, first_byte=1, total=1, idle=1, response_bytes=65536)


@pytest.fixture
def endpoint(engine: Engine) -> TokenEndpoint:
    return TokenEndpoint(engine, limits=PATIENT)


async def test_token_and_its_lifetime(endpoint: TokenEndpoint, provider, token_request: TokenRequest) -> None:
    token = await endpoint.fetch(token_request)
    assert (token.access_token.reveal(), token.expires_in) == ("token-number-1", 3600)
    assert provider.requests == [
        {
            "grant_type": "client_credentials",
            "scope": "read write",
            "client_id": "client",
            "client_secret": SECRET,
        }
    ]


async def test_audience_and_resource_are_sent(
    endpoint: TokenEndpoint, provider, token_request: TokenRequest
) -> None:
    await endpoint.fetch(replace(token_request, scope="", audience="https://api/ä", resource="urn:a b"))
    sent = provider.requests[0]
    assert (sent["audience"], sent["resource"], "scope" in sent) == ("https://api/ä", "urn:a b", False)


METADATA = {
    "another origin": ({"token_endpoint": "https://other.example/t"}, 200),
    "plain text": ("no metadata", 200),
    "a list": ([], 200),
    "no endpoint": ({"issuer": "x"}, 200),
    "an endpoint that is no URL": ({"token_endpoint": 7}, 200),
    "not found": ({}, 404),
}


class TestMetadata:
    async def test_the_token_endpoint_is_found_once(
        self, endpoint: TokenEndpoint, serve, token_request: TokenRequest
    ) -> None:
        asked: list[str] = []

        async def answer(request: web.Request) -> web.Response:
            asked.append(request.path)
            if request.method == "GET":
                return web.json_response({"token_endpoint": f"{request.url.origin()}/t"})
            return web.json_response({"access_token": "abc"})

        url = await serve(web.get("/meta", answer), web.post("/t", answer))
        request = replace(token_request, token_url="", metadata_url=f"{url}/meta")
        for _ in range(2):
            assert (await endpoint.fetch(request)).access_token == Secret("abc")
        assert asked == ["/meta", "/t", "/t"]
        assert request.parts() != replace(request, metadata_url=f"{url}/other").parts()

    async def test_an_endpoint_that_fails_is_looked_for_again(
        self, endpoint: TokenEndpoint, serve, token_request: TokenRequest
    ) -> None:
        paths = ["/old", "/new"]

        async def find(request: web.Request) -> web.Response:
            return web.json_response({"token_endpoint": f"{request.url.origin()}{paths.pop(0)}"})

        async def issue(_: web.Request) -> web.Response:
            return web.json_response({"access_token": "abc"})

        url = await serve(web.get("/meta", find), web.post("/new", issue))
        request = replace(token_request, token_url="", metadata_url=f"{url}/meta")
        with pytest.raises(TokenRequestFailed):
            await endpoint.fetch(request)
        assert (await endpoint.fetch(request)).access_token == Secret("abc")

    @for_each("name", METADATA)
    async def test_a_secret_goes_nowhere_else(
        self, endpoint: TokenEndpoint, serve, token_request: TokenRequest, name: str
    ) -> None:
        body, status = METADATA[name]

        async def answer(_: web.Request) -> web.Response:
            return web.json_response(body, status=status)

        url = await serve(web.get("/meta", answer))
        with pytest.raises(TokenRequestFailed, match="metadata"):
            await endpoint.fetch(replace(token_request, token_url="", metadata_url=f"{url}/meta"))


class TestMethods:
    @pytest.mark.parametrize(
        ("method", "way"), [("client_secret_post", "body"), ("client_secret_basic", "basic")]
    )
    async def test_a_method_that_is_set_is_the_only_one(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest, method, way: str
    ) -> None:
        request = replace(token_request, auth_method=method)
        await endpoint.fetch(request)
        provider.accepts -= {way}
        with pytest.raises(TokenRequestFailed):
            await endpoint.fetch(request)
        assert provider.ways == [way, way]

    async def test_basic_keeps_the_secret_out_of_the_body(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest
    ) -> None:
        await endpoint.fetch(replace(token_request, auth_method="client_secret_basic"))
        assert "client_secret" not in provider.requests[0]

    async def test_basic_has_id_and_secret_form_encoded(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest
    ) -> None:
        """RFC 6749 section 2.3.1: else a colon in the id, or a server that decodes, makes others of them."""
        for client_id, secret in (
            ("urn:app:7", "a+b/c=="),
            ("50% & more", "100%41"),
            ("größe", "密码 x"),
            ("a~b*", ""),
        ):
            provider.client = (client_id, secret)
            request = replace(token_request, client_id=Secret(client_id), client_secret=Secret(secret))
            for method in ("client_secret_basic", "client_secret_post"):
                await endpoint.fetch(replace(request, auth_method=method))
        assert provider.ways == ["basic", "body"] * 4

    async def test_auto_falls_back_and_remembers(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest
    ) -> None:
        provider.accepts = {"basic"}
        for _ in range(3):
            await endpoint.fetch(token_request)
        assert provider.ways == ["body", "basic", "basic", "basic"]
        await endpoint.fetch(replace(token_request, version=2))
        assert provider.ways[4:] == ["body", "basic"]

    async def test_auto_changes_the_method_back_when_the_endpoint_does(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest
    ) -> None:
        provider.accepts = {"basic"}
        await endpoint.fetch(token_request)
        provider.accepts = {"body"}
        await endpoint.fetch(token_request)
        assert provider.ways == ["body", "basic", "basic", "body"]

    @pytest.mark.parametrize("status", [400, 401, 403])
    async def test_auto_falls_back_also_without_an_error_code(
        self, endpoint: TokenEndpoint, serve, token_request: TokenRequest, status: int
    ) -> None:
        async def token(request: web.Request) -> web.Response:
            if "Authorization" not in request.headers:
                return web.json_response({"message": "who are you?"}, status=status)
            return web.json_response({"access_token": "abc"})

        url = await serve(web.post("/t", token)) + "/t"
        assert (await endpoint.fetch(replace(token_request, token_url=url))).access_token == Secret("abc")

    async def test_a_known_client_with_a_bad_scope_is_not_tried_twice(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest
    ) -> None:
        provider.failure = web.json_response({"error": "invalid_scope"}, status=400)
        with pytest.raises(TokenRequestFailed, match="invalid_scope"):
            await endpoint.fetch(token_request)
        assert len(provider.requests) == 1


class TestRefusals:
    @for_each(
        ("status", "body", "media"),
        [
            (
                401,
                '{"error":"invalid_client","error_description":"bad s3cr3t-of-the-client"}',
                "application/json",
            ),
            (400, '{"error":"s3cr3t-of-the-client"}', "application/json"),
            (400, '{"error":{"nested":"s3cr3t-of-the-client"}}', "application/json"),
            (400, '{"error":null,"error_description":["s3cr3t-of-the-client"]}', "application/json"),
            (403, "s3cr3t-of-the-client", "text/plain"),
            (429, "slow down", "text/plain"),
            (500, '{"error":"server_error"}', "application/json"),
            (302, "", "text/html"),
            (200, "", "application/json"),
            (200, "[]", "application/json"),
            (200, "null", "application/json"),
            (200, "{}", "application/json"),
            (200, "<html>s3cr3t-of-the-client</html>", "text/html"),
            (200, '{"access_token":""}', "application/json"),
            (200, '{"access_token":5}', "application/json"),
            (200, '{"access_token":"a\\r\\nEvil: 1"}', "application/json"),
            (200, '{"access_token":"a","token_type":"mac"}', "application/json"),
            (200, '{"access_token":"a","token_type":{}}', "application/json"),
            (200, '{"access_token":"a","expires_in":"soon"}', "application/json"),
            (200, '{"access_token":"a","expires_in":[1]}', "application/json"),
            (200, '{"access_token":"' + "a" * 70000 + '"}', "application/json"),
            (200, "[" * 100_000, "application/json"),
        ],
    )
    async def test_errors_do_not_contain_the_secret(
        self, endpoint: TokenEndpoint, serve, token_request: TokenRequest, status: int, body: str, media: str
    ) -> None:
        async def token(_: web.Request) -> web.Response:
            headers = {"Location": "/elsewhere"} if status == 302 else {}
            return web.Response(status=status, text=body, content_type=media, headers=headers)

        url = await serve(web.post("/t", token)) + "/t"
        with pytest.raises(TokenRequestFailed) as refused:
            await endpoint.fetch(replace(token_request, token_url=url))
        error: BaseException | None = refused.value
        assert SECRET not in f"{refused.value.detail} {refused.value.extra} {refused.value.headers}"
        assert error is not None
        assert error.__cause__ is None

    @for_each(
        ("expires", "expected"),
        [("3600", 3600.0), (60.5, 60.5), (None, None), (0, 0), (-5, None), (True, None)],
    )
    async def test_expires_in_is_parsed_leniently(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest, expires, expected
    ) -> None:
        provider.reply = {"expires_in": expires}
        assert (await endpoint.fetch(token_request)).expires_in == expected

    async def test_an_endpoint_that_is_slow_down_or_forbidden_is_named_as_such(
        self,
        endpoint: TokenEndpoint,
        engine: Engine,
        strict_engine: Engine,
        provider,
        token_request: TokenRequest,
    ) -> None:
        provider.delay = 3
        with pytest.raises(UpstreamTimeout, match="token endpoint"):
            await TokenEndpoint(engine, limits=QUICK).fetch(token_request)
        with pytest.raises(UpstreamUnreachable, match="token endpoint"):
            await endpoint.fetch(replace(token_request, token_url="http://127.0.0.1:1/"))
        with pytest.raises(BlockedAddress, match="token endpoint"):
            await TokenEndpoint(strict_engine).fetch(token_request)

    @for_each("url", ["", "token", "ftp://h/", "http://u:p@127.0.0.1/", "http://[::1", "http://h:x/"])
    async def test_an_unusable_url(
        self, endpoint: TokenEndpoint, token_request: TokenRequest, url: str
    ) -> None:
        with pytest.raises(GatewayError):
            await endpoint.fetch(replace(token_request, token_url=url))


def test_cache_key_depends_on_every_field(token_request: TokenRequest) -> None:
    changes = [
        {"tenant_id": uuid4()},
        {"credential_id": uuid4()},
        {"version": 2},
        {"token_url": "https://x/"},
        {"client_id": Secret("x")},
        {"client_secret": Secret("x")},
        {"scope": "read"},
        {"audience": "x"},
        {"resource": "x"},
        {"auth_method": "client_secret_post"},
    ]
    keys = {token_request.parts(), *(replace(token_request, **change).parts() for change in changes)}
    assert len(keys) == len(changes) + 1
