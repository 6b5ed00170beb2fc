"""Adding an API by the pages of the console: source, preview, credentials, tools to try."""

import json

import pytest
from aiohttp import web

from tests.api.console.providers.provider_pages import form_of, submit, text_of
from tests.api.providers.documents import manual, openapi, tool

ADD = "/console/add"
STORE = "/console/add/provider"
SECRET = "canary-7f3a9c2e5b"


async def providers_of(client):
    return [one["name"] for one in (await client.get("/providers")).json()["items"]]


async def previewed(client, url, **fields):
    sent = await submit(client, ADD, {"source": "url", "url": url, **fields})
    assert sent.status_code == 303, sent.text
    page = await client.get(sent.headers["location"])
    assert page.status_code == 200, page.text
    return page


async def test_a_url_becomes_tools_in_three_steps_and_nothing_is_stored_before(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
    page = await previewed(admin, f"{upstream.url}/openapi.json")
    assert upstream.url in text_of(page)
    assert "listA" in text_of(page)
    assert await providers_of(admin) == []
    form = form_of(page, STORE)
    assert form["name"] == "pets"
    added = await submit(admin, STORE, form)
    assert (added.status_code, added.headers["location"]) == (303, f"{ADD}/done?provider=pets")
    done = await admin.get(added.headers["location"])
    assert "pets.listA" in text_of(done)
    assert 'href="/console/tools/pets.listA"' in done.text
    assert await providers_of(admin) == ["pets"]


async def test_where_a_redirect_leads_is_shown_and_confirmed_for_credentials(admin, upstream):
    other = upstream.url.replace("127.0.0.1", "localhost")
    upstream.pages["/openapi.json"] = openapi(other)

    async def moved():
        return web.Response(status=301, headers={"Location": f"{other}/openapi.json"})

    upstream.pages["/start"] = moved
    page = await previewed(admin, f"{upstream.url}/start")
    assert f"The source redirects to {other}/openapi.json" in text_of(page)
    form = form_of(page, STORE)
    assert "redirect_origin" not in form
    assert f'name="redirect_origin" value="{other}"' in page.text
    assert f"Send them to {other}, too" in text_of(page)
    again = await submit(admin, STORE, {**form, "redirect_origin": other, "name": "pets/"})
    assert form_of(again, STORE)["redirect_origin"] == other
    assert f"--redirect-origin {other}" in text_of(again)
    added = await submit(admin, STORE, {**form, "redirect_origin": other})
    assert added.status_code == 303, added.text
    assert (await admin.get("/providers/pets")).json()["options"] == {"redirect_origin": other}
    page = await submit(admin, "/console/providers/pets/refresh/preview", {})
    page = await admin.get(page.headers["location"])
    assert f"The source redirects to {other}/openapi.json" in text_of(page)


async def test_a_preview_at_its_url_survives_a_reload(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    page = await previewed(admin, f"{upstream.url}/openapi.json", name="mine")
    again = await admin.get(str(page.url))
    assert form_of(again, STORE)["name"] == "mine"


async def test_a_link_of_another_site_reads_no_source(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    page = await admin.get(ADD, params={"url": f"{upstream.url}/openapi.json"})
    assert page.status_code == 200
    assert upstream.seen == []
    # The form has the address, and reads it.
    again = await submit(admin, ADD, form_of(page, ADD))
    assert again.status_code == 303
    assert [one[1] for one in upstream.seen] == ["/openapi.json"]


@pytest.mark.parametrize(
    "fields",
    [
        {"url": f"https://user:{SECRET}@[example.com/openapi.json"},
        {"source": "grpc", "url": f"user:{SECRET}@example.com:443"},
        {"url": "http://127.0.0.1:9/openapi.json", "base_url": f"http://user:{SECRET}@127.0.0.1/"},
    ],
)
async def test_secrets_in_odd_addresses_are_in_no_url(admin, fields):
    page = await submit(admin, ADD, {"source": "url", **fields})
    assert page.status_code != 303
    assert SECRET not in page.text


async def test_an_uploaded_document_stays_in_the_form_sealed(admin, upstream):
    document = openapi(upstream.url)
    document["info"]["description"] = SECRET
    files = {"file": ("pets.json", json.dumps(document), "application/json")}
    page = await submit(admin, ADD, {"source": "file"}, files)
    assert page.status_code == 200, page.text
    form = form_of(page, STORE)
    assert "listPets" in page.text
    assert SECRET not in page.text
    assert await providers_of(admin) == []
    added = await submit(admin, STORE, form)
    assert added.status_code == 303, added.text
    assert (await admin.get("/providers/pets")).json()["description"] == SECRET


async def test_the_document_of_another_key_is_rejected(admin, upstream, gateway_app):
    files = {"file": ("pets.json", json.dumps(openapi(upstream.url)), "application/json")}
    form = form_of(await submit(admin, ADD, {"source": "file"}, files), STORE)
    other = await gateway_app.client("providers:write", "providers:read")
    stolen = await submit(other, STORE, form)
    assert stolen.status_code == 422
    assert "cannot be read any more" in text_of(stolen)
    assert await providers_of(admin) == []


async def test_a_document_without_server_is_corrected_without_choosing_it_again(admin, upstream):
    document = openapi(upstream.url)
    del document["servers"]
    files = {"file": ("pets.json", json.dumps(document), "application/json")}
    failed = await submit(admin, ADD, {"source": "file"}, files)
    assert failed.status_code == 422
    assert "/options/base_url" in failed.text
    form = form_of(failed, ADD)
    page = await submit(admin, ADD, {**form, "base_url": upstream.url})
    assert page.status_code == 200, page.text
    assert upstream.url in text_of(page)
    added = await submit(admin, STORE, form_of(page, STORE))
    assert added.status_code == 303, added.text


async def test_another_server_of_an_uploaded_document_is_previewed_and_registered(admin, upstream):
    document = openapi("https://first.example.com")
    document["servers"].append({"url": upstream.url, "description": "Staging"})
    files = {"file": ("pets.json", json.dumps(document), "application/json")}
    page = await submit(admin, ADD, {"source": "file"}, files)
    assert "Calls go to https://first.example.com" in text_of(page)
    again = await submit(admin, ADD, {**form_of(page, STORE), "server": "1"})
    assert f"Calls go to {upstream.url}" in text_of(again)
    added = await submit(admin, STORE, form_of(again, STORE))
    assert added.status_code == 303, added.text
    assert (await admin.get("/providers/pets")).json()["origins"] == [upstream.url]


async def test_errors_of_a_document_are_shown_with_their_place(admin, upstream):
    broken = "openapi: 3.0.3\ninfo:\n  title: Pets\n  paths: [\n"
    page = await submit(admin, ADD, {"source": "paste", "text": broken})
    assert page.status_code in (400, 422)
    assert "line 5" in text_of(page).lower()


async def test_a_taken_name_is_said_before_and_corrected_after(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    url = f"{upstream.url}/openapi.json"
    await admin.post("/providers", json={"name": "pets", "url": url})
    page = await previewed(admin, url)
    assert form_of(page, STORE)["name"] == "pets-2"
    named = await previewed(admin, url, name="pets")
    assert "There is a provider of this name already" in text_of(named)
    taken = await submit(admin, STORE, form_of(named, STORE))
    assert taken.status_code == 409
    added = await submit(admin, STORE, {**form_of(taken, STORE), "name": "other"})
    assert added.status_code == 303, added.text
    assert await providers_of(admin) == ["other", "pets"]


async def test_credentials_are_stored_and_never_part_of_a_page(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    page = await previewed(admin, f"{upstream.url}/openapi.json")
    form = {**form_of(page, STORE), "/key/value": SECRET}
    failed = await submit(admin, STORE, {**form, "name": "not a name"})
    assert failed.status_code == 422
    assert SECRET not in failed.text
    again = {**form_of(failed, STORE), "name": "pets"}
    assert again["/key/value"] == ""
    added = await submit(admin, STORE, {**again, "/key/value": SECRET})
    assert added.status_code == 303, added.text
    assert SECRET not in added.headers["location"]
    done = await admin.get(added.headers["location"])
    assert SECRET not in done.text
    assert (await admin.post("/tools/pets.listPets/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Key"] == SECRET


@pytest.mark.parametrize(
    "url", ["{origin}/openapi.json?api_key=" + SECRET, "http://user:" + SECRET + "@{host}/openapi.json"]
)
async def test_secrets_of_an_address_are_in_no_url_and_no_page(admin, upstream, url):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    given = url.format(origin=upstream.url, host=upstream.url.partition("://")[2])
    page = await submit(admin, ADD, {"source": "url", "url": given})
    assert page.status_code == 200, page.text
    assert SECRET not in page.text
    added = await submit(admin, STORE, form_of(page, STORE))
    assert added.status_code == 303, added.text
    assert SECRET not in added.headers["location"]


async def test_a_token_for_the_source_is_sent_to_it_and_kept_sealed(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    upstream.guard = lambda request: request.headers.get("Authorization") == f"Bearer {SECRET}"
    fields = {"source": "url", "url": f"{upstream.url}/openapi.json"}
    denied = await submit(admin, ADD, fields)
    assert (await admin.get(denied.headers["location"])).status_code >= 400
    page = await submit(admin, ADD, {**fields, "token": SECRET})
    assert page.status_code == 200, page.text
    assert SECRET not in page.text
    added = await submit(admin, STORE, form_of(page, STORE))
    assert added.status_code == 303, added.text


async def test_a_list_shows_the_result_of_each_entry(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    entries = [
        {"name": "one", "url": f"{upstream.url}/openapi.json"},
        {"name": "two", "url": f"{upstream.url}/missing"},
    ]
    page = await submit(admin, ADD, {"source": "paste", "text": json.dumps(entries)})
    assert page.status_code == 200, page.text
    added = await submit(admin, STORE, form_of(page, STORE))
    assert added.status_code == 303, added.text
    result = await admin.get(added.headers["location"])
    assert "Registered: 1. Unchanged: 0. Failed: 1." in text_of(result)


async def test_the_state_of_an_import_has_a_page(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    body = {"name": "pets", "url": f"{upstream.url}/openapi.json"}
    started = await admin.post("/providers", json=body, headers={"Prefer": "respond-async"})
    path = f"/console/imports/{started.json()['id']}"
    page = await admin.get(path)
    while 'data-state="running"' in page.text:
        assert "meta http-equiv" in page.text
        page = await admin.get(path)
    assert f"{ADD}/done?provider=pets" in page.text


async def test_tools_that_change_something_are_disabled_at_once(admin, upstream):
    document = openapi(upstream.url)
    document["paths"]["/pets"]["post"] = {
        "operationId": "addPet",
        "responses": {"200": {"description": "ok"}},
    }
    await admin.post("/providers", json={"name": "pets", "source": {"document": document}})
    answer = await submit(admin, f"{ADD}/read-only", {"provider": "pets"})
    assert answer.status_code == 303
    tools = {one["name"]: one["enabled"] for one in (await admin.get("/tools")).json()["items"]}
    assert tools == {"pets.addPet": False, "pets.listPets": True}


async def test_a_manual_is_pasted(admin, upstream):
    text = json.dumps(manual(tool("echo", f"{upstream.url}/echo")))
    page = await submit(admin, ADD, {"source": "paste", "text": text, "name": "echoes"})
    assert page.status_code == 200, page.text
    assert (await submit(admin, STORE, form_of(page, STORE))).status_code == 303
    assert (await admin.get("/tools/echoes.echo")).status_code == 200


async def test_a_tool_is_written_by_hand(admin, upstream):
    page = await admin.get("/console/add/tool")
    form = {**form_of(page, "/console/add/tool"), "provider": "shop", "name": "getOrder"}
    unclear = await submit(admin, "/console/add/tool", {**form, "inputs": "{"})
    assert unclear.status_code == 422
    assert "line 1" in text_of(unclear)
    inputs = '{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}'
    made = await submit(
        admin, "/console/add/tool", {**form, "inputs": inputs, "url": f"{upstream.url}/orders/{{id}}"}
    )
    assert (made.status_code, made.headers["location"].partition("?")[0]) == (
        303,
        "/console/tools/shop.getOrder",
    )
    assert (await admin.post("/tools/shop.getOrder/call", json={"id": "7"})).status_code == 200
    assert upstream.seen[-1][1] == "/orders/7"


async def test_a_rejected_call_template_comes_back_without_its_secrets(admin):
    page = await admin.get("/console/add/tool")
    template = {
        "call_template_type": "http",
        "url": "https://api.example.com/x",
        "headers": {"Authorization": SECRET, "X-Plain": "plain"},
        "auth": {"auth_type": "api_key", "api_key": SECRET, "var_name": "X-Key"},
    }
    form = {**form_of(page, "/console/add/tool"), "provider": "shop", "template": json.dumps(template)}
    for wrong in ({"name": "not a name"}, {"name": "x", "inputs": "{"}):
        again = await submit(admin, "/console/add/tool", {**form, **wrong})
        assert again.status_code == 422
        assert SECRET not in again.text
        assert "X-Plain" in again.text


async def test_a_key_that_may_not_add_providers_is_told_so(gateway_app):
    client = await gateway_app.client("providers:read", "tools:read")
    page = await client.get(ADD)
    assert "lacks the scope providers:write" in text_of(page)
    assert f'action="{ADD}"' not in page.text
    denied = await submit(client, ADD, {"source": "url", "url": "http://127.0.0.1:9/"})
    assert denied.status_code == 403


async def test_a_key_that_may_not_store_credentials_gets_no_fields_for_them(gateway_app, admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    client = await gateway_app.client("providers:read", "providers:write")
    page = await previewed(client, f"{upstream.url}/openapi.json")
    assert "/key/value" not in page.text
    assert "credentials:write" in text_of(page)
    assert (await submit(client, STORE, form_of(page, STORE))).status_code == 303
