"""Page 9, the overview: what needs attention, the calls of the day, the first step, in Chromium."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import expect

from app.core.settings import Settings
from app.security.vault import KeyRing
from tests.browser.console.calls_app import ConsoleApp, axe_in_both_schemes, fill, scroll_width
from tests.harness.application import run_application

WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="module")
async def world(database_url, redis_url):
    settings = Settings(
        _env_file=None, database_url=database_url, redis_url=redis_url, sealing_keys=KeyRing.generate("test"),
        log_level="error",
    )  # fmt: skip
    async with run_application(settings) as application:
        app = ConsoleApp(application, {})
        await app.key("admin", "admin")
        yield app


@pytest.fixture(scope="module")
async def filled(world):
    await fill(world)
    expires = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    admin = await world.application.client("admin")
    made = await admin.post(
        "/keys", json={"name": "old agent", "scopes": ["tools:call"], "expires_at": expires}
    )
    assert made.status_code == 201
    await world.store(
        *(world.call("github.listIssues", outcome="upstream-error", status=502) for _ in range(8))
    )
    return world


async def test_first_page_of_an_empty_gateway_is_the_next_step(world, browser):
    async with world.signed_in(browser, "/console", width=360) as opened:
        await expect(opened.page.get_by_role("heading", name="Add your first API")).to_be_visible()
        link = opened.page.get_by_role("main").get_by_role("link", name="Add an API")
        assert await link.get_attribute("href") == "/console/add"
        assert await axe_in_both_schemes(opened) == []
        assert await scroll_width(opened.page) <= 360
    reader = await world.key("reader of providers", "providers:read")
    async with world.signed_in(browser, "/console", key=reader) as opened:
        await expect(opened.page.get_by_role("heading", name="There is no API yet")).to_be_visible()
        await expect(opened.page.get_by_role("link", name="Add an API")).to_have_count(0)


@pytest.mark.parametrize("width", WIDTHS)
async def test_overview_has_no_axe_violations_and_no_horizontal_scrolling(filled, browser, width):
    async with filled.signed_in(browser, "/console", width=width) as opened:
        await opened.page.locator(".chart-table summary").click()
        assert await axe_in_both_schemes(opened) == []
        assert await scroll_width(opened.page) <= width
        assert opened.observed.errors == []
        assert opened.observed.foreign_requests() == []


async def test_attention_and_figures_lead_to_the_filtered_page_by_the_keyboard(filled, browser):
    async with filled.signed_in(browser, "/console") as opened:
        page = opened.page
        attention = page.get_by_role("region", name="Needs attention")
        await expect(attention.get_by_role("link", name="github is degraded")).to_have_attribute(
            "href", "/console/providers/github"
        )
        await expect(attention).to_contain_text("old agent")
        await expect(attention.get_by_role("link", name="Keys that expire soon: 1")).to_have_attribute(
            "href", "/console/keys?state=expiring"
        )
        errors = page.get_by_role("table", name="Errors by provider").get_by_role("link", name="github")
        shown = (
            await page.get_by_role("table", name="Errors by provider")
            .get_by_role("row")
            .nth(1)
            .locator("td")
            .last.inner_text()
        )
        await errors.focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile(r"/console/calls\?provider=github&error=true"))
        assert (await page.locator(".summary strong").inner_text()).startswith(f"{shown} ")


async def test_calls_are_compared_with_the_same_hours_a_week_before(filled, browser):
    now = datetime.now(UTC)
    async with filled.signed_in(browser, "/console") as opened:
        note = opened.page.locator(".figures .note").first
        before = await note.inner_text()
        # Of the same hour, but later than now: a week ago it had not come yet.
        await filled.store(
            *(filled.call(at=now - timedelta(days=7) + timedelta(minutes=5)) for _ in range(50))
        )
        await opened.page.reload()
        assert await note.inner_text() == before
        await filled.store(*(filled.call(at=now - timedelta(days=7, hours=2)) for _ in range(1_000)))
        await opened.page.reload()
        await expect(note).to_contain_text("fewer than a week ago")


async def test_figures_are_those_of_the_list(filled, browser):
    async with filled.signed_in(browser, "/console") as opened:
        calls = await opened.page.locator(".figures dd").first.inner_text()
        await opened.page.locator(".figures a").first.click()
        assert await opened.page.locator(".summary strong").inner_text() == f"{calls} calls"


@pytest.mark.parametrize(
    ("scopes", "there", "absent"),
    [
        (["calls:read"], ["Last 24 hours"], ["Gateway", "Keys that expire soon", "is degraded"]),
        (["metrics:read"], ["Gateway"], ["Last 24 hours", "Keys that expire soon", "is degraded"]),
        (["keys:manage"], ["Keys that expire soon"], ["Last 24 hours", "Gateway", "is degraded"]),
        (["providers:read"], ["is degraded"], ["Last 24 hours", "Gateway", "Keys that expire soon"]),
    ],
)
async def test_sections_are_those_that_the_key_may_read(filled, browser, scopes, there, absent):
    key = await filled.key("-".join(scopes), *scopes)
    async with filled.signed_in(browser, "/console", key=key) as opened:
        text = await opened.page.get_by_role("main").inner_text()
        assert [one for one in there if one not in text] == []
        assert [one for one in absent if one in text] == []


async def test_overview_is_whole_without_script(filled, browser):
    async with filled.signed_in(browser, "/console", java_script_enabled=False) as opened:
        await expect(opened.page.locator("figure.chart svg[role=img]")).to_be_visible()
        await expect(opened.page.get_by_role("table", name="Top tools").get_by_role("row")).to_have_count(6)
