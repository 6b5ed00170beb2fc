"""Credentials that sign each request: upstreams verify them, and nothing shows them."""

import hashlib
import hmac
import re

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.verifiers import verify_sigv4

KEY_ID, SECRET, TOKEN = "AKIDCANARY", "canary-of-the-secret-access-key", "canary-of-the-session-token"
PASSWORD = "canary-of-the-digest-password"
HMAC_KEY = "canary-of-the-hmac-key"
AWS = {
    "kind": "aws_sigv4", "access_key_id": KEY_ID, "secret_access_key": SECRET, "session_token": TOKEN,
    "region": "eu-central-1", "service": "execute-api",
}  # fmt: skip
HMAC = {
    "kind": "hmac", "secret": HMAC_KEY, "key_id": "client-7", "header": "Authorization",
    "header_value": "HMAC {key_id}:{timestamp}:{nonce}:{signature}",
    "string_to_sign": "{method}\n{target}\n{timestamp}\n{nonce}\n{body_hash}", "algorithm": "sha512",
}  # fmt: skip
DIGEST = {"kind": "digest", "username": "mufasa", "password": PASSWORD}


class Verifier:
    """An upstream that verifies each request, and echoes what it got."""

    def __init__(self) -> None:
        self.url = ""
        self.rejected = 0
        self.nonces: dict[str, set[str]] = {}
        self.connections: set[object] = set()

    async def aws(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = list(request.headers.items())
        is_valid = "Authorization" in request.headers and verify_sigv4(
            method=request.method,
            url=f"{self.url}{request.raw_path}",
            headers=headers,
            body=body,
            credentials=(KEY_ID, SECRET, TOKEN),
        )
        return self.respond(request, is_valid, body)

    async def hmac(self, request: web.Request) -> web.Response:
        body = await request.read()
        found = re.fullmatch(r"HMAC client-7:(\d+):(\w+):(\w+)", request.headers.get("Authorization", ""))
        is_valid = False
        if found is not None:
            digest = hashlib.sha512(body).hexdigest()
            text = f"{request.method}\n{request.raw_path}\n{found[1]}\n{found[2]}\n{digest}"
            is_valid = hmac.new(HMAC_KEY.encode(), text.encode(), "sha512").hexdigest() == found[3]
        return self.respond(request, is_valid, body)

    async def digest(self, request: web.Request) -> web.Response:
        body = await request.read()
        sent = {
            name: quoted or plain
            for name, quoted, plain in re.findall(
                r'(\w+)=(?:"([^"]*)"|([^\s,"]+))', request.headers.get("Authorization", "")
            )
        }
        counts = self.nonces.get(sent.get("nonce", ""))

        def h(text: str) -> str:
            return hashlib.sha256(text.encode()).hexdigest()

        if counts is not None and sent["nc"] not in counts:
            first, second = h(f"mufasa:api:{PASSWORD}"), h(f"{request.method}:{request.raw_path}")
            middle = f"{sent['nonce']}:{sent['nc']}:{sent['cnonce']}:auth"
            if sent["response"] == h(f"{first}:{middle}:{second}") and sent["uri"] == request.raw_path:
                counts.add(sent["nc"])
                return self.respond(request, True, body)
        self.rejected += 1
        nonce = f"nonce-{len(self.nonces)}"
        self.nonces[nonce] = set()
        stale = ", stale=true" if "nonce" in sent and counts is None else ""
        challenge = f'Digest realm="api", qop="auth", algorithm=SHA-256, nonce="{nonce}"{stale}'
        headers = {"WWW-Authenticate": challenge}
        return web.json_response({"seen": dict(request.headers)}, status=401, headers=headers)

    def respond(self, request: web.Request, is_valid: bool, body: bytes) -> web.Response:
        self.connections.add(request.transport)
        self.rejected += not is_valid
        seen = {"seen": dict(request.headers), "url": request.raw_path, "body": body.decode()}
        return web.json_response(seen, status=200 if is_valid else 403)


@pytest.fixture
async def verifier():
    running = Verifier()
    application = web.Application()
    for name in ("aws", "hmac", "digest"):
        application.router.add_route("*", f"/{name}/{{rest:.*}}", getattr(running, name))
    async with web_server(application) as running.url:
        yield running


def document(url: str, kind: str) -> dict:
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        {"name": "q", "in": "query", "schema": {"type": "string"}},
    ]
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    responses = {"200": {"description": "ok"}}
    return {
        "openapi": "3.0.3", "info": {"title": kind, "version": "1"}, "servers": [{"url": f"{url}/{kind}"}],
        "components": {"securitySchemes": {"login": {"type": "http", "scheme": "digest"}}},
        "security": [{"login": []}],
        "paths": {"/items/{id}": {
            "get": {"operationId": "getItem", "parameters": parameters, "responses": responses},
            "post": {
                "operationId": "setItem", "parameters": parameters, "requestBody": body, "responses": responses,
            },
        }},
    }  # fmt: skip


