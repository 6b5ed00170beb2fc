"""Settings and health in Chromium."""

import pytest
from playwright.async_api import expect


@pytest.mark.parametrize("width", [360, 1440])
async def test_settings_are_accessible_at_every_width(console, empty, width):
    settings = await console(empty, "/console/settings?which=all", width=width)
    await expect(settings.page.get_by_role("heading", name="Health", exact=True)).to_be_visible()
    for color_scheme in ("light", "dark"):
        await settings.page.emulate_media(color_scheme=color_scheme)
        assert await settings.axe_violations() == []
    assert await settings.page.evaluate("document.documentElement.scrollWidth") <= width


async def test_search_finds_settings_as_typed_and_the_bundle_is_downloaded(console, empty):
    settings = await console(empty, "/console/settings?which=all")
    await settings.page.get_by_label("Search", exact=True).fill("call_log_mode")
    await expect(settings.page.locator(".settings-table tbody tr")).to_have_count(1)
    async with settings.page.expect_download() as downloading:
        await settings.page.get_by_role("link", name="Support bundle").click()
    download = await downloading.value
    assert download.suggested_filename.startswith("utcp-gateway-support-")
