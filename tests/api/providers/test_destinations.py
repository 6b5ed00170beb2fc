"""One rule: only `credentials:write` changes where, or over what trust, a credential travels (decision 35)."""

import asyncio
import contextlib
import ssl

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.certificates import certificate

from .documents import manual, openapi, tool

CANARY = "canary-of-the-owner-1"
ROTATED = "canary-of-the-owner-2"
WRITER = ("providers:read", "providers:write", "tools:read", "tools:call")


@pytest.fixture
async def writer(gateway_app):
    """A key that registers and changes providers, and stores no credential."""
    return await gateway_app.client(*WRITER)


@pytest.fixture
async def owner(gateway_app):
    """A key that stores credentials."""
    return await gateway_app.client(*WRITER, "credentials:write")


def denied(response, *pointers):
    assert response.status_code == 403, response.text
    problem = response.json()
    assert problem["missing_scopes"] == ["credentials:write"]
    assert [error["pointer"] for error in problem.get("errors", ())] == list(pointers)


async def registered(client, upstream, **more):
    upstream.pages["/openapi.json"] = openapi(upstream.url, **more)
    source = {"url": f"{upstream.url}/openapi.json"}
    made = await client.post("/providers", json={"name": "pets", "source": source})
    assert made.status_code == 201, made.text


async def put(client, value=CANARY, slot="key", provider="pets", **more):
    body = {"kind": "api_key", "value": value, **more}
    return await client.put(f"/providers/{provider}/credentials/{slot}", json=body)


async def add(client, url, name="mine", provider="pets", **template):
    body = {"provider": provider, "name": name, "call_template": {"url": url, **template}}
    return await client.post("/tools", json=body)


def texts(site):
    return b"".join(f"{path} {headers} ".encode() + body for _, path, headers, body in site.seen)


async def destination(client, slot="key", provider="pets"):
    found = (await client.get(f"/providers/{provider}/credentials")).json()["destinations"]
    return next(one for one in found if one["slot"] == slot)


