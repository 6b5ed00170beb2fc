"""Grants and client authentication of token requests, verified by an endpoint with joserfc."""

import functools
import time
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from app.core.errors import InvalidInput, TokenRequestFailed
from app.formats.utcp.auth import convert_auth
from app.formats.utcp.oauth2_grant import build_google_draft, choose_algorithm
from app.outbound.assertions import AssertionSettings
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint, TokenRequest
from app.security.secret import Secret
from tests.harness.cases import for_each

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def pem(key: Any) -> str:
    coded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return coded.decode()


ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA", "PS512")


@functools.cache
def key_for(algorithm: str) -> str:
    """Return the key that all tests sign with by the algorithm."""
    match algorithm:
        case "ES256":
            return pem(ec.generate_private_key(ec.SECP256R1()))
        case "ES384":
            return pem(ec.generate_private_key(ec.SECP384R1()))
        case "ES512":
            return pem(ec.generate_private_key(ec.SECP521R1()))
        case "EdDSA":
            return pem(ed25519.Ed25519PrivateKey.generate())
        case "PS512":
            return key_for("RS256")
    return pem(rsa.generate_private_key(65537, 2048))


class AssertingEndpoint:
    """A token endpoint that verifies assertions, and rotates refresh tokens."""

    def __init__(self) -> None:
        self.url = ""
        self.pem = key_for("RS256")
        self.forms: list[dict[str, str]] = []
        self.claims: list[dict[str, Any]] = []
        self.headers: list[dict[str, Any]] = []
        self.refresh_token = "refresh-0"
        self.rotates = True

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        for name in ("assertion", "client_assertion"):
            if name in form and not self._verify(form[name]):
                return web.json_response(
                    {"error": "invalid_client", "error_description": form[name]}, status=401
                )
        reply: dict[str, Any] = {
            "access_token": f"token-{len(self.forms)}",
            "token_type": "Bearer",
            "expires_in": 60,
        }
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self.refresh_token:
                body = {"error": "invalid_grant", "error_description": f"unknown: {form['refresh_token']}"}
                return web.json_response(body, status=400)
            if self.rotates:
                self.refresh_token = f"refresh-{len(self.forms)}"
            reply["refresh_token"] = self.refresh_token
        return web.json_response(reply)

    def _verify(self, assertion: str) -> bool:
        key = {"RS256": RSAKey, "EdDSA": OKPKey}.get(choose_algorithm(self.pem), ECKey).import_key(self.pem)
        try:
            token = jwt.decode(assertion, key, algorithms=list(ALGORITHMS))
        except JoseError:
            return False
        self.claims.append(token.claims)
        self.headers.append(token.header)
        claims = jwt.JWTClaimsRegistry(
            iss={"essential": True}, aud={"essential": True, "value": self.url}, exp={"essential": True}
        )
        claims.validate(token.claims)
        return True


@pytest.fixture
async def asserting(serve) -> AssertingEndpoint:
    running = AssertingEndpoint()
    running.url = await serve(web.post("/token", running.token)) + "/token"
    return running


@pytest.fixture
def request_of(asserting: AssertingEndpoint):
    def make(**changed: Any) -> TokenRequest:
        plain = TokenRequest(
            tenant_id=uuid4(),
            credential_id=uuid4(),
            version=1,
            token_url=asserting.url,
            client_id=Secret("client"),
            client_secret=None,
            scope="read write",
        )
        return replace(plain, **changed)

    return make


def signing(key: str = "RS256", **members: Any) -> AssertionSettings:
    return AssertionSettings(private_key=Secret(key_for(key)), **members)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_jwt_bearer_grant(engine: Engine, asserting, request_of, algorithm: str) -> None:
    asserting.pem = key_for(algorithm)
    settings = signing(algorithm, key_id="key-7", subject="user@example.com", algorithm=algorithm)
    token = await TokenEndpoint(engine).fetch(request_of(grant_type="jwt_bearer", assertion=settings))
    assert token.access_token.reveal() == "token-1"
    [form], [claims], [header] = asserting.forms, asserting.claims, asserting.headers
    assert (form["grant_type"], form["scope"], form["client_id"]) == (JWT_BEARER, "read write", "client")
    assert (header["alg"], header["kid"], header["typ"]) == (algorithm, "key-7", "JWT")
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("client", "user@example.com", asserting.url)
    assert 0 < claims["exp"] - time.time() <= 300
    assert "client_secret" not in form


