"""Sources whose URL redirects: which redirects are followed, what is sent there, and where credentials go then."""

import re

import orjson
from aiohttp import web

from tests.harness.cases import for_each

from .documents import manual, openapi, tool

AUTH = {"auth_type": "api_key", "api_key": "k-0123456789abcdef", "var_name": "X-Key", "location": "header"}
KEY = {"kind": "api_key", "value": "k-fedcba9876543210"}
SECURED = {
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "security": [{"key": []}],
}


def redirect(location, status=302):
    async def respond():
        return web.Response(status=status, headers={"Location": location})

    return respond


def relative():
    """A document whose server is that of its own URL."""
    return {**openapi("x"), "servers": [{"url": "/api"}], **SECURED}


def paths(seen):
    return [path for _, path, _, _ in seen]


async def register(admin, url, **members):
    source = {"url": url, **members.pop("source", {})}
    return await admin.post("/providers", json={"name": "pets", "source": source, **members})


async def remove(admin):
    await admin.delete("/providers/pets")


@for_each("kind", ["document", "manual", "short form", "http", "sse", "streamable_http"])
async def test_a_redirect_to_another_origin_is_followed_without_credentials(admin, upstream, elsewhere, kind):
    upstream.seen.clear()
    elsewhere.seen.clear()
    upstream.pages = {
        "/start": redirect("/next?a=1", 301),
        "/next": redirect(f"{elsewhere.url}/v2/docs?sig=s3cret", 307),
    }
    made_of = manual(tool("listPets", f"{elsewhere.url}/api/pets")) if kind == "manual" else relative()
    elsewhere.pages = {"/v2/docs": made_of}
    url = f"{upstream.url}/start"
    headers = {"Accept-Language": "de"}
    if kind == "short form":
        made = await admin.post("/providers", json={"name": "pets", "url": url})
    elif kind in ("http", "sse", "streamable_http"):
        made = await admin.post(
            "/providers", json={"name": "pets", "call_template_type": kind, "url": url, "headers": headers}
        )
    else:
        made = await register(admin, url, source={"headers": headers})
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["report"]["final_url"] == f"{elsewhere.url}/v2/docs"
    assert body["source"]["url"] == url
    assert body["origins"] == [elsewhere.url]
    [warning] = [one["detail"] for one in body["report"]["warnings"] if "redirects" in one["detail"]]
    assert upstream.url in warning, warning
    assert elsewhere.url in warning, warning
    assert paths(upstream.seen) == ["/start", "/next?a=1"]
    assert paths(elsewhere.seen) == ["/v2/docs?sig=s3cret"]
    assert "Accept-Language" not in elsewhere.seen[0][2]
    stored = (await admin.get("/providers/pets")).json()
    assert stored["report"]["final_url"] == f"{elsewhere.url}/v2/docs"
    assert "s3cret" not in made.text + orjson.dumps(stored).decode()
    await remove(admin)


async def test_credentials_go_to_the_origin_of_a_redirect_only_when_the_registrar_confirms_it(
    admin, upstream, elsewhere
):
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/openapi.json")}
    elsewhere.pages = {"/openapi.json": relative()}
    url = f"{upstream.url}/openapi.json"
    made = await register(admin, url, credentials={"key": KEY})
    assert made.status_code == 201, made.text
    assert made.json()["needs_consent"] == [{"slot": "key", "origins": [elsewhere.url], "token_url": None}]
    assert made.json()["credentials"][0]["allowed_origins"] == [upstream.url]
    assert (await admin.post("/tools/pets.listPets/call", json={})).status_code == 403
    await admin.delete("/providers/pets/credentials/key")
    stored = await admin.put("/providers/pets/credentials/key", json=KEY)
    assert stored.json()["allowed_origins"] == [upstream.url], stored.text
    assert paths(elsewhere.seen) == ["/openapi.json"]
    await remove(admin)
    confirmed = {"redirect_origin": elsewhere.url}
    made = await register(admin, url, options=confirmed, credentials={"key": KEY})
    assert made.status_code == 201, made.text
    assert made.json()["needs_consent"] == []
    assert not [one for one in made.json()["report"]["warnings"] if "redirects" in one["detail"]]
    called = await admin.post("/tools/pets.listPets/call", json={})
    assert called.status_code == 200, called.text
    assert elsewhere.seen[-1][2]["X-Key"] == KEY["value"]
    await admin.delete("/providers/pets/credentials/key")
    stored = await admin.put("/providers/pets/credentials/key", json=KEY)
    assert stored.json()["allowed_origins"] == [upstream.url, elsewhere.url], stored.text


