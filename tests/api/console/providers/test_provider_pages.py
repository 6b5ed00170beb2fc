"""The pages of providers: list, health, refresh, credentials, variables, settings, deletion."""

import re
from html import unescape

import pytest

from tests.api.console.providers.provider_pages import form_of, submit, text_of
from tests.api.providers.documents import openapi

SECRET = "canary-1b9e44d07c"
PETS = "/console/providers/pets"


@pytest.fixture
async def pets(admin, upstream):
    """A provider with two tools and one slot, `key`."""
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
    body = {"name": "pets", "url": f"{upstream.url}/openapi.json"}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    return made.json()


@pytest.mark.usefixtures("pets")
async def test_the_list_has_state_tools_and_filters(admin):
    page = await admin.get("/console/providers")
    assert page.status_code == 200
    assert "pets Pets Not used yet http 2 0" in text_of(page).replace("Tools ", "")
    none = await admin.get("/console/providers?q=nothing-like-it")
    assert "No provider matches" in text_of(none)
    paused = await admin.get("/console/providers?state=paused", headers={"X-Fragment": "results"})
    assert "<html" not in paused.text
    assert "No provider matches" in text_of(paused)


async def test_an_empty_list_says_the_next_step(admin):
    page = await admin.get("/console/providers")
    assert "No providers yet" in text_of(page)
    assert 'href="/console/add"' in page.text


@pytest.mark.usefixtures("pets")
async def test_a_provider_is_paused_and_resumed(admin):
    paused = await submit(admin, f"{PETS}/pause", {})
    assert paused.status_code == 303
    page = await admin.get(PETS)
    assert "This provider is paused" in text_of(page)
    assert (await admin.get("/providers/pets")).json()["enabled"] is False
    assert (await submit(admin, f"{PETS}/resume", {})).status_code == 303
    assert (await admin.get("/providers/pets")).json()["enabled"] is True