async def registered(admin, verifier, kind: str, credential: dict) -> None:
    body = {
        "name": kind,
        "source": {"document": document(verifier.url, kind)},
        "credentials": {"login": credential},
    }
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text


@pytest.mark.parametrize(("kind", "credential"), [("aws", AWS), ("hmac", HMAC), ("digest", DIGEST)])
async def test_the_upstream_accepts_each_request(admin, verifier, kind, credential):
    await registered(admin, verifier, kind, credential)
    for arguments in ({"id": "a b/ä", "q": "x+y z"}, {"id": "1"}, {"id": "2", "q": "a&b=c"}):
        found = await admin.post(f"/tools/{kind}.getItem/call", json=arguments)
        assert found.status_code == 200, found.text
        written = await admin.post(f"/tools/{kind}.setItem/call", json={**arguments, "body": {"n": 1}})
        assert written.status_code == 200, written.text
        assert written.json()["body"] == '{"n":1}'
    # Only Digest has to be asked first, and once: the nonce is used for all further requests.
    assert verifier.rejected == (1 if kind == "digest" else 0)


@pytest.mark.parametrize(("kind", "credential"), [("aws", AWS), ("hmac", HMAC), ("digest", DIGEST)])
async def test_no_secret_and_no_signature_is_shown(admin, verifier, kind, credential):
    await registered(admin, verifier, kind, credential)
    called = await admin.post(f"/tools/{kind}.getItem/call", json={"id": "1"})
    seen = called.json()["seen"]
    assert "***" in seen["Authorization"]
    assert not re.search(r"[0-9a-f]{64}", called.text)
    texts = [called.text]
    described = await admin.post(f"/tools/{kind}.getItem/call?dry_run=true", json={"id": "1"})
    assert described.json()["headers"]["Authorization"] == "***"
    etag = (await admin.get(f"/providers/{kind}")).headers["etag"]
    patched = await admin.patch(
        f"/providers/{kind}", json={"options": {"direct": True}}, headers={"If-Match": etag}
    )
    assert patched.status_code == 200, patched.text
    paths = (f"/providers/{kind}", f"/providers/{kind}/credentials", "/utcp", "/utcp?mode=direct", "/export")
    texts += [(await admin.get(path)).text for path in paths]
    wrong = {name: f"wrong-{value}" if "canary" in value else value for name, value in credential.items()}
    assert (await admin.put(f"/providers/{kind}/credentials/login", json=wrong)).status_code == 200
    rejected = await admin.post(f"/tools/{kind}.getItem/call", json={"id": "1"})
    assert rejected.status_code in (401, 403, 502), rejected.text
    texts.append(rejected.text)
    for text in (*texts, described.text):
        assert "canary" not in text.replace("CANARY", "")


async def test_direct_mode_leaves_out_what_released_clients_would_reject(admin, verifier):
    await registered(admin, verifier, "digest", DIGEST)
    assert (await admin.patch("/providers/digest", json={"options": {"direct": True}})).status_code == 200
    found = await admin.get("/utcp", params={"mode": "direct"})
    assert found.json()["tools"] == []
    assert found.headers["x-tools-left-out"] == "2"