async def test_a_rotation_stays_where_the_credential_was(admin, writer, owner, upstream, elsewhere):
    await registered(admin, upstream)
    first = await put(owner)
    assert (first.status_code, first.json()["allowed_origins"]) == (201, [upstream.url])
    moved = await writer.patch("/providers/pets", json={"options": {"base_url": elsewhere.url}})
    denied(moved, "/options/base_url")
    assert (await add(writer, f"{elsewhere.url}/steal")).status_code == 201
    assert await destination(writer) == {
        "slot": "key",
        "origins": [upstream.url],
        "registered": [upstream.url],
        "stored": True,
        "token_url": None,
    }
    again = await put(owner, ROTATED)
    assert (again.status_code, again.json()["allowed_origins"]) == (200, [upstream.url])
    await put(owner, ROTATED, slot="default")
    assert (await owner.post("/tools/pets.mine/call", json={})).status_code == 403
    assert elsewhere.seen == []
    assert (await owner.post("/tools/pets.listPets/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == ROTATED
    # A new origin needs the owner's consent.
    allowed = await put(owner, ROTATED, allowed_origins=[elsewhere.url])
    assert allowed.json()["allowed_origins"] == [elsewhere.url]
    assert (await put(owner, CANARY)).json()["allowed_origins"] == [elsewhere.url]


async def test_a_rotation_retains_the_token_url(admin, owner, upstream, elsewhere):
    document = openapi(upstream.url, token_url=f"{upstream.url}/token")
    document["security"] = [{"oauth": []}]
    upstream.pages["/openapi.json"] = document
    source = {"url": f"{upstream.url}/openapi.json"}
    assert (await admin.post("/providers", json={"name": "pets", "source": source})).status_code == 201
    body = {"kind": "oauth2", "client_id": "a", "client_secret": CANARY}
    with_token_url = {**body, "token_url": f"{elsewhere.url}/t"}
    first = await owner.put("/providers/pets/credentials/oauth", json=with_token_url)
    assert first.status_code == 201, first.text
    assert (await destination(owner, "oauth"))["token_url"] == f"{elsewhere.url}/t"
    again = await owner.put("/providers/pets/credentials/oauth", json=body)
    assert again.json()["public"]["token_url"] == f"{elsewhere.url}/t"
    assert again.json()["allowed_origins"] == [upstream.url]


async def test_the_first_credential_goes_to_the_registered_origin(
    admin, writer, owner, approver, upstream, elsewhere
):
    """What a key without the scope changed before the owner came does not count."""
    await registered(admin, upstream)
    changed = await writer.patch("/providers/pets", json={"options": {"base_url": elsewhere.url}})
    assert changed.status_code == 200, changed.text
    assert "confirmed" not in changed.text
    assert (await add(writer, f"{elsewhere.url}/steal")).status_code == 201
    assert "confirmed" not in str((await admin.get("/export")).json()["providers"][0]["options"])
    found = await destination(owner)
    assert (found["origins"], found["stored"]) == ([upstream.url], False)
    for slot in ("key", "default"):
        stored = await put(owner, slot=slot)
        assert (stored.status_code, stored.json()["allowed_origins"]) == (201, [upstream.url])
    for _ in range(2):
        await owner.post("/tools/pets.mine/call", json={})
        await owner.post("/tools/pets.listPets/call", json={})
        assert (await owner.post("/providers/pets/refresh")).status_code == 200
        await approver.post("/providers/pets/approve")
    assert CANARY.encode() not in texts(elsewhere)


async def test_an_owners_base_url_counts_from_then_on(admin, writer, owner, upstream, elsewhere):
    await registered(admin, upstream)
    await writer.patch("/providers/pets", json={"options": {"base_url": f"{elsewhere.url}/v1"}})
    await writer.patch("/providers/pets", json={"options": {"base_url": f"{elsewhere.url}/v2"}})
    await owner.patch("/providers/pets", json={"options": {"direct": False}})
    assert (await destination(owner))["origins"] == [upstream.url]
    await owner.patch("/providers/pets", json={"options": {"base_url": elsewhere.url}})
    found = await destination(owner)
    assert (found["origins"], found["registered"]) == ([upstream.url, elsewhere.url], [upstream.url])
    stored = await put(owner)
    assert stored.json()["allowed_origins"] == [upstream.url, elsewhere.url]
    # The path is no destination.
    same = await writer.patch("/providers/pets", json={"options": {"base_url": f"{elsewhere.url}/v3"}})
    assert same.status_code == 200
    denied(await writer.patch("/providers/pets", json={"options": {"base_url": None}}), "/options/base_url")


async def test_a_foreign_tool_is_no_default_of_a_provider_without_a_source(
    owner, admin, writer, upstream, elsewhere
):
    assert (await add(owner, f"{upstream.url}/a", name="a")).status_code == 201
    assert (await add(writer, f"{elsewhere.url}/b", name="b")).status_code == 201
    assert (await destination(owner, "default"))["origins"] == [upstream.url]
    # Not even where it is the only one.
    assert (await writer.delete("/tools/pets.a")).status_code == 204
    assert (await destination(owner, "default"))["origins"] == []
    rejected = await put(owner, slot="default")
    assert rejected.status_code == 422, rejected.text
    assert rejected.json()["errors"][0]["pointer"] == "/allowed_origins"
    # An owner's tool at that origin confirms it.
    assert (await add(owner, f"{elsewhere.url}/c", name="c")).status_code == 201
    assert (await put(owner, slot="default")).json()["allowed_origins"] == [elsewhere.url]


async def test_a_new_operation_at_a_foreign_tools_origin_waits_for_approval(
    admin, writer, upstream, elsewhere
):
    upstream.pages["/utcp"] = manual(tool("near", f"{upstream.url}/n"))
    await admin.post("/providers", json={"name": "pets", "source": {"url": f"{upstream.url}/utcp"}})
    await add(writer, f"{elsewhere.url}/b")
    upstream.pages["/utcp"] = manual(tool("near", f"{upstream.url}/n"), tool("far", f"{elsewhere.url}/f"))
    refreshed = await writer.post("/providers/pets/refresh")
    assert refreshed.json()["difference"]["pending_approval"] == ["far"]
    denied_ = await writer.post("/providers/pets/approve")
    assert denied_.status_code == 403
    assert (await admin.post("/providers/pets/approve")).status_code == 200


async def test_a_provider_with_secrets_is_deleted_by_those_who_may_delete_them(
    admin, writer, owner, upstream
):
    """Otherwise the next rotation would go to another client that registers the name again."""
    await registered(admin, upstream)
    await put(owner)
    denied(await writer.delete("/providers/pets"))
    assert (await owner.delete("/providers/pets/credentials/key")).status_code == 204
    await owner.put("/providers/pets/variables/MINE", json={"value": CANARY})
    denied(await writer.delete("/providers/pets"))
    await owner.delete("/providers/pets/variables/MINE")
    assert (await writer.delete("/providers/pets")).status_code == 204


async def test_a_variable_in_an_address_moves_no_credential(owner, writer, admin, upstream, elsewhere):
    for variable in ("/variables/HOST", "/providers/pets/variables/HOST"):
        assert (await writer.put(variable, json={"value": "x", "secret": False})).status_code == 403
        assert (await writer.delete(variable)).status_code == 403
    await owner.put("/variables/HOST", json={"value": upstream.url, "secret": False})
    assert (await add(owner, "${HOST}/a", name="a")).status_code == 201
    assert (await put(owner, slot="default", name="X-Key")).json()["allowed_origins"] == [upstream.url]
    assert (await owner.post("/tools/pets.a/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == CANARY
    await owner.put("/variables/HOST", json={"value": elsewhere.url, "secret": False})
    assert (await owner.post("/tools/pets.a/call", json={})).status_code == 403
    assert elsewhere.seen == []


async def test_an_import_moves_nothing_that_is_there(admin, writer, owner, upstream, elsewhere):
    await registered(admin, upstream)
    await put(owner)
    export = (await admin.get("/export")).json()
    export["providers"][0] |= {"url": elsewhere.url, "options": {"base_url": elsewhere.url}}
    back = await writer.post("/import", json=export)
    assert [one["status"] for one in back.json()["entries"]] == [409]
    again = await writer.post("/providers?name=pets", json=openapi(elsewhere.url))
    assert again.status_code == 409
    assert (await put(owner, ROTATED)).json()["allowed_origins"] == [upstream.url]


@pytest.mark.parametrize("from_the_start", [True, False])
async def test_an_export_confirms_no_base_url(admin, writer, owner, upstream, elsewhere, from_the_start):
    if from_the_start:
        upstream.pages["/openapi.json"] = openapi(upstream.url)
        source = {"url": f"{upstream.url}/openapi.json"}
        body = {"name": "pets", "source": source, "options": {"base_url": f"{upstream.url}/v1"}}
        assert (await owner.post("/providers", json=body)).status_code == 201
    else:
        await registered(admin, upstream)
    moved = await writer.patch("/providers/pets", json={"options": {"base_url": elsewhere.url}})
    assert moved.status_code == 200, moved.text
    export = (await admin.get("/export")).json()
    options = export["providers"][0]["options"]
    assert options.get("base_url") == (f"{upstream.url}/v1" if from_the_start else None)
    assert (await writer.delete("/providers/pets")).status_code == 204
    back = await owner.post("/import", json=export)
    assert [one["status"] for one in back.json()["entries"]] == [201], back.text
    assert (await destination(owner))["origins"] == [upstream.url]
    assert (await put(owner)).json()["allowed_origins"] == [upstream.url]
    await owner.post("/tools/pets.listPets/call", json={})
    assert elsewhere.seen == []


async def test_an_export_confirms_no_foreign_tool(owner, admin, writer, upstream, elsewhere):
    assert (await add(owner, f"{upstream.url}/a", name="a")).status_code == 201
    assert (await add(writer, f"{elsewhere.url}/b", name="b")).status_code == 201
    export = (await admin.get("/export")).json()
    assert export["providers"][0]["unconfirmed_origins"] == [elsewhere.url]
    assert (await writer.delete("/providers/pets")).status_code == 204
    back = await owner.post("/import", json=export)
    assert [one["status"] for one in back.json()["entries"]] == [201], back.text
    assert (await admin.get("/export")).json()["providers"][0]["unconfirmed_origins"] == [elsewhere.url]
    assert (await destination(owner, "default"))["origins"] == [upstream.url]
    # Both tools are there.
    for name in ("a", "b"):
        called = await owner.post(f"/tools/pets.{name}/call", json={})
        assert called.status_code == 200, called.text
    again = await owner.post("/import", json=export)
    assert [one["outcome"] for one in again.json()["entries"]] == ["unchanged"]
    confirmed = {**export["providers"][0], "unconfirmed_origins": []}
    other = await owner.post("/import", json={**export, "providers": [confirmed]})
    assert [one["status"] for one in other.json()["entries"]] == [409]


@contextlib.asynccontextmanager
async def asking_for_certificates(authority, server):
    """An upstream by TLS that asks for a certificate and notes whose it got."""
    seen = []

    async def respond(request):
        found = request.transport.get_extra_info("peercert")
        seen.append(bool(found))
        return web.json_response({})

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority[0])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(*server)
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", respond)
    async with web_server(application, tls=context) as url:
        yield url, seen


async def test_a_client_certificate_is_not_presented_to_a_foreign_tools_origin(
    owner, admin, writer, tmp_path
):
    authority = certificate("127.0.0.9")
    mine = certificate("127.0.0.1", issuer=authority)
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    for file, text in zip(files, mine[:2], strict=True):
        await asyncio.to_thread(file.write_text, text)
    async with (
        asking_for_certificates(authority, files) as (near, at_home),
        asking_for_certificates(authority, files) as (far, abroad),
    ):
        assert (await add(owner, f"{near}/a", name="a")).status_code == 201
        assert (await add(writer, f"{far}/b", name="b")).status_code == 201
        options = {"ca_bundle": authority[0], "client_certificate": mine[0], "client_key": mine[1]}
        changed = await owner.patch("/providers/pets", json={"options": options})
        assert changed.status_code == 200, changed.text
        assert (await add(writer, f"{far}/c", name="c")).status_code == 201
        for name in ("a", "b", "c"):
            called = await owner.post(f"/tools/pets.{name}/call", json={})
            assert called.status_code == 200, called.text
        assert (at_home, abroad) == ([True], [False, False])


async def test_a_client_certificate_meets_mutual_tls_together_with_a_key(owner, tmp_path):
    authority = certificate("127.0.0.9")
    mine = certificate("127.0.0.1", issuer=authority)
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")
    for file, text in zip(files, mine[:2], strict=True):
        await asyncio.to_thread(file.write_text, text)
    async with asking_for_certificates(authority, files) as (url, presented):
        document = openapi(url)
        document["components"]["securitySchemes"]["tls"] = {"type": "mutualTLS"}
        document["security"] = [{"tls": [], "key": []}]
        body = {
            "name": "bank",
            "source": {"document": document},
            "credentials": {"key": {"kind": "api_key", "value": "v"}},
        }
        made = await owner.post("/providers", json={**body, "options": {"ca_bundle": authority[0]}})
        assert made.status_code == 201, made.text
        [slot] = [slot for slot in made.json()["slots"] if slot["slot"] == "tls"]
        assert (slot["kind"], slot["exact_kind"], slot["stored"]) == ("unsupported", "mutual_tls", False)
        refused = await owner.put("/providers/bank/credentials/tls", json={"kind": "bearer", "token": "t"})
        assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/kind")
        missing = await owner.post("/tools/bank.listPets/call", json={})
        assert (missing.status_code, presented) == (424, [])
        options = {"ca_bundle": authority[0], "client_certificate": mine[0], "client_key": mine[1]}
        changed = await owner.patch("/providers/bank", json={"options": options})
        assert [slot["stored"] for slot in changed.json()["slots"]] == [True, True]
        called = await owner.post("/tools/bank.listPets/call", json={})
        assert (called.status_code, presented) == (200, [True]), called.text
        checked = await owner.post("/providers/bank/check", json={})
        assert not any(one["status"] == "missing" for one in checked.json()["credentials"])
