"""API keys in Chromium: made by keyboard, shown once, and the form at every width."""

import re

import pytest
from playwright.async_api import expect

KEY_TEXT = re.compile(r"ugw_[A-Za-z0-9]{12}_[A-Za-z0-9]+")


async def test_key_is_made_by_keyboard_and_shown_once(console, small):
    keys = await console(small.gateway, "/console/keys")
    await keys.page.get_by_role("link", name="New key").focus()
    await keys.page.keyboard.press("Enter")
    await expect(keys.page.get_by_role("heading", level=1)).to_have_text("New key")
    await keys.page.get_by_label("Name (required)").focus()
    await keys.page.keyboard.type("typed agent")
    await keys.page.keyboard.press("Enter")

    await expect(keys.page.get_by_role("heading", level=1)).to_have_text("Key created: typed agent")
    text = await keys.page.locator(".key-text code").inner_text()
    assert KEY_TEXT.fullmatch(text)
    assert await keys.axe_violations() == []
    with small.gateway.client(text) as client:
        assert client.get("/me").json()["name"] == "typed agent"
    # The address is that of the key's page, so that a reload does not submit the form again.
    await keys.page.reload()
    await expect(keys.page.get_by_role("heading", level=1)).to_have_text("typed agent")
    assert text not in await keys.stored()
    await keys.page.go_back()
    assert text not in await keys.stored()
    with small.client() as client:
        assert client.get("/keys", params={"q": "typed agent"}).json()["total"] == 1


async def test_text_of_a_key_is_not_in_addresses_or_storage(console, small):
    keys = await console(small.gateway, "/console/keys/new?name=quiet")
    await keys.page.get_by_role("button", name="Create the key").click()
    text = await keys.page.locator(".key-text code").inner_text()
    assert text not in "\n".join(request.url for request in keys.observed.requests)
    state = await keys.page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, history.state, location.href, document.cookie])"
    )
    assert text not in state


async def test_chosen_role_shows_its_fields_without_script_of_ours(console, small):
    keys = await console(small.gateway, "/console/keys/new")
    scopes = keys.page.locator("input[name=scopes]").first
    await expect(scopes).to_be_hidden()
    await keys.page.get_by_text("Custom", exact=True).click()
    await expect(scopes).to_be_visible()
    await keys.page.get_by_label("The key expires").select_option("date")
    await expect(keys.page.get_by_label("Date of expiry")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1440])
async def test_form_with_every_part_open_is_accessible(console, small, width):
    path = "/console/keys/new?tool=library.searchBooks&role=custom&provider=library&tag=x&owner=me"
    keys = await console(small.gateway, path, width=width)
    await keys.page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    for color_scheme in ("light", "dark"):
        await keys.page.emulate_media(color_scheme=color_scheme)
        assert await keys.axe_violations() == []
    assert await keys.page.evaluate("document.documentElement.scrollWidth") <= width
    # With errors, too.
    await keys.page.get_by_label("Name (required)").fill("x")
    await keys.page.get_by_label("Calls", exact=True).fill("many")
    keys.observed.errors.clear()
    await keys.page.get_by_role("button", name="Create the key").click()
    await expect(keys.page.get_by_role("alert")).to_be_visible()
    assert await keys.axe_violations() == []
    # Chromium reports the status of a document that is an error.
    keys.observed.errors.clear()


async def test_search_is_loaded_as_typed_and_its_address_can_be_reloaded(console, small):
    keys = await console(small.gateway, "/console/keys")
    await keys.page.get_by_label("Search", exact=True).fill("auditor")
    await expect(keys.page.locator("tbody tr")).to_have_count(1)
    assert "q=auditor" in keys.page.url
    await keys.page.reload()
    await expect(keys.page.locator("tbody tr")).to_have_count(1)
    await keys.page.get_by_role("link", name="Revoked").click()
    await expect(keys.page.get_by_role("heading", name="No key matches")).to_be_visible()