async def test_each_assertion_has_an_identifier_of_its_own(engine: Engine, asserting, request_of) -> None:
    request = request_of(assertion=signing())
    for _ in range(2):
        await TokenEndpoint(engine).fetch(request)
    assert len({claims["jti"] for claims in asserting.claims}) == 2


async def test_private_key_jwt_authenticates_the_client(engine: Engine, asserting, request_of) -> None:
    await TokenEndpoint(engine).fetch(request_of(assertion=signing(), auth_method="private_key_jwt"))
    [form], [claims] = asserting.forms, asserting.claims
    assert (form["grant_type"], form["client_assertion_type"]) == ("client_credentials", CLIENT_ASSERTION)
    assert (claims["iss"], claims["sub"]) == ("client", "client")


async def test_a_client_without_secret_is_authenticated_by_its_key(engine, asserting, request_of) -> None:
    await TokenEndpoint(engine).fetch(request_of(assertion=signing()))
    assert "client_assertion" in asserting.forms[0]


async def test_a_google_service_account_has_the_scope_in_its_assertion(engine, asserting, request_of) -> None:
    settings = signing(issuer="robot@project.iam.gserviceaccount.com", key_id="k", has_scope=True)
    request = request_of(
        client_id=Secret(""), grant_type="jwt_bearer", assertion=settings, auth_method="none"
    )
    await TokenEndpoint(engine).fetch(request)
    [form], [claims] = asserting.forms, asserting.claims
    assert form.keys() == {"grant_type", "assertion"}
    assert (claims["iss"], claims["scope"]) == ("robot@project.iam.gserviceaccount.com", "read write")
    assert "sub" not in claims
    await TokenEndpoint(engine).fetch(replace(request, assertion=replace(settings, subject="me@example.com")))
    assert asserting.claims[1]["sub"] == "me@example.com"


class Memory:
    """Refresh tokens in memory, as the gateway stores them in its database."""

    def __init__(self) -> None:
        self.tokens: dict[Any, Secret] = {}

    async def current(self, request: TokenRequest) -> Secret:
        return self.tokens.get(request.credential_id, request.refresh_token or Secret(""))

    async def replace(self, request: TokenRequest, issued: Secret) -> None:
        self.tokens[request.credential_id] = issued


async def test_a_rotated_refresh_token_is_used_for_the_next_request(engine, asserting, request_of) -> None:
    endpoint = TokenEndpoint(engine, refresh_tokens=Memory())
    request = request_of(grant_type="refresh_token", refresh_token=Secret("refresh-0"))
    for count in (1, 2, 3):
        token = await endpoint.fetch(request)
        assert token.access_token.reveal() == f"token-{count}"
    assert [form["refresh_token"] for form in asserting.forms] == ["refresh-0", "refresh-1", "refresh-2"]
    assert {"client_id"} < asserting.forms[0].keys()


async def test_a_refresh_token_that_is_not_replaced_is_used_again(engine, asserting, request_of) -> None:
    asserting.rotates = False
    store = Memory()
    request = request_of(
        grant_type="refresh_token", refresh_token=Secret("refresh-0"), client_secret=Secret("s3cret-client")
    )
    for _ in range(2):
        await TokenEndpoint(engine, refresh_tokens=store).fetch(request)
    assert store.tokens == {}
    assert asserting.forms[0]["client_secret"] == "s3cret-client"


async def test_a_refresh_token_that_another_process_has_replaced_is_read_again(
    engine, asserting, request_of
) -> None:
    class Overtaken(Memory):
        reads = 0

        async def current(self, request: TokenRequest) -> Secret:
            self.reads += 1
            return Secret("refresh-0" if self.reads == 1 else "refresh-of-the-other")

    asserting.refresh_token = "refresh-of-the-other"
    request = request_of(grant_type="refresh_token", refresh_token=Secret("refresh-0"))
    token = await TokenEndpoint(engine, refresh_tokens=Overtaken()).fetch(request)
    assert token.access_token.reveal() == "token-2"


