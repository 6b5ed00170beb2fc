"""Without script every page can be read, and its forms can be used."""

import pytest
from playwright.async_api import expect

from tests.browser.console.pages import GET_PATHS
from tests.browser.console.test_pages import DEVELOPMENT_PATHS, first_address

_FORMS = """() => [...document.querySelectorAll("main form")].filter((form) => form.checkVisibility()).map((form) => ({
  action: form.getAttribute("action") ?? "",
  buttons: [...form.elements].filter((one) => one.type === "submit" || one.type === "image").length,
  unnamed: [...form.elements].filter((one) => one.checkVisibility() && ["INPUT", "SELECT", "TEXTAREA"].includes(one.tagName)
    && !["submit", "hidden"].includes(one.type) && !one.name).map((one) => one.id || one.outerHTML.slice(0, 80)),
}))"""


@pytest.mark.parametrize("template", [path for path in GET_PATHS if path not in DEVELOPMENT_PATHS])
async def test_page_is_readable_and_its_forms_have_buttons(template, site, populated, console):
    address = first_address(site, template)
    opened = await console(populated.gateway, address, key=populated.keys["admin"], java_script_enabled=False)
    main = opened.page.locator("main")
    await expect(main.locator("h1").first).to_be_visible()
    assert len((await main.inner_text()).strip()) > 20
    # The page's own script is off; that of the test still runs.
    forms = await opened.page.evaluate(_FORMS)
    assert [form for form in forms if not form["buttons"] or form["unnamed"]] == []


async def test_filters_work(populated, console):
    opened = await console(
        populated.gateway, "/console/calls", key=populated.keys["admin"], java_script_enabled=False
    )
    page = opened.page
    await page.locator("form.filters input[name=tool]").first.fill("library.searchBooks")
    await page.locator("form.filters button").first.click()
    assert "tool=library.searchBooks" in page.url
    rows = page.locator("#call-rows tr")
    await expect(rows.first).to_contain_text("library.searchBooks")
    await expect(rows.filter(has_text="failing.")).to_have_count(0)


async def test_search_form_of_tools_works(populated, console):
    opened = await console(
        populated.gateway, "/console/tools", key=populated.keys["admin"], java_script_enabled=False
    )
    page = opened.page
    field = page.locator("main input[type=search]").first
    await field.fill("search books")
    await field.press("Enter")
    await expect(page.get_by_role("link", name="library.searchBooks").first).to_be_visible()


async def test_menu_of_a_narrow_page_opens(populated, console):
    opened = await console(
        populated.gateway,
        "/console/calls",
        key=populated.keys["admin"],
        java_script_enabled=False,
        width=360,
    )
    await opened.page.locator(".menu-button").click()
    await expect(opened.page.get_by_role("link", name="Keys")).to_be_visible()


async def test_language_is_changed(populated, console):
    opened = await console(
        populated.gateway, "/console/calls", key=populated.keys["admin"], java_script_enabled=False
    )
    await opened.page.get_by_role("button", name="Deutsch").click()
    assert opened.page.url.endswith("/console/calls")
    assert await opened.page.locator("html").get_attribute("lang") == "de"


async def test_signs_in_and_out(populated, console):
    opened = await console(populated.gateway, "/console/calls", key="", java_script_enabled=False)
    page = opened.page
    await page.get_by_label("API key").fill(populated.keys["auditor"])
    await page.get_by_label("API key").press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Calls")
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    await page.goto(f"{populated.gateway.url}/console/calls")
    await expect(page.get_by_label("API key")).to_be_visible()
