"""The list of tools by keyboard and mouse, a toolset from a selection, the search lab, and the palette."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, expect

from tests.browser.console.population import Populated, populate, upstreams
from tests.harness.gateway import serve
from tests.harness.servers import Pair


@pytest.fixture(scope="module")
def small(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    """A gateway with everything but the 10,000 tools, which the tests of this module change."""
    folder = tmp_path_factory.mktemp("tools-page")
    with upstreams(folder) as running, serve(servers, folder) as gateway:
        yield populate(gateway, running, tools=0)


@pytest.fixture
async def tools(small: Any, console: Any) -> Any:
    """The list of tools of a gateway that the test may change."""
    return await console(small.gateway, "/console/tools?provider=library", key=small.keys["admin"])


async def rows(page: Page) -> list[str]:
    """Return the names of the tools in the list."""
    return [str(name) for name in await page.locator("tbody th a").all_inner_texts()]


def enabled(small: Any) -> dict[str, bool]:
    with small.client() as client:
        found = client.get("/tools?provider=library").json()["items"]
    return {tool["name"]: tool["enabled"] for tool in found}


async def test_rows_are_selected_by_keyboard_alone_and_disabled(tools: Any, small: Any) -> None:
    page = tools.page
    names = await rows(page)
    await expect(page.get_by_role("button", name="Disable")).to_be_disabled()
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await page.keyboard.press("j")
    await page.keyboard.press("x")
    await expect(page.get_by_role("checkbox", name=names[1])).to_be_checked()
    await expect(page.locator("[data-selected]")).to_have_text("2 selected")
    button = page.get_by_role("button", name="Disable")
    await button.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("status").first).to_contain_text("Disabled 2 tools.")
    assert [name for name, is_on in enabled(small).items() if not is_on] == names[:2]
    # What was filtered by is still filtered by.
    await expect(page.get_by_label("Provider", exact=True)).to_have_value("library")
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("status").first).to_contain_text("Enabled 2 tools.")
    assert all(enabled(small).values())


async def test_all_rows_and_ranges_are_checked(tools: Any) -> None:
    page = tools.page
    count = len(await rows(page))
    everything = page.get_by_role("checkbox", name="Select all rows")
    await everything.check()
    await expect(page.locator("tbody input:checked")).to_have_count(count)
    await everything.uncheck()
    boxes = page.locator("tbody input[type=checkbox]")
    await boxes.nth(0).click()
    await boxes.nth(2).click(modifiers=["Shift"])
    await expect(page.locator("tbody input:checked")).to_have_count(3)
    await expect(everything).to_have_js_property("indeterminate", True)


async def test_chips_keep_the_search_and_the_search_keeps_the_chip(tools: Any) -> None:
    page = tools.page
    await page.get_by_role("link", name="Destructive").click()
    await expect(page.get_by_role("link", name="Destructive")).to_have_attribute("aria-current", "true")
    await page.get_by_label("Search").first.fill("book")
    await page.wait_for_url(re.compile("q=book"))
    query = parse_qs(urlsplit(page.url).query)
    assert query == {"q": ["book"], "provider": ["library"], "state": ["destructive"]}
    await page.go_back()
    await expect(page.get_by_role("link", name="All", exact=True)).to_have_attribute("aria-current", "true")


async def test_names_of_providers_are_suggested_when_the_field_is_entered(tools: Any) -> None:
    page = tools.page
    assert await page.locator("#provider-names option").count() == 0
    await page.get_by_label("Provider", exact=True).focus()
    await expect(page.locator("#provider-names option[value=library]")).to_be_attached()


async def test_toolset_of_a_selection_is_created(tools: Any, small: Any) -> None:
    page = tools.page
    await page.get_by_role("checkbox", name="library.searchBooks").check()
    await page.get_by_role("button", name="Add to toolset").click()
    await page.get_by_role("button", name="New toolset with these tools").click()
    await page.get_by_label("Name").fill("fresh")
    await page.get_by_role("button", name="Create").click()
    await expect(page.get_by_role("heading", name="fresh")).to_be_visible()
    await expect(page.get_by_text("Tokens of all definitions")).to_be_visible()
    assert await tools.axe_violations() == []
    await page.get_by_role("link", name="library_searchBooks").click()
    await page.get_by_label("limit").fill("5")
    await page.get_by_role("button", name="Save").click()
    with small.client() as client:
        definition = client.get("/toolsets/fresh").json()["definition"]
    assert definition["changes"] == {"library.searchBooks": {"presets": {"/limit": 5}}}


async def test_search_lab_explains_as_typed_and_pins(small: Any, console: Any) -> None:
    opened = await console(small.gateway, "/console/search", key=small.keys["admin"])
    page = opened.page
    before = len(opened.observed.requests)
    await page.keyboard.press("/")
    await page.keyboard.type("search books", delay=30)
    await expect(page.get_by_role("link", name="library.searchBooks")).to_be_visible()
    sent = [urlsplit(request.url) for request in opened.observed.requests[before:]]
    assert [parse_qs(one.query)["q"] for one in sent if one.path == "/console/search"] == [["search books"]]
    await page.locator(".hit summary").first.click()
    await expect(page.get_by_role("columnheader", name="Synonym of").first).to_be_visible()
    assert await opened.axe_violations() == []
    pinned = page.locator(".hit h2 a").nth(1)
    name = await pinned.inner_text()
    await page.get_by_role("button", name=f"Pin {name} to this search").click()
    await expect(page.locator(".hit h2 a").first).to_have_text(name)
    await expect(page.get_by_text("pinned: +200")).to_be_visible()


async def test_palette_goes_to_a_tool_by_keyboard_alone(small: Any, console: Any) -> None:
    opened = await console(small.gateway, "/console/tools", key=small.keys["admin"])
    page = opened.page
    await page.keyboard.press("Control+k")
    await expect(page.locator("#palette a").first).to_be_visible()
    assert await opened.axe_violations() == []
    await page.keyboard.type("library.getBook")
    first = page.locator("#palette a").first
    await expect(first).to_contain_text("library.getBook")
    await expect(first).to_have_attribute("aria-current", "true")
    await page.keyboard.press("Enter")
    await page.wait_for_url(re.compile("/console/tools/library.getBook"))
