"""Tokens from real token endpoints, friendly and otherwise."""

from dataclasses import replace
from uuid import uuid4

import pytest
from aiohttp import web

from app.errors import BlockedAddress, GatewayError, TokenRequestFailed, UpstreamTimeout, UpstreamUnreachable
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.security.secret import Secret

SECRET = "s3cr3t-of-the-client"


@pytest.fixture
def endpoint(engine: Engine) -> TokenEndpoint:
    return TokenEndpoint(
        engine, limits=Limits(connect=1, first_byte=1, total=1, idle=1, response_bytes=65536)
    )


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
    @pytest.mark.parametrize(
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

    @pytest.mark.parametrize(
        ("expires", "expected"),
        [("3600", 3600.0), (60.5, 60.5), (None, None), (0, 0), (-5, None), (True, None)],
    )
    async def test_expires_in_is_parsed_leniently(
        self, endpoint: TokenEndpoint, provider, token_request: TokenRequest, expires, expected
    ) -> None:
        provider.reply = {"expires_in": expires}
        assert (await endpoint.fetch(token_request)).expires_in == expected

    async def test_an_endpoint_that_is_slow_down_or_forbidden_is_named_as_such(
        self, endpoint: TokenEndpoint, strict_engine: Engine, provider, token_request: TokenRequest
    ) -> None:
        provider.delay = 3
        with pytest.raises(UpstreamTimeout, match="token endpoint"):
            await endpoint.fetch(token_request)
        with pytest.raises(UpstreamUnreachable, match="token endpoint"):
            await endpoint.fetch(replace(token_request, token_url="http://127.0.0.1:1/"))
        with pytest.raises(BlockedAddress, match="token endpoint"):
            await TokenEndpoint(strict_engine).fetch(token_request)

    @pytest.mark.parametrize(
        "url", ["", "token", "ftp://h/", "http://u:p@127.0.0.1/", "http://[::1", "http://h:x/"]
    )
    async def test_an_unusable_url(
        self, endpoint: TokenEndpoint, token_request: TokenRequest, url: str
    ) -> None:
        with pytest.raises(GatewayError):
            await endpoint.fetch(replace(token_request, token_url=url))

    async def test_characters_that_a_basic_header_cannot_carry(
        self, endpoint: TokenEndpoint, token_request: TokenRequest
    ) -> None:
        request = replace(token_request, client_secret=Secret("密码"), auth_method="client_secret_basic")
        with pytest.raises(TokenRequestFailed, match="HTTP Basic"):
            await endpoint.fetch(request)


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
