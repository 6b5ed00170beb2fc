"""Changes in Chromium: filters, the live tail, and every width."""

import re

import pytest
from playwright.async_api import expect


@pytest.mark.parametrize("width", [360, 1440])
async def test_changes_are_accessible_at_every_width(console, small, width):
    with small.client() as client:
        made = client.post("/keys", json={"name": "before", "scopes": ["tools:read"]}).json()
        client.patch(f"/keys/{made['id']}", json={"name": "after"})
    changes = await console(small.gateway, "/console/changes", width=width)
    await expect(changes.page.locator("ins").first).to_be_visible()
    for color_scheme in ("light", "dark"):
        await changes.page.emulate_media(color_scheme=color_scheme)
        assert await changes.axe_violations() == []
    assert await changes.page.evaluate("document.documentElement.scrollWidth") <= width


async def test_filters_change_the_address_and_new_changes_come_by_themselves(console, small):
    changes = await console(small.gateway, "/console/changes")
    await changes.page.get_by_label("Object", exact=True).select_option("key")
    await changes.page.get_by_role("button", name="Filter").click()
    await expect(changes.page).to_have_url(re.compile("object_type=key"))
    await changes.page.get_by_role("link", name="Follow").click()
    await expect(changes.page.locator("live-tail [role=status]")).to_have_text("Following new changes")
    with small.client() as client:
        client.post("/keys", json={"name": "seen at once", "scopes": ["tools:read"]})
    await expect(changes.page.get_by_role("link", name="seen at once")).to_be_visible()
