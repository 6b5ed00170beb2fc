"""Every page, at every width, light and dark: accessible, without horizontal scrolling, within its budgets, and quiet."""

import re
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.async_api import Page

from tests.browser.console.pages import GET_PATHS, Site
from tests.browser.harness import BrowserPage

WIDTHS = {360: 320, 1440: 768}
"""Pages are loaded at these widths, and judged by axe, because there are two layouts; then the window gets another width.

320 pixels are 400 percent zoom of a window of 1280.
"""
LIST_PATHS = frozenset(path for path in GET_PATHS if "{" not in path)
DEVELOPMENT_PATHS = frozenset({"/console/design"})
"""Pages of a checkout in the embedded mode; elsewhere they are the page that says that there is no such page."""
MAX_NODES = 1_500
MAX_SHIFT = 0.02
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

OBSERVE_SHIFTS = """
globalThis.layoutShifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.layoutShifts.push({
    value: entry.value,
    nodes: entry.sources.map(({ node }) => (node?.outerHTML ?? node?.textContent ?? "").slice(0, 120)),
  });
}).observe({ type: "layout-shift", buffered: true });
"""
_OPEN_DETAILS = "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
_CLOSE_DETAILS = _OPEN_DETAILS.replace("true", "false")
_LAYERS = """() => [...document.querySelectorAll("dialog, [popover]")].map((one, at) => {
  one.dataset.testLayer = String(at);
  return [one.id || one.className || String(at), String(at)];
})"""
_OPEN_LAYER = """(at) => {
  const layer = document.querySelector(`[data-test-layer="${at}"]`);
  if (layer instanceof HTMLDialogElement) { if (!layer.open) layer.showModal(); return true; }
  // A popover that the layout shows anyway is judged with the page.
  if (getComputedStyle(layer).display !== "none") return false;
  layer.showPopover();
  return true;
}"""
_CLOSE_LAYER = """(at) => {
  const layer = document.querySelector(`[data-test-layer="${at}"]`);
  if (layer instanceof HTMLDialogElement) layer.close(); else layer.hidePopover();
}"""
_OVERFLOW = """() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  return [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > width + 1)
    .map((one) => `${one.tagName.toLowerCase()}.${one.className}`).slice(0, 8);
}"""


@pytest.fixture(scope="session")
def shots(repository_root: Path) -> Path:
    """The folder of the screenshots."""
    folder = repository_root / ".screenshots" / "console"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def first_address(site: Site, template: str) -> str:
    """Return the address of a page; the test is skipped where it is not a page."""
    if template in site.kinds:
        pytest.skip(f"it is {site.kinds[template]}")
    if template not in site.addresses and template in site.redirects:
        pytest.skip("it redirects")
    if template not in site.addresses:
        pytest.fail(f"no page has a link to {template}")
    return site.addresses[template][0]


def shot_name(template: str) -> str:
    """Return the name of a file for a page."""
    return re.sub(r"\W+", "-", template.removeprefix("/console")).strip("-") or "overview"


async def settle(page: Page) -> None:
    """Wait until what the page loads by script is there; streams stay open, so the network is never idle."""
    await page.wait_for_load_state("load")
    await page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")


class Findings:
    """What is wrong with a page, by where and how."""

    def __init__(self, opened: BrowserPage) -> None:
        self._opened = opened
        self.found: dict[str, Any] = {}

    def add(self, what: str, wrong: Any) -> None:
        """Add what is wrong, where it is not empty."""
        if wrong:
            self.found[what] = wrong

    async def add_overflow(self, what: str) -> None:
        """Add the elements that are wider than the page."""
        self.add(f"too wide: {what}", await self._opened.page.evaluate(_OVERFLOW))

    async def add_violations(self, what: str, *, in_dark: bool) -> None:
        """Add what axe finds in light colours, and in dark ones, where only contrast can differ."""
        for scheme, rules in (("light", ()), ("dark", ("color-contrast",)))[: 1 + in_dark]:
            await self._opened.page.emulate_media(color_scheme=scheme)
            self.add(f"axe: {what}, {scheme}", await self._opened.axe_violations(only=rules))


