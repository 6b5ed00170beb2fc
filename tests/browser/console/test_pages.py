"""Every page, at every width, light and dark: accessible, without horizontal scrolling, within its budgets, and quiet."""

import re

import pytest
from playwright.async_api import Page

from tests.browser.console.pages import GET_PATHS, Site

WIDTHS = {320: "400 percent zoom of 1280", 360: "a phone", 768: "a tablet", 1440: "a desktop"}
JUDGED_WIDTHS = (360, 1440)
"""Where axe judges: what it finds depends on the layout, and there are two of them."""
LIST_PATHS = frozenset(path for path in GET_PATHS if "{" not in path)
DEVELOPMENT_PATHS = frozenset({"/console/design"})
"""Pages of a checkout in the embedded mode; elsewhere they are the page that says that there is no such page."""
MAX_NODES = 1_500
MAX_SHIFT = 0.02

OBSERVE_SHIFTS = """
globalThis.layoutShift = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) globalThis.layoutShift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
_OPEN_DETAILS = "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
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


def first_address(site: Site, template: str) -> str:
    """Return the address of a page; the test is skipped where it is not a page."""
    if template in site.kinds:
        pytest.skip(f"it is {site.kinds[template]}")
    if template not in site.addresses:
        pytest.fail(f"no page has a link to {template}, or it only redirects")
    return site.addresses[template][0]


def shot_name(template: str) -> str:
    """Return the name of a file for a page."""
    return re.sub(r"\W+", "-", template.removeprefix("/console")).strip("-") or "overview"


async def settle(page: Page) -> None:
    """Wait until what the page loads by script is there; streams stay open, so the network is never idle."""
    await page.wait_for_load_state("load")
    await page.wait_for_function("() => !document.querySelector('[aria-busy=true]')")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("template", GET_PATHS)
async def test_page_is_accessible_fits_and_is_quiet(template, width, site, populated, console, repository_root):
    address = first_address(site, template)
    opened = await console(populated.gateway, address, key=populated.keys["admin"], width=width, scripts=[OBSERVE_SHIFTS])
    page = opened.page
    await settle(page)
    if site.statuses[address] >= 400:
        opened.observed.errors.clear()
    folder = repository_root / ".screenshots" / "console"
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        await page.screenshot(path=folder / f"{shot_name(template)}-{width}-{scheme}.png", full_page=width != 320)
        if width in JUDGED_WIDTHS:
            found[f"axe, {scheme}"] = await opened.axe_violations()
    found["too wide"] = await page.evaluate(_OVERFLOW)
    if template in LIST_PATHS:
        nodes = await page.evaluate("document.querySelectorAll('*').length")
        found["nodes"] = [nodes] if nodes > MAX_NODES else []
    shift = await page.evaluate("globalThis.layoutShift")
    found["layout shift"] = [shift] if shift > MAX_SHIFT else []
    await page.evaluate(_OPEN_DETAILS)
    found["too wide with details"] = await page.evaluate(_OVERFLOW)
    if width in JUDGED_WIDTHS:
        found["axe, details"] = await opened.axe_violations()
    for name, at in await page.evaluate(_LAYERS):
        if name == "palette":
            # It is empty until the keyboard opens it; a test of its own does that.
            continue
        if await page.evaluate(_OPEN_LAYER, at):
            found[f"too wide with {name}"] = await page.evaluate(_OVERFLOW)
            if width in JUDGED_WIDTHS:
                found[f"axe, {name}"] = await opened.axe_violations()
            await page.evaluate(_CLOSE_LAYER, at)
    assert {what: one for what, one in found.items() if one} == {}


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
        if site.statuses[address] >= 400:
            opened.observed.errors.clear()
        found[address] = [*await opened.page.evaluate(_OVERFLOW), *await opened.axe_violations()]
    assert {address: one for address, one in found.items() if one} == {}


@pytest.mark.parametrize("template", [path for path in GET_PATHS if "{" not in path])
async def test_page_of_an_empty_gateway_is_accessible_and_fits(template, empty_site, empty, console):
    address = first_address(empty_site, template)
    opened = await console(empty, address, width=360)
    await settle(opened.page)
    if empty_site.statuses[address] >= 400:
        opened.observed.errors.clear()
    assert await opened.page.evaluate(_OVERFLOW) == []
    assert await opened.axe_violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_open_palette_is_accessible(scheme, populated, console):
    opened = await console(populated.gateway, "/console/tools", key=populated.keys["admin"], color_scheme=scheme)
    await opened.page.keyboard.press("Control+k")
    await opened.page.locator("#palette input").fill("sea")
    await opened.page.locator("#palette a").first.wait_for()
    assert await opened.axe_violations() == []


@pytest.mark.parametrize("template", GET_PATHS)
def test_page_was_reached_and_did_not_fail(template, site):
    first_address(site, template)
    expected = 404 if template in DEVELOPMENT_PATHS else 200
    statuses = {address: site.statuses[address] for address in site.addresses[template]}
    assert {address: status for address, status in statuses.items() if status != expected} == {}


def test_each_page_of_html_is_small(site):
    large = {address: len(html.encode()) for address, html in site.html.items() if len(html.encode()) > 60 * 1024}
    assert large == {}


def test_no_page_has_inline_script_or_style(site):
    found = {
        address: re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|\son\w+=[\"'][^\"']*|\sstyle=[\"'][^\"']*|<style\b", html)[:5]
        for address, html in site.html.items()
    }
    assert {address: one for address, one in found.items() if one} == {}
