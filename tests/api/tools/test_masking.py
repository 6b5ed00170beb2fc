"""An upstream reflects its request: no part of a response holds a secret of the gateway."""

import asyncio
import base64
import gzip
import hashlib
import json

import pytest
from aiohttp import web
from sqlalchemy import text

from app.catalog.feed import record_change
from tests.harness.beside import web_server
from tests.harness.cases import for_each

KEY = "sk-live-9f8e7d6c5b4a39281706/+="
PASSWORD = "correct-horse-battery-staple-77"
STATIC = "static-9f8e7d6c-header-4711"
TOKEN = "tok_0a1b2c3d4e5f6071829304a5"
CLIENT_SECRET = "client-secret-5f6e7d8c9b0a"
VARIABLE = "variable-1a2b3c4d5e6f7a8b"
SECRETS = (KEY, PASSWORD, STATIC, TOKEN, CLIENT_SECRET, VARIABLE)


def traces(body: bytes) -> list[str]:
    """The secrets found in a body, in every encoding that a reader would try."""
    found = []
    for secret in SECRETS:
        raw = secret.encode()
        aligned = [base64.b64encode(b"x" * k + raw)[4 if k else 0 : -4] for k in range(3)]
        forms = (raw, raw.hex().encode(), json.dumps(secret)[1:-1].replace("/", "\\/").encode(), *aligned)
        found += [secret for form in forms if form in body]
    return found


def read(content: bytes) -> bytes:
    """The text of a response, whichever form it has: pieces of text and of bytes are put together."""
    pieces = []
    for written in content.splitlines():
        line = written.removeprefix(b"data: ")
        if line in (b"event: gateway-text", b"event: gateway-bytes"):
            continue
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if isinstance(value, str):
            pieces.append(value.encode())
        elif isinstance(value, dict) and "base64" in value:
            pieces.append(base64.b64decode(value["base64"]))
        else:
            pieces.append(line)
    return b"".join(pieces)


