"""Grants of OAuth 2.0 through the whole application: refresh tokens, assertions, service accounts."""

import asyncio
import json
from functools import cache

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from app.security.vault import KeyRing
from tests.harness.beside import web_server
from tests.harness.cases import for_each

from .conftest import served

CANARY = "canary-refresh-token"


@cache
def make_private_key() -> str:
    """Return the private key of the client, in PEM."""
    return rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()  # fmt: skip


class Issuer:
    """An API and its token endpoint, which issues a new refresh token with each token."""

    def __init__(self) -> None:
        self.url = ""
        self.refresh_token = CANARY
        self.forms: list[dict[str, str]] = []
        self.tokens: set[str] = set()

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.forms.append(form)
        for name in ("assertion", "client_assertion"):
            if name in form:
                jwt.decode(form[name], RSAKey.import_key(make_private_key()))
        if form["grant_type"] == "refresh_token" and form["refresh_token"] != self.refresh_token:
            return web.json_response({"error": "invalid_grant"}, status=400)
        token = f"canary-token-{len(self.forms)}"
        self.tokens = {token}
        reply = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
        if form["grant_type"] == "refresh_token":
            self.refresh_token = reply["refresh_token"] = f"{CANARY}-{len(self.forms)}"
        return web.json_response(reply)

    async def api(self, request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return web.json_response({"seen": dict(request.headers)}, status=200 if token in self.tokens else 401)


@pytest.fixture
async def issuer():
    running = Issuer()
    application = web.Application()
    application.router.add_post("/token", running.token)
    application.router.add_get("/api", running.api)
    async with web_server(application) as running.url:
        yield running


def body_of(issuer: Issuer, credential: dict) -> dict:
    document = {
        "openapi": "3.0.3", "info": {"title": "x", "version": "1"}, "servers": [{"url": issuer.url}],
        "components": {"securitySchemes": {"login": {"type": "http", "scheme": "bearer"}}},
        "security": [{"login": []}],
        "paths": {"/api": {"get": {"operationId": "get", "responses": {"200": {"description": "ok"}}}}},
    }  # fmt: skip
    return {"name": "x", "source": {"document": document}, "credentials": {"login": credential}}


def refreshing(issuer: Issuer) -> dict:
    return {
        "kind": "oauth2", "grant_type": "refresh_token", "client_id": "c", "refresh_token": CANARY,
        "token_url": f"{issuer.url}/token",
    }  # fmt: skip


async def call(client) -> None:
    found = await client.post("/tools/x.get/call", json={})
    assert found.status_code == 200, found.text
    assert "canary" not in found.text


async def test_an_issued_refresh_token_is_stored_sealed_and_used_by_the_next_process(servers, issuer):
    dsn = await asyncio.to_thread(servers.create_database)
    settings = {"database_url": dsn, "sealing_keys": KeyRing.generate("test")}
    async with served(servers, **settings) as first, served(servers, **settings) as second:
        client, other = await first.client("admin"), await second.client("admin")
        made = await client.post("/providers", json=body_of(issuer, refreshing(issuer)))
        assert made.status_code == 201, made.text
        await call(client)
        for process in (client, other):
            # The upstream no longer accepts the token: a new one costs the refresh token that was issued.
            issuer.tokens = set()
            await call(process)
        assert [form["refresh_token"] for form in issuer.forms] == [CANARY, f"{CANARY}-1", f"{CANARY}-2"]
        listed = await client.get("/providers/x/credentials")
        stored = listed.json()["items"][0]
        assert (stored["version"], stored["public"]["grant_type"]) == (1, "refresh_token")
        assert "canary" not in made.text + listed.text
        # What the owner stores goes before what was issued.
        issuer.refresh_token = f"{CANARY}-of-the-owner"
        put = {**refreshing(issuer), "refresh_token": issuer.refresh_token}
        assert (await client.put("/providers/x/credentials/login", json=put)).status_code == 200
        await call(client)
        assert issuer.forms[-1]["refresh_token"] == f"{CANARY}-of-the-owner"
    await asyncio.to_thread(servers.drop_database, dsn)


async def test_the_private_key_of_an_assertion_stays_here(admin, issuer):
    credential = {
        "kind": "oauth2", "grant_type": "jwt_bearer", "client_id": "c", "private_key": make_private_key(), "key_id": "k1",
        "subject": "me@example.com", "token_url": f"{issuer.url}/token",
    }  # fmt: skip
    made = await admin.post("/providers", json=body_of(issuer, credential))
    assert made.status_code == 201, made.text
    await call(admin)
    listed = (await admin.get("/providers/x/credentials")).text
    assert "PRIVATE KEY" not in made.text + listed
    assert make_private_key().splitlines()[1] not in made.text + listed
    checked = (await admin.post("/providers/x/check", json={})).json()
    assert checked["credentials"][0]["status"] == "token_obtained"


async def test_private_key_jwt_authenticates_the_client(admin, issuer):
    credential = {
        "kind": "oauth2", "client_id": "c", "private_key": make_private_key(), "token_url": f"{issuer.url}/token",
        "token_endpoint_auth_method": "private_key_jwt",
    }  # fmt: skip
    assert (await admin.post("/providers", json=body_of(issuer, credential))).status_code == 201
    await call(admin)
    assert issuer.forms[0]["client_assertion_type"].endswith("jwt-bearer")


async def test_a_google_service_account_is_stored_as_its_key_file(admin, issuer):
    key = json.dumps({
        "type": "service_account", "client_email": "robot@p.iam.gserviceaccount.com", "private_key": make_private_key(),
        "private_key_id": "k", "token_uri": f"{issuer.url}/token",
    })  # fmt: skip
    credential = {"kind": "google_service_account", "key": key, "scope": "https://www.googleapis.com/auth/x"}
    made = await admin.post("/providers", json=body_of(issuer, credential))
    assert made.status_code == 201, made.text
    await call(admin)
    claims = jwt.decode(issuer.forms[0]["assertion"], RSAKey.import_key(make_private_key())).claims
    assert (claims["iss"], claims["scope"]) == ("robot@p.iam.gserviceaccount.com", credential["scope"])
    assert claims["aud"] == f"{issuer.url}/token"
    shown = (await admin.get("/providers/x/credentials")).json()["items"][0]
    assert (shown["kind"], shown["exact_kind"]) == ("oauth2", "google_service_account")
    assert "PRIVATE KEY" not in json.dumps(shown) + made.text


@for_each(("changed", "pointer"), [
    ({"refresh_token": None}, "/refresh_token"), ({"client_id": None}, "/client_id"),
    ({"grant_type": "jwt_bearer"}, "/private_key"), ({"grant_type": "password"}, "/grant_type"),
    ({"private_key": "x" * 40}, "/private_key"),
])  # fmt: skip
async def test_what_is_absent_is_named_with_its_pointer(admin, issuer, changed, pointer):
    credential = {
        name: value for name, value in {**refreshing(issuer), **changed}.items() if value is not None
    }
    response = await admin.post("/providers", json=body_of(issuer, credential))
    assert response.status_code == 422, response.text
    assert [error["pointer"][-len(pointer) :] for error in response.json()["errors"]] == [pointer]
    assert "canary" not in response.text


async def test_a_source_is_not_fetched_for_the_first_time_with_a_refresh_token(admin, issuer):
    auth = {**refreshing(issuer), "auth_type": "oauth2"}
    template = {"call_template_type": "http", "url": f"{issuer.url}/api", "auth": auth}
    response = await admin.post("/providers", json={"name": "y", "source": {"call_template": template}})
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["pointer"].endswith("/auth")
    assert issuer.forms == []


async def test_direct_mode_leaves_out_grants_that_clients_lack(admin, issuer):
    body = body_of(issuer, refreshing(issuer)) | {"options": {"direct": True}}
    assert (await admin.post("/providers", json=body)).status_code == 201
    found = await admin.get("/utcp", params={"mode": "direct"})
    assert (found.json()["tools"], found.headers["x-tools-left-out"]) == ([], "1")
