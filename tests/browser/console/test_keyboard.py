"""The ten main tasks with the keyboard only: no test here uses a pointer."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.console.population import Populated, populate, upstreams
from tests.harness.gateway import serve

pytestmark = pytest.mark.xdist_group("keyboard")
MAX_TABS = 250
_FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return ["", ""];
  const labels = [...(one.labels ?? [])].map((label) => label.innerText).join(" ");
  const by = (one.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.innerText ?? "").join(" ");
  const name = one.getAttribute("aria-label") || by.trim() || labels || one.innerText || one.value || one.title || "";
  const style = getComputedStyle(one);
  return [name.trim(), `${style.outlineStyle} ${style.outlineWidth}`];
}"""


@pytest.fixture(scope="module")
def changed(servers: Any, tmp_path_factory: Any) -> Iterator[Populated]:
    """A gateway of this module's own, which its tests change."""
    folder = tmp_path_factory.mktemp("keyboard")
    with upstreams(folder) as running, serve(servers, folder, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running, tools=0)


class Keyboard:
    """Somebody without a pointer."""

    def __init__(self, page: Page) -> None:
        self.page = page

    async def tab_to(self, name: str, *, within: str = "") -> None:
        """Press Tab until what has the focus has this name (a regular expression), and shows that it has it."""
        seen = []
        for _ in range(MAX_TABS):
            await self.page.wait_for_load_state()
            await self.page.keyboard.press("Tab")
            found, outline = await self.page.evaluate(_FOCUSED)
            seen.append(found[:40])
            if re.search(name, found) and (not within or await self._is_within(within)):
                assert not re.search(r"^none|\b0px$", outline), f"{found} shows no focus: {outline}"
                return
        pytest.fail(f"{name} is not reached by {MAX_TABS} presses of Tab: {list(dict.fromkeys(seen))}")

    async def _is_within(self, selector: str) -> bool:
        inside: bool = await self.page.evaluate(
            "(selector) => !!document.activeElement?.closest(selector)", selector
        )
        return inside

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            await self.page.keyboard.press(key)

    async def submit(self) -> None:
        """Press Enter, and wait for the page that it leads to."""
        async with self.page.expect_navigation():
            await self.press("Enter")

    async def enter(self, name: str, *, within: str = "") -> None:
        """Go to what has a name, press Enter, and wait for the page that it leads to."""
        await self.tab_to(name, within=within)
        await self.submit()

    async def type(self, text: str) -> None:
        """Replace what the field has by a text."""
        await self.press("Control+a")
        await self.page.keyboard.type(text)

    async def go(self, letter: str, heading: str) -> None:
        """Go to a page of the navigation by its shortcut."""
        await self.press("g")
        async with self.page.expect_navigation():
            await self.press(letter)
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(re.compile(heading))


@pytest.fixture
def at(changed: Populated, console: Any) -> Any:
    """Opens the console, signed in, and returns the keyboard."""

    async def open_at(path: str = "/console/calls", **options: Any) -> Keyboard:
        opened = await console(changed.gateway, path, **{"key": changed.keys["admin"], **options})
        return Keyboard(opened.page)

    return open_at


async def test_signs_in_and_out(at: Any, changed: Populated) -> None:
    user = await at("/console/calls", key="")
    await user.tab_to("API key")
    await user.type(changed.keys["auditor"])
    await user.submit()
    await expect(user.page.get_by_role("heading", level=1)).to_have_text("Calls")
    await user.enter("^Sign out$")
    await expect(user.page.get_by_label("API key")).to_be_visible()


async def test_finds_a_tool(at: Any) -> None:
    user = await at()
    await user.go("t", "^Tools")
    await user.press("/")
    await user.type("search books")
    await expect(user.page.get_by_role("link", name="library.searchBooks")).to_be_visible()
    # The checkbox before it has the same name.
    await user.enter(r"^library\.searchBooks", within="main a")
    await expect(user.page.get_by_role("heading", level=1)).to_contain_text("searchBooks")