async def test_a_wrong_digest_password_is_tried_once_for_each_call(admin, verifier):
    await registered(admin, verifier, "digest", {**DIGEST, "password": "another"})
    for count in (2, 4):
        found = await admin.post("/tools/digest.getItem/call", json={"id": "1"})
        assert found.json()["type"].endswith("upstream-unauthorized")
        assert verifier.rejected == count


async def test_a_nonce_that_the_server_forgot_is_replaced_within_the_call(admin, verifier):
    await registered(admin, verifier, "digest", DIGEST)
    for expected in (1, 2):
        found = await admin.post("/tools/digest.setItem/call", json={"id": "1", "body": {}})
        assert found.status_code == 200, found.text
        assert verifier.rejected == expected
        verifier.nonces.clear()


@pytest.mark.parametrize("auth", [
    {**AWS, "auth_type": "aws_sigv4"}, {**HMAC, "auth_type": "hmac"}, {**DIGEST, "auth_type": "http_digest"},
])  # fmt: skip
async def test_a_call_template_may_have_them_as_auth(admin, verifier, auth):
    kind = {"aws_sigv4": "aws"}.get(auth["kind"], auth["kind"])
    template = {
        "call_template_type": "http",
        "http_method": "POST",
        "url": f"{verifier.url}/{kind}/x",
        "auth": auth,
    }
    body = {"provider": "own", "name": "x", "call_template": template}
    made = await admin.post("/tools", json=body)
    assert made.status_code == 201, made.text
    found = await admin.post("/tools/own.x/call", json={"body": {"a": "${b}"}})
    assert found.status_code == 200, found.text
    assert "canary" not in made.text + found.text
    shown = (await admin.get("/providers/own/credentials")).json()["items"][0]
    assert shown["exact_kind"] == auth["kind"]
    assert shown["kind"] in ("api_key", "basic")


@pytest.mark.parametrize(("credential", "pointer"), [
    ({**AWS, "region": "a/b"}, "/region"), ({**AWS, "secret_access_key": "***"}, "/secret_access_key"),
    ({**HMAC, "string_to_sign": "{nothing}"}, "/string_to_sign"), ({**HMAC, "header": "Host"}, "/header"),
    ({**HMAC, "key_id": None}, "/key_id"), ({**DIGEST, "username": "a:b"}, "/username"),
    ({**HMAC, "header_value": "{timestamp}"}, "/header_value"),
])  # fmt: skip
async def test_what_cannot_sign_is_rejected_with_a_pointer(admin, verifier, credential, pointer):
    await registered(admin, verifier, "digest", DIGEST)
    response = await admin.put("/providers/digest/credentials/login", json=credential)
    assert response.status_code == 422, response.text
    assert [
        error["pointer"].removeprefix("#").removeprefix("/body") for error in response.json()["errors"]
    ] == [pointer]
    assert "canary" not in response.text


async def test_variables_stand_for_secrets(admin, verifier):
    await registered(admin, verifier, "aws", AWS)
    for name, value in (("AWS_SECRET", SECRET), ("AWS_TOKEN", TOKEN)):
        assert (
            await admin.put(f"/variables/{name}", json={"value": value, "secret": True})
        ).status_code < 300
    stored = await admin.put(
        "/providers/aws/credentials/login",
        json={**AWS, "secret_access_key": "${AWS_SECRET}", "session_token": "${AWS_TOKEN}"},
    )
    assert stored.json()["variables"] == ["AWS_SECRET", "AWS_TOKEN"]
    assert (await admin.post("/tools/aws.getItem/call", json={"id": "1"})).status_code == 200


async def test_protocols_without_whole_requests_reject_them(admin, verifier):
    template = {
        "call_template_type": "tcp", "host": "127.0.0.1", "port": 9, "auth": {**HMAC, "auth_type": "hmac"},
    }  # fmt: skip
    made = await admin.post("/tools", json={"provider": "raw", "name": "x", "call_template": template})
    assert made.status_code == 201, made.text
    found = await admin.post("/tools/raw.x/call", json={})
    assert found.json()["type"].endswith("credential-missing")