async def take_screenshots(page: Page, folder: Path, name: str, width: int) -> None:
    """Save what a page looks like: light, and where it is wide, dark."""
    for scheme in SCHEMES[: 1 + (width > 1000)]:
        await page.emulate_media(color_scheme=scheme)
        await page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("template", GET_PATHS)
async def test_page_is_accessible_fits_and_is_quiet(template, width, site, populated, console, shots):
    address = first_address(site, template)
    opened = await console(
        populated.gateway, address, key=populated.keys["admin"], width=width, scripts=[OBSERVE_SHIFTS]
    )
    page, findings = opened.page, Findings(opened)
    await settle(page)
    shifts = await page.evaluate("globalThis.layoutShifts")
    findings.add("layout shifts", shifts if sum(shift["value"] for shift in shifts) > MAX_SHIFT else None)
    if template in LIST_PATHS:
        nodes = await page.evaluate("document.querySelectorAll('*').length")
        findings.add("nodes", nodes if nodes > MAX_NODES else None)
    await take_screenshots(page, shots, shot_name(template), width)
    await findings.add_overflow(f"{width}")
    await page.evaluate(_OPEN_DETAILS)
    await findings.add_overflow(f"{width}, details open")
    await findings.add_violations(f"{width}, details open", in_dark=width > 1000)
    for name, at in await page.evaluate(_LAYERS):
        # The palette is empty until the keyboard opens it; a test of its own does that.
        if name != "palette" and await page.evaluate(_OPEN_LAYER, at):
            await findings.add_overflow(f"{width}, {name}")
            await findings.add_violations(f"{width}, {name}", in_dark=width > 1000)
            await page.evaluate(_CLOSE_LAYER, at)
    other = WIDTHS[width]
    await page.set_viewport_size({"width": other, "height": 900})
    await findings.add_overflow(f"{other}, details open")
    await page.evaluate(_CLOSE_DETAILS)
    await findings.add_overflow(f"{other}")
    if other != 320:
        await take_screenshots(page, shots, shot_name(template), other)
    assert findings.found == {}


@pytest.mark.parametrize("template", GET_PATHS)
async def test_other_states_are_accessible_and_fit(template, site, populated, console):
    first_address(site, template)
    others = site.addresses[template][1:4]
    if not others:
        pytest.skip("it has one state")
    found = {}
    for address in others:
        opened = await console(populated.gateway, address, key=populated.keys["admin"], width=360)
        await settle(opened.page)
        found[address] = [*await opened.page.evaluate(_OVERFLOW), *await opened.axe_violations()]
    assert {address: one for address, one in found.items() if one} == {}


@pytest.mark.parametrize("template", [path for path in GET_PATHS if "{" not in path])
async def test_page_of_an_empty_gateway_is_accessible_and_fits(template, empty_site, empty, console):
    address = first_address(empty_site, template)
    opened = await console(empty, address, width=360)
    await settle(opened.page)
    assert await opened.page.evaluate(_OVERFLOW) == []
    assert await opened.axe_violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_open_palette_is_accessible(scheme, populated, console):
    opened = await console(
        populated.gateway, "/console/tools", key=populated.keys["admin"], color_scheme=scheme
    )
    await opened.page.keyboard.press("Control+k")
    await opened.page.locator("#palette input").fill("sea")
    await opened.page.locator("#palette a").first.wait_for()
    assert await opened.axe_violations() == []


@pytest.mark.parametrize("template", GET_PATHS)
def test_page_was_reached_and_did_not_fail(template, site):
    first_address(site, template)
    expected = 404 if template in DEVELOPMENT_PATHS else 200
    # Without the query that a form adds, some pages have nothing to show.
    statuses = {address: site.statuses[address] for address in site.addresses[template][:1]}
    assert {address: status for address, status in statuses.items() if status != expected} == {}


def test_each_page_of_html_is_small(site):
    large = {
        address: len(html.encode()) for address, html in site.html.items() if len(html.encode()) > 60 * 1024
    }
    assert large == {}


def test_no_page_has_inline_script_or_style(site):
    found = {
        address: re.findall(
            r"<script(?![^>]*\bsrc=)[^>]*>|\son\w+=[\"'][^\"']*|\sstyle=[\"'][^\"']*|<style\b", html
        )[:5]
        for address, html in site.html.items()
    }
    assert {address: one for address, one in found.items() if one} == {}