async def test_confirming_takes_the_scope_of_credentials(admin, gateway_app, upstream, elsewhere):
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/openapi.json")}
    elsewhere.pages = {"/openapi.json": relative()}
    writer = await gateway_app.client("providers:read", "providers:write")
    url, confirmed = f"{upstream.url}/openapi.json", {"redirect_origin": elsewhere.url}
    denied = await register(writer, url, options=confirmed)
    assert (denied.status_code, denied.json()["errors"][0]["pointer"]) == (403, "/options/redirect_origin")
    assert (await register(writer, url)).status_code == 201
    denied = await writer.patch("/providers/pets", json={"options": confirmed})
    assert (denied.status_code, denied.json()["errors"][0]["pointer"]) == (403, "/options/redirect_origin")
    for wrong in ("elsewhere", f"{elsewhere.url}/path", "wss://example.com"):
        rejected = await admin.patch("/providers/pets", json={"options": {"redirect_origin": wrong}})
        assert (rejected.status_code, rejected.json()["errors"][0]["pointer"]) == (
            422,
            "/options/redirect_origin",
        )


@for_each("way", ["auth", "header", "query"])
async def test_a_source_with_a_credential_is_followed_within_its_origin(admin, upstream, elsewhere, way):
    upstream.seen.clear()
    elsewhere.seen.clear()
    upstream.pages = {"/start": redirect("/openapi.json"), "/openapi.json": openapi(upstream.url)}
    url, source = f"{upstream.url}/start", {}
    if way == "auth":
        source["auth"] = AUTH
    elif way == "header":
        source["headers"] = {"X-Key": AUTH["api_key"]}
    else:
        url += f"?api_key={AUTH['api_key']}"
    made = await register(admin, url, source=source)
    assert made.status_code == 201, made.text
    assert made.json()["report"]["final_url"] == f"{upstream.url}/openapi.json"
    sent = upstream.seen[-1]
    assert AUTH["api_key"] in (sent[1] if way == "query" else sent[2]["X-Key"])
    await remove(admin)
    upstream.pages["/start"] = redirect(f"{elsewhere.url}/openapi.json?echo={AUTH['api_key']}")
    rejected = await register(admin, url, source=source)
    assert rejected.status_code == 502, rejected.text
    assert f"{elsewhere.url}/openapi.json" in rejected.json()["detail"]
    assert upstream.url in rejected.json()["detail"]
    assert AUTH["api_key"] not in rejected.text
    assert elsewhere.seen == []
    assert (await admin.get("/providers/pets")).status_code == 404


@for_each("status, location, reason", [(302, "", "no Location"), (305, "/next", "status are not followed")])
async def test_what_is_no_followed_redirect_says_why(admin, upstream, status, location, reason):
    async def respond():
        return web.Response(status=status, headers={"Location": location} if location else {})

    upstream.pages = {"/start": respond}
    made = await register(admin, f"{upstream.url}/start")
    assert reason in made.text, made.text
    assert "register the address" not in made.text
    await remove(admin)


async def test_a_chain_of_redirects_ends(admin, upstream):
    upstream.pages = {f"/{n}": redirect(f"/{n + 1}") for n in range(6)} | {"/5": openapi(upstream.url)}
    assert (await register(admin, f"{upstream.url}/0")).status_code == 201
    await remove(admin)
    upstream.seen.clear()
    upstream.pages |= {"/5": redirect("/0")}
    rejected = await register(admin, f"{upstream.url}/0")
    assert rejected.status_code == 502, rejected.text
    assert f"{upstream.url}/0" in rejected.json()["detail"]
    assert "at most 5" in rejected.json()["detail"]
    assert len(upstream.seen) == 6


async def test_a_redirect_to_a_blocked_address_is_not_followed(admin, upstream):
    upstream.pages = {"/openapi.json": redirect("http://10.1.2.3:8080/openapi.json")}
    rejected = await register(admin, f"{upstream.url}/openapi.json")
    assert rejected.status_code == 403, rejected.text
    assert rejected.json()["type"].endswith(":blocked-address")
    assert "redirects to http://10.1.2.3:8080/openapi.json" in rejected.json()["detail"]


async def test_a_page_that_a_redirect_leads_to_is_named(admin, upstream, elsewhere):
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/login?next=x")}

    async def page():
        return web.Response(text="<!doctype html><a href='openapi.json'>x</a>", content_type="text/html")

    elsewhere.pages = {"/login": page}
    rejected = await register(admin, f"{upstream.url}/openapi.json")
    assert rejected.status_code == 422, rejected.text
    assert f"redirects to {elsewhere.url}/login" in rejected.json()["detail"]
    assert rejected.json()["errors"][0]["expected"] == [f"{elsewhere.url}/openapi.json"]