async def test_finds_a_tool_by_the_palette(at: Any) -> None:
    user = await at()
    await user.press("Control+k")
    await user.page.keyboard.type("searchBooks")
    await expect(user.page.locator("#palette a[aria-current=true]")).to_contain_text("library.searchBooks")
    await user.press("Enter")
    await expect(user.page.get_by_role("heading", level=1)).to_contain_text("searchBooks")


async def test_calls_a_tool(at: Any) -> None:
    user = await at("/console/tools/library.searchBooks")
    await user.tab_to("^q", within="main form")
    await user.type("sea")
    await user.tab_to(r"^Call\b", within="main form")
    await user.press("Enter")
    await expect(user.page.locator("main")).to_contain_text("Twenty Thousand Leagues")


async def test_adds_an_api(at: Any, changed: Populated) -> None:
    user = await at()
    await user.go("p", "^Providers")
    await user.enter("^Add an API$")
    await user.tab_to("^URL of an OpenAPI document")
    await user.type(f"{changed.upstreams.url}/openapi.json")
    await user.submit()
    await expect(user.page.get_by_text("/openapi.json").first).to_be_visible()
    await user.enter(r"^Add\b", within="main form")
    await expect(user.page).to_have_url(re.compile("/console/(add/done|imports/)"))


async def test_refreshes_a_provider(at: Any) -> None:
    user = await at("/console/providers/library")
    await user.enter("^Refresh")
    await expect(user.page.locator("main")).to_contain_text(
        re.compile("unchanged|no change|nothing", re.IGNORECASE)
    )


async def test_creates_a_key(at: Any) -> None:
    user = await at()
    await user.go("k", "^Keys")
    await user.enter("^Create a key$|^New key$|^Create")
    await user.tab_to("^Name")
    await user.type("made by keyboard")
    await user.tab_to("^Agent")
    await user.press("Space")
    await user.enter("^Create", within="main form")
    await expect(user.page.locator("main")).to_contain_text("ugw_")


async def test_approves_a_call(at: Any, changed: Populated) -> None:
    user = await at()
    await user.go("a", "^Approvals")
    await user.tab_to(r"^Select custom\.needsApproval")
    await user.press("Space")
    await user.enter("^Approve", within="main")
    await expect(user.page.locator("main")).to_contain_text(re.compile("approved|decision", re.IGNORECASE))
    with changed.client() as client:
        states = [one["state"] for one in client.get("/approvals?kind=call").json()["items"]]
    assert [state for state in states if state != "pending"]


async def test_filters_calls(at: Any) -> None:
    user = await at()
    await user.tab_to("^Tool$")
    await user.type("library.searchBooks")
    await user.press("Enter")
    await expect(user.page).to_have_url(re.compile(r"tool=library\.searchBooks"))
    await expect(user.page.locator("#call-rows tr").filter(has_text="failing.")).to_have_count(0)
    await expect(user.page.locator("#call-rows tr").first).to_contain_text("library.searchBooks")


async def test_makes_a_toolset(at: Any, changed: Populated) -> None:
    user = await at()
    await user.go("s", "^Toolsets")
    await user.enter("^New toolset", within="main")
    await user.tab_to("^Name")
    await user.type("by-keyboard")
    await user.submit()
    await expect(user.page.locator("main")).to_contain_text("by-keyboard")
    with changed.client() as client:
        assert client.get("/toolsets/by-keyboard").status_code == 200


async def test_skip_link_leads_to_the_content(at: Any) -> None:
    user = await at()
    await user.press("Tab")
    assert (await user.page.evaluate(_FOCUSED))[0] == "Skip to content"
    await user.press("Enter")
    await user.press("Tab")
    assert await user._is_within("main")


async def test_menu_of_a_narrow_page(at: Any) -> None:
    user = await at(width=360)
    await user.tab_to("^Navigation$")
    await user.press("Enter")
    await user.enter("^Keys$")
    await expect(user.page.get_by_role("heading", level=1)).to_have_text(re.compile("Keys"))