class Site:
    """An upstream like httpbin: it reflects its request in the way that the path says."""

    def __init__(self) -> None:
        self.url = ""
        self.calls = 0
        self.headers: dict[str, str] = {}

    async def reflect(self, request: web.Request) -> web.StreamResponse:  # noqa: C901
        self.calls += 1
        seen = {"url": str(request.url), "headers": dict(request.headers), "args": dict(request.query)}
        coded = base64.b64encode(json.dumps(seen).encode()).decode()
        reflected = json.dumps(
            {**seen, "coded": coded, "hex": request.headers.get("X-Key", "").encode().hex()}
        )
        headers = {"ETag": '"1"', "Content-Digest": "sha-256=:abc=:", **self.headers}
        match request.match_info["way"]:
            case "json":
                return web.Response(text=reflected, content_type="application/json", headers=headers)
            case "gzip":
                body = gzip.compress(reflected.encode())
                return web.Response(
                    body=body, headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
                )
            case "headers":
                link = f"<{request.url}>; rel=next"
                return web.json_response({}, headers={"Link": link, "X-Request-Id": request.headers["X-Key"]})
            case "untyped":
                return web.Response(body=reflected.encode(), headers={"Content-Type": ""})
            case "wide":
                return web.Response(
                    body=reflected.encode("utf-16"), headers={"Content-Type": "text/plain; charset=utf-16"}
                )
            case "binary":
                return web.Response(body=reflected.encode(), content_type="image/png", headers=headers)
            case "reject":
                return web.json_response(seen, status=409, headers={"X-Request-Id": request.headers["X-Key"]})
            case "sse":
                return await self._stream(
                    request, [f"id: {coded}\ndata: {reflected}\n\n".encode()] * 3, "text/event-stream"
                )
            case "lines":
                return await self._stream(request, [reflected.encode() + b"\n"] * 3, "application/x-ndjson")
            case "late":
                # The secret comes long after the head of the response.
                return await self._stream(request, [b"x" * 70_000, reflected.encode()], "text/plain")
            case "split":
                body = reflected.encode()
                return await self._stream(
                    request, [body[at : at + 5] for at in range(0, len(body), 5)], "text/plain"
                )
            case "clean":
                return web.json_response({"a": 1}, headers=headers)
        return web.json_response({})

    async def _stream(self, request: web.Request, pieces: list[bytes], media: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": media, "ETag": '"1"'})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0.002)
        return response

    async def token(self, request: web.Request) -> web.Response:
        return web.json_response({"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})


@pytest.fixture
async def site():
    site = Site()
    application = web.Application()
    application.router.add_post("/token", site.token)
    application.router.add_route("*", "/{way}", site.reflect)
    async with web_server(application) as site.url:
        yield site


async def tool(api, site, way, *, method="GET", **fields):
    """A tool of this way with a static header and a key, of a provider of its own."""
    row = await api.provider(f"p{way}", **fields)
    await api.tool(row, "t", {"url": f"{site.url}/{way}", "http_method": method}, security=[[{"slot": "k"}]])
    origins = [site.url]
    await api.credential(
        row, "k", "api_key", {"value": KEY}, origins=origins, public={"location": "header", "name": "X-Key"}
    )
    await api.credential(
        row, "s", "static", {"headers": {"X-Static": STATIC}, "query": {"key": [VARIABLE]}, "basic": ["me", PASSWORD]},
        origins=origins,
    )  # fmt: skip
    await with_static(api, row)
    return f"p{way}.t"


@pytest.fixture
async def reflecting(api, site, way):
    """The name of a tool of this way."""
    return await tool(api, site, way)


async def with_static(api, row) -> None:
    """The tool needs the slot `s`, too."""
    async with api.services.database.transaction() as session:
        await session.execute(
            text('UPDATE tools SET security = \'[[{"slot": "k"}, {"slot": "s"}]]\' WHERE provider_id = :id'),
            {"id": row.id},
        )
    async with api.services.database.transaction() as session:
        await record_change(session, kind="provider", provider_id=row.id)
    await api.services.feed.catch_up()


@pytest.mark.parametrize("way", ["json", "gzip", "untyped", "late", "split", "lines", "sse"])
@for_each("accept", ["*/*", "application/json", "text/event-stream", "application/x-ndjson"])
async def test_what_an_upstream_reflects_is_masked(api, reflecting, accept):
    client = await api.client()
    got = await client.post(f"/tools/{reflecting}/call", json={}, headers={"Accept": accept})
    assert got.status_code == 200, got.text
    reflected = read(got.content)
    assert b"X-Static" in reflected
    assert traces(reflected) == []
    assert traces(got.content) == []
    assert traces(repr(got.headers).encode()) == []
    assert b"***" in reflected


async def test_wide_text_is_masked_in_its_own_charset(api, site):
    name = await tool(api, site, "wide")
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    reflected = got.content.decode("utf-16")
    assert traces(reflected.encode()) == []
    assert json.loads(reflected)["headers"]["X-Key"] == "***"


async def test_a_masked_body_is_marked_and_loses_its_validators(api, site):
    name = await tool(api, site, "json")
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    reflected = got.json()
    assert reflected["headers"]["X-Key"] == reflected["headers"]["X-Static"] == "***"
    assert got.headers["x-masked"] == "body"
    assert "etag" not in got.headers
    assert int(got.headers["content-length"]) == len(got.content)


async def test_headers_are_masked(api, site):
    name = await tool(api, site, "headers")
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    assert got.headers["x-request-id"] == "***"
    assert traces(repr(got.headers).encode()) == []
    assert got.headers["x-masked"] == "headers"
    assert got.content == b"{}"


@pytest.mark.parametrize("way", ["clean", "binary"])
async def test_a_response_without_secrets_or_of_binary_data_is_unchanged(api, site, way):
    name = await tool(api, site, way)
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    assert "x-masked" not in got.headers
    assert got.headers["etag"] == '"1"'
    if way == "clean":
        assert got.content == b'{"a": 1}'
    else:
        assert KEY.encode() in got.content


async def test_a_rejection_is_masked_in_body_and_headers(api, site):
    name = await tool(api, site, "reject")
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    assert got.status_code == 409
    assert traces(got.content) == []
    assert traces(repr(got.headers).encode()) == []


async def test_the_last_event_says_that_something_was_masked(api, site):
    client = await api.client()
    for way, masked in (("sse", True), ("clean", False)):
        name = await tool(api, site, way)
        got = await client.post(f"/tools/{name}/call", json={}, headers={"Accept": "application/x-ndjson"})
        last = json.loads(got.text.strip().splitlines()[-1])
        assert last["$gateway"]["end"].get("masked", False) is masked


async def test_a_token_and_its_client_secret_are_masked_also_when_it_is_renewed(api, site):
    row = await api.provider("oauth")
    await api.tool(row, "t", {"url": f"{site.url}/json"}, security=[[{"slot": "o"}]])
    await api.credential(
        row, "o", "oauth2", {"client_id": "me", "client_secret": CLIENT_SECRET}, origins=[site.url],
        public={"token_url": f"{site.url}/token"},
    )  # fmt: skip
    got = await (await api.client()).post("/tools/oauth.t/call", json={})
    assert got.json()["headers"]["Authorization"] == "***"
    assert traces(got.content) == []


async def test_a_cached_response_is_masked_and_stays_masked_when_it_is_revalidated(api, site):
    site.headers = {"Cache-Control": "max-age=60"}
    name = await tool(api, site, "json", limits={"cache": {"seconds": 60}})
    client = await api.client()
    first = await client.post(f"/tools/{name}/call", json={})
    second = await client.post(f"/tools/{name}/call", json={})
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("miss", "hit")
    assert site.calls == 1
    assert first.content == second.content
    assert first.headers["x-masked"] == second.headers["x-masked"] == "body"
    assert "etag" not in second.headers
    held = b"".join(
        entry.body + repr(entry.headers).encode()
        for entry in api.services.calls.response_cache._entries.values()
    )
    assert b"X-Static" in held
    assert traces(held) == []


async def test_a_replayed_response_is_masked_and_the_store_holds_no_secret(api, site):
    name = await tool(api, site, "json", method="POST")
    client = await api.client()
    key = {"Idempotency-Key": "once-1"}
    first = await client.post(f"/tools/{name}/call", json={}, headers=key)
    second = await client.post(f"/tools/{name}/call", json={}, headers=key)
    assert second.headers["idempotency-replayed"] == "true"
    assert first.content == second.content
    assert first.headers["x-masked"] == second.headers["x-masked"] == "body"
    assert traces(first.content) == []
    async with api.services.database.read_session() as session:
        tables = (
            await session.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        ).scalars()
        rows = [
            row
            for table in tables.all()
            for row in (await session.execute(text(f'SELECT * FROM "{table}"'))).all()
        ]
    dump = b"".join(
        bytes(value) if isinstance(value, bytes) else repr(value).encode() for row in rows for value in row
    )
    assert hashlib.sha256(dump).digest()
    assert traces(dump) == []


async def test_masking_can_be_turned_off_for_a_provider(api, site):
    name = await tool(api, site, "json", options={"mask_responses": False})
    got = await (await api.client()).post(f"/tools/{name}/call", json={})
    assert got.json()["headers"]["X-Key"] == KEY
    assert "x-masked" not in got.headers


async def test_a_response_that_was_cached_unmasked_is_not_served_once_masking_is_on(api, site):
    site.headers = {"Cache-Control": "max-age=60"}
    name = await tool(api, site, "json", limits={"cache": {"seconds": 60}}, options={"mask_responses": False})
    client = await api.client()
    first = await client.post(f"/tools/{name}/call", json={})
    assert KEY.encode() in first.content
    async with api.services.database.transaction() as session:
        await session.execute(text("UPDATE providers SET options = '{}' WHERE name = 'pjson'"))
        provider_id = (
            await session.execute(text("SELECT id FROM providers WHERE name = 'pjson'"))
        ).scalar_one()
        await record_change(session, kind="provider", provider_id=provider_id)
    await api.services.feed.catch_up()
    second = await client.post(f"/tools/{name}/call", json={})
    assert (first.headers["x-cache"], second.headers["x-cache"]) == ("miss", "miss")
    assert traces(second.content) == []


async def test_a_tool_without_credentials_is_not_masked(api, site):
    row = await api.provider("bare")
    await api.tool(row, "t", {"url": f"{site.url}/json", "http_method": "GET"})
    got = await (await api.client()).post("/tools/bare.t/call", json={})
    assert "x-masked" not in got.headers
    assert got.headers["etag"] == '"1"'


async def test_values_that_do_not_look_like_secrets_are_unchanged(api, site):
    """A locale or a list of fields in a template must not be masked in every response."""
    row = await api.provider("plain")
    await api.tool(row, "t", {"url": f"{site.url}/json"}, security=[[{"slot": "s"}]])
    await api.credential(
        row, "s", "static",
        {"headers": {"X-Locale": "english-british", "X-Token": "plain-words-only"}, "query": {"fields": ["id,name,description"]}},
        origins=[site.url],
    )  # fmt: skip
    reflected = (await (await api.client()).post("/tools/plain.t/call", json={})).json()
    assert reflected["headers"]["X-Locale"] == "english-british"
    assert reflected["args"]["fields"] == "id,name,description"
    assert reflected["headers"]["X-Token"] == "***"