async def test_a_rejected_refresh_token_is_not_repeated_in_the_error(engine, asserting, request_of) -> None:
    request = request_of(grant_type="refresh_token", refresh_token=Secret("canary-refresh-token"))
    with pytest.raises(TokenRequestFailed) as raised:
        await TokenEndpoint(engine, refresh_tokens=Memory()).fetch(request)
    assert "invalid_grant" in raised.value.detail
    assert "canary" not in raised.value.detail
    assert len(asserting.forms) == 1


def test_requests_that_differ_in_a_member_have_different_parts(request_of) -> None:
    plain = request_of(assertion=signing())
    others = [
        replace(plain, grant_type="jwt_bearer"),
        replace(plain, refresh_token=Secret("r")),
        replace(plain, assertion=None),
        replace(plain, assertion=signing("ES256")),
        *(
            replace(plain, assertion=signing(**{name: "x"}))
            for name in ("issuer", "subject", "audience", "key_id")
        ),
    ]
    assert len({one.parts() for one in (plain, *others)}) == len(others) + 1


OAUTH2 = {"auth_type": "oauth2", "token_url": "https://auth.example/token", "client_id": "c"}


@for_each(
    ("members", "pointer"),
    lambda: [
        ({}, "/client_secret"),
        ({"grant_type": "refresh_token"}, "/refresh_token"),
        ({"grant_type": "jwt_bearer"}, "/private_key"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "/private_key"),
        ({"client_secret": "s", "token_endpoint_auth_method": "none"}, "/token_endpoint_auth_method"),
        ({"private_key": "no key"}, "/private_key"),
        ({"private_key": pem(rsa.generate_private_key(65537, 1024))}, "/private_key"),
        ({"private_key": key_for("ES256"), "signing_algorithm": "RS256"}, "/private_key"),
        ({"client_secret": "s", "client_id": ""}, "/client_id"),
    ],
)  # fmt: skip
def test_what_a_grant_needs_is_named(members: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        convert_auth({**OAUTH2, **members})
    assert pointer in [error.pointer for error in raised.value.errors]
    assert "PRIVATE" not in str(raised.value.errors)


def test_members_that_utcp_does_not_define_are_no_error() -> None:
    draft = convert_auth({**OAUTH2, "client_secret": "s", "grant_type": "authorization_code"})
    assert draft.public == {
        "token_url": "https://auth.example/token", "scope": None, "audience": None, "resource": None,
        "token_endpoint_auth_method": "auto",
    }  # fmt: skip


@for_each("key", ["", "{}", "[1]", '{"client_email": "a@b"}', '{"client_email": "a", "private_key": "x"}'])
def test_a_key_file_that_cannot_be_read_is_rejected(key: str) -> None:
    with pytest.raises(InvalidInput):
        build_google_draft(key, scope=None, subject=None)


def test_the_token_url_of_a_key_file_is_part_of_the_credential() -> None:
    key = {"client_email": "a@b", "private_key": key_for("RS256"), "token_uri": "https://token.example/t"}
    draft = build_google_draft(key, scope="s", subject=None)
    assert draft.public["token_url"] == "https://token.example/t"
    assert (
        build_google_draft("${GOOGLE_KEY}", scope=None, subject=None)
        .public["token_url"]
        .startswith("https://oauth2.")
    )


async def test_a_key_that_takes_too_long_to_read_is_rejected(engine: Engine, asserting, request_of) -> None:
    # As long as a key with 8192 bits, which takes a minute to make.
    long_key = key_for("RS256") + "\n" * 5_000
    with pytest.raises(ValueError, match="2048 to 4096 bits"):
        choose_algorithm(long_key)
    for algorithm in ("", "RS256"):
        settings = AssertionSettings(Secret(long_key), algorithm=algorithm)
        with pytest.raises(TokenRequestFailed):
            await TokenEndpoint(engine).fetch(request_of(grant_type="jwt_bearer", assertion=settings))
    assert asserting.forms == []