async def test_files_of_a_document_that_redirects_are_those_beside_its_last_address(
    admin, upstream, elsewhere
):
    document = {
        **relative(),
        "paths": {"/pets": {"$ref": "paths/pets.json"}, "/far": {"$ref": "paths/far.json"}},
    }
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/v2/openapi.json")}
    item = {"get": {"operationId": "listPets", "responses": {}}}
    elsewhere.pages = {"/v2/openapi.json": document, "/v2/paths/pets.json": redirect("../p.json"), "/v2/p.json": item,
                       "/v2/paths/far.json": redirect(f"{upstream.url}/far.json")}  # fmt: skip
    upstream.pages["/far.json"] = {"get": {"operationId": "listFar", "responses": {}}}
    made = await register(
        admin, f"{upstream.url}/openapi.json", source={"headers": {"Accept-Language": "de"}}
    )
    assert made.status_code == 201, made.text
    assert {one["name"] for one in made.json()["report"]["operations"]} == {"pets.listPets", "pets.listFar"}
    assert any(
        f"redirects to {upstream.url}/far.json" in one["detail"] for one in made.json()["report"]["warnings"]
    )
    assert all("Accept-Language" not in headers for _, _, headers, _ in elsewhere.seen)
    export = (await admin.get("/export")).json()
    assert export["providers"][-1]["final_url"] == f"{elsewhere.url}/v2/openapi.json"
    before = (await admin.get("/tools/pets.listPets")).json()["call_template"]["url"]
    await remove(admin)
    brought = await admin.post("/import", json=export)
    assert brought.json()["counts"]["registered"] == 1, brought.text
    assert (await admin.get("/tools/pets.listPets")).json()["call_template"]["url"] == before
    assert (await admin.get("/providers/pets")).json()["report"][
        "final_url"
    ] == f"{elsewhere.url}/v2/openapi.json"


async def test_a_refresh_of_a_source_that_has_moved_waits_for_approval_where_calls_would_move(
    admin, approver, upstream, elsewhere
):
    upstream.pages = {"/openapi.json": relative()}
    url = f"{upstream.url}/openapi.json"
    made = await register(admin, url, credentials={"key": KEY})
    assert made.status_code == 201, made.text
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/openapi.json", 308)}
    document = relative()
    document["paths"]["/more"] = {"get": {"operationId": "listMore", "responses": {}}}
    elsewhere.pages = {"/openapi.json": document}
    preview = await admin.post("/providers/pets/refresh/preview")
    moved = await admin.post("/providers/pets/refresh")
    assert moved.status_code == 200, moved.text
    assert preview.json()["report"]["final_url"] == f"{elsewhere.url}/openapi.json"
    body = moved.json()
    assert sorted(body["difference"]["pending_approval"]) == ["GET /more", "GET /pets"]
    assert body["report"]["final_url"] == f"{elsewhere.url}/openapi.json"
    assert [one["allowed_origins"] for one in body["credentials"]] == [[upstream.url]]
    upstream.pages["/api/pets"] = {"from": "home"}
    called = await admin.post("/tools/pets.listPets/call", json={})
    assert called.json() == {"from": "home"}
    approved = await approver.post("/providers/pets/approve")
    assert approved.status_code == 200, approved.text
    assert (await admin.post("/tools/pets.listPets/call", json={})).status_code == 403
    assert paths(elsewhere.seen).count("/api/pets") == 0
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/gone.json")}
    elsewhere.pages = {"/gone.json": redirect("ftp://example.com/x")}
    failed = await admin.post("/providers/pets/refresh")
    assert failed.status_code == 502, failed.text
    assert "ftp://example.com/x" in failed.json()["detail"]


async def test_a_refresh_with_a_credential_does_not_leave_its_origin(admin, upstream, elsewhere):
    upstream.pages = {"/openapi.json": openapi(upstream.url)}
    assert (await register(admin, f"{upstream.url}/openapi.json", source={"auth": AUTH})).status_code == 201
    upstream.pages = {"/openapi.json": redirect(f"{elsewhere.url}/openapi.json")}
    failed = await admin.post("/providers/pets/refresh")
    assert failed.status_code == 502, failed.text
    assert re.search(rf"{elsewhere.url}/openapi.json.*{upstream.url}", failed.json()["detail"])
    assert elsewhere.seen == []
    assert [one["name"] for one in (await admin.get("/tools?provider=pets")).json()["items"]] == [
        "pets.listPets"
    ]