@pytest.mark.usefixtures("pets")
async def test_a_refresh_shows_its_difference_before_it_changes_anything(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/c"))
    started = await submit(admin, f"{PETS}/refresh/preview", {})
    assert started.status_code == 303
    page = await admin.get(started.headers["location"])
    assert "Added 1 Changed 0 Removed 1 Unchanged 1" in text_of(page)
    assert "GET /c" in text_of(page)
    assert (await admin.get("/tools/pets.listB")).status_code == 200
    again = await admin.get(started.headers["location"])
    assert text_of(again) == text_of(page)
    done = await submit(admin, f"{PETS}/refresh", form_of(page, f"{PETS}/refresh"))
    assert done.status_code == 303
    assert (await admin.get("/tools/pets.listB")).status_code == 404
    assert (await admin.get("/tools/pets.listC")).status_code == 200


@pytest.mark.usefixtures("pets")
async def test_the_address_of_a_difference_that_is_gone_offers_another_one(admin):
    page = await admin.get(f"{PETS}/refresh?import=019a0000-0000-7000-8000-000000000003")
    assert page.status_code == 200
    assert form_of(page, f"{PETS}/refresh/preview") == {}


@pytest.mark.usefixtures("pets")
async def test_changes_of_origins_wait_on_the_page_until_another_key_approves_them(
    admin, upstream, gateway_app
):
    upstream.pages["/openapi.json"] = openapi("https://elsewhere.example.com", paths=("/a", "/b"))
    await submit(admin, f"{PETS}/refresh", {})
    page = await admin.get(PETS)
    assert "Changes to approve" in text_of(page)
    assert "Another key has to approve them" in text_of(page)
    assert f'action="{PETS}/approve"' not in page.text
    version = str((await admin.get("/providers/pets")).json()["version"])
    own = await submit(admin, f"{PETS}/approve", {"version": version})
    assert own.status_code == 403
    approver = await gateway_app.client("credentials:write", "providers:read")
    form = form_of(await approver.get(PETS), f"{PETS}/approve")
    assert (await submit(approver, f"{PETS}/approve", {"version": "999"})).status_code == 412
    assert (await submit(approver, f"{PETS}/approve", form)).status_code == 303
    assert (await admin.get("/providers/pets")).json()["pending"] is None


@pytest.mark.usefixtures("pets")
async def test_a_check_shows_origins_and_credentials(admin):
    await admin.put("/providers/pets/credentials/key", json={"kind": "api_key", "value": SECRET})
    page = await submit(admin, f"{PETS}/check", {"probe": "1"})
    assert page.status_code == 200, page.text
    assert "key accepted pets.listA" in text_of(page)
    assert SECRET not in page.text


@pytest.mark.usefixtures("pets")
async def test_a_provider_is_deleted_only_with_its_name(admin):
    page = await admin.get(f"{PETS}/delete")
    wrong = await submit(admin, f"{PETS}/delete", {**form_of(page, f"{PETS}/delete"), "name": "pet"})
    assert wrong.status_code == 422
    assert "not the name of the provider" in text_of(wrong)
    assert (await admin.get("/providers/pets")).status_code == 200
    gone = await submit(admin, f"{PETS}/delete", {"name": "pets"})
    assert gone.status_code == 303
    assert (await admin.get("/providers/pets")).status_code == 404


@pytest.mark.usefixtures("pets")
async def test_a_credential_is_stored_replaced_and_deleted(admin, upstream):
    path = f"{PETS}/credentials/key"
    page = await admin.get(path)
    form = form_of(page, path)
    empty = await submit(admin, path, form)
    assert empty.status_code == 422
    stored = await submit(admin, path, {**form, "/key/value": SECRET})
    assert stored.status_code == 303, stored.text
    listed = await admin.get(stored.headers["location"])
    fingerprint = (await admin.get("/providers/pets")).json()["credentials"][0]["fingerprint"]
    assert fingerprint in text_of(listed)
    for shown in (await admin.get(path), listed, await admin.get(PETS)):
        assert SECRET not in shown.text
    assert (
        await submit(admin, path, {**form_of(await admin.get(path), path), "/key/value": "another-one"})
    ).status_code == 303
    assert (await admin.get("/providers/pets")).json()["credentials"][0]["version"] == 2
    assert (await submit(admin, f"{path}/delete", {})).status_code == 303
    assert (await admin.get("/providers/pets")).json()["credentials"] == []


@pytest.mark.usefixtures("pets")
async def test_a_rejected_credential_comes_back_without_its_secret(admin):
    path = f"{PETS}/credentials/key"
    form = {**form_of(await admin.get(path), path), "/key/value": SECRET + "\x01", "/key/name": "X-Mine"}
    rejected = await submit(admin, path, form)
    assert rejected.status_code == 422
    assert SECRET not in rejected.text
    assert form_of(rejected, path)["/key/name"] == "X-Mine"


@pytest.mark.parametrize(
    ("kind", "secrets"),
    [
        ("bearer", {"token": SECRET}),
        ("basic", {"username": "me", "password": SECRET}),
        ("hmac", {"secret": SECRET}),
        (
            "aws_sigv4",
            {"access_key_id": "AKIA", "secret_access_key": SECRET, "region": "eu-central-1", "service": "s3"},
        ),
        ("oauth2", {"client_id": "me", "client_secret": SECRET}),
    ],
)
async def test_each_kind_of_credential_has_a_form_from_the_api(admin, upstream, kind, secrets):
    document = openapi(upstream.url, paths=("/a",))
    # Without security, the slot `default` takes any kind.
    del document["security"], document["components"]
    await admin.post("/providers", json={"name": "pets", "source": {"document": document}})
    body = {"kind": kind, "allowed_origins": [upstream.url], **secrets}
    if kind == "oauth2":
        body["token_url"] = f"{upstream.url}/token"
    first = await admin.put("/providers/pets/credentials/default", json=body)
    assert first.status_code == 201, first.text
    path = f"{PETS}/credentials/default"
    form = form_of(await admin.get(path), path)
    given = {f"/default/{name}": value for name, value in secrets.items()}
    stored = await submit(admin, path, {**form, **given})
    assert stored.status_code == 303, text_of(stored)
    found = (await admin.get("/providers/pets")).json()["credentials"][0]
    assert (found["exact_kind"], found["version"], found["allowed_origins"]) == (kind, 2, [upstream.url])


async def test_the_kind_of_a_credential_is_chosen_where_the_source_does_not_say_it(admin, upstream):
    document = openapi(upstream.url, paths=("/a",))
    del document["security"], document["components"]
    await admin.post("/providers", json={"name": "pets", "source": {"document": document}})
    path = f"{PETS}/credentials/default"
    page = await admin.get(path)
    choice = re.search(r'<option value="([^"]*)"[^>]*>[^<]*Bearer', page.text)[1]
    chosen = await submit(admin, path, {"branch:/default": unescape(choice), "update:/default": "1"})
    assert chosen.status_code == 200, text_of(chosen)
    form = {**form_of(chosen, path), "/default/token": SECRET}
    more = await submit(admin, path, {**form, "add:/default/allowed_origins": "1"})
    assert "/default/allowed_origins/0" in more.text
    assert SECRET not in more.text
    form = {**form_of(more, path), "/default/token": SECRET, "/default/allowed_origins/0": upstream.url}
    stored = await submit(admin, path, form)
    assert stored.status_code == 303, text_of(stored)
    assert (await admin.get("/providers/pets")).json()["credentials"][0]["exact_kind"] == "bearer"


@pytest.mark.usefixtures("pets")
async def test_variables_are_set_and_deleted_and_secret_ones_are_not_shown(admin):
    path = f"{PETS}/variables"
    form = form_of(await admin.get(path), path)
    assert (await submit(admin, path, {**form, "variable": "TOKEN", "value": SECRET})).status_code == 303
    plain = {"variable": "REGION", "value": "eu-west"}
    assert (await submit(admin, path, plain)).status_code == 303
    page = await admin.get(path)
    assert "TOKEN secret" in text_of(page).replace("Value ", "")
    assert "eu-west" in text_of(page)
    assert SECRET not in page.text
    assert (await submit(admin, path, {"variable": "a b", "value": "x"})).status_code == 422
    assert (await submit(admin, f"{path}/REGION/delete", {})).status_code == 303
    assert "eu-west" not in text_of(await admin.get(path))


@pytest.mark.usefixtures("pets")
async def test_settings_change_what_was_changed_and_remove_what_was_emptied(admin):
    path = f"{PETS}/settings"
    form = form_of(await admin.get(path), path)
    unchanged = await submit(admin, path, form)
    assert unchanged.status_code == 303
    assert (await admin.get("/providers/pets")).json()["version"] == 1
    saved = await submit(admin, path, {**form, "tags": "animals, zoo", "/limits/total": "12"})
    assert saved.status_code == 303, text_of(saved)
    stored = (await admin.get("/providers/pets")).json()
    assert (stored["tags"], stored["limits"]) == (["animals", "zoo"], {"total": 12})
    stale = await submit(admin, path, {**form, "/limits/total": "13"})
    assert stale.status_code == 412
    wrong = await submit(admin, path, {**form_of(stale, path), "/limits/total": "-1"})
    assert wrong.status_code == 422
    emptied = await submit(admin, path, {**form_of(await admin.get(path), path), "/limits/total": ""})
    assert emptied.status_code == 303
    assert (await admin.get("/providers/pets")).json()["limits"] == {}


@pytest.mark.usefixtures("pets")
async def test_secret_options_are_stored_and_never_shown(admin):
    path = f"{PETS}/settings"
    form = form_of(await admin.get(path), path)
    proxy = f"http://user:{SECRET}@127.0.0.1:3128"
    saved = await submit(admin, path, {**form, "/options/proxy_url": proxy})
    assert saved.status_code == 303, text_of(saved)
    page = await admin.get(path)
    assert SECRET not in page.text
    kept = await submit(admin, path, {**form_of(page, path), "tags": "kept"})
    assert kept.status_code == 303
    failed = await submit(admin, path, {**form, "/options/proxy_url": proxy})
    assert failed.status_code == 412
    assert SECRET not in failed.text


@pytest.mark.usefixtures("pets")
async def test_downloads_have_no_secrets(admin):
    await admin.put("/providers/pets/credentials/key", json={"kind": "api_key", "value": SECRET})
    for path in ("/console/export", f"{PETS}/manual"):
        file = await admin.get(path)
        assert file.status_code == 200
        assert file.headers["content-disposition"].startswith("attachment")
        assert "pets" in file.text
        assert SECRET not in file.text


@pytest.mark.usefixtures("pets")
async def test_actions_are_shown_only_where_the_key_may_do_them(gateway_app):
    reader = await gateway_app.client("providers:read", "tools:read")
    page = await reader.get(PETS)
    assert page.status_code == 200
    for action in ("check", "refresh/preview", "pause", "approve"):
        assert f'action="{PETS}/{action}"' not in page.text
    assert f"{PETS}/settings" not in page.text
    credentials = await reader.get(f"{PETS}/credentials")
    assert f"{PETS}/credentials/key" not in credentials.text
    form = await reader.get(f"{PETS}/credentials/key")
    assert "credentials:write" in text_of(form)
    assert (await submit(reader, f"{PETS}/pause", {})).status_code == 403


@pytest.mark.usefixtures("pets")
async def test_a_provider_that_the_key_may_not_see_has_no_page(gateway_app):
    other = await gateway_app.client("providers:read", providers=("other",))
    assert (await other.get(PETS)).status_code == 404
    assert (await other.get(f"{PETS}/credentials")).status_code == 404
