"""Page 6, the calls: list, filters, charts, drawer and live tail, in Chromium."""

import asyncio
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
        await fill(app)
        yield app


def rows(page):
    return page.locator("#call-rows > tr")


@pytest.mark.parametrize("width", WIDTHS)
async def test_list_has_no_axe_violations_and_no_horizontal_scrolling(world, browser, width):
    async with world.signed_in(browser, "/console/calls?key_id=&period=7d", width=width) as opened:
        await opened.page.locator(".chart-table").first.locator("summary").click()
        await opened.page.get_by_text("More filters").click()
        assert await axe_in_both_schemes(opened) == []
        assert await scroll_width(opened.page) <= width
        assert opened.observed.errors == []
        assert opened.observed.foreign_requests() == []
        assert len((await opened.page.content()).encode()) <= 60 << 10


async def test_filters_change_the_list_and_the_url_without_a_new_page(world, browser):
    async with world.signed_in(browser, "/console/calls") as opened:
        page = opened.page
        await page.evaluate("window.isSamePage = true")
        await page.get_by_label("Provider").fill("github")
        await page.get_by_role("button", name="Filter", exact=True).click()
        await expect(rows(page).filter(has_text="library")).to_have_count(0)
        await expect(page).to_have_url(re.compile("provider=github"))
        await page.get_by_role("link", name="Errors", exact=True).click()
        await expect(page).to_have_url(re.compile("error=true"))
        await expect(rows(page).filter(has=page.get_by_text("ok", exact=True))).to_have_count(0)
        assert "provider=github" in page.url
        assert await page.evaluate("window.isSamePage")
        shown = await rows(page).evaluate_all("rows => rows.map((row) => row.id)")
        await page.reload()
        assert await rows(page).evaluate_all("rows => rows.map((row) => row.id)") == shown
        await expect(page.get_by_label("Provider")).to_have_value("github")
        await page.go_back()
        await expect(page).not_to_have_url(re.compile("error=true"))


async def test_what_was_called_is_suggested_once_somebody_types(world, browser):
    async with world.signed_in(browser, "/console/calls") as opened:
        page = opened.page
        assert await page.locator("#choices option").count() == 0
        await page.get_by_label("Key").focus()
        await expect(page.locator("#key_id-choices option")).to_have_count(2)
        await expect(page.locator("#provider-choices option")).to_have_count(3)
        name = page.locator(f"#key_id-choices option[value='{world.keys['support agent'][1]}']")
        assert await name.text_content() == "support agent"


async def test_pages_of_a_list_have_every_call_once(world, browser):
    async with world.signed_in(browser, "/console/calls?period=30d") as opened:
        page = opened.page
        seen = []
        while True:
            seen += await rows(page).evaluate_all("rows => rows.map((row) => row.id)")
            following = page.get_by_role("link", name="Next page")
            if not await following.count():
                break
            first = await rows(page).first.get_attribute("id")
            await following.click()
            await expect(page.locator(f"#{first}")).to_have_count(0)
        assert len(seen) == len(set(seen))
        whole = await page.locator(".summary strong").inner_text()
        assert f"{len(seen):,} calls" == whole
        await page.get_by_role("link", name="First page").click()
        await expect(rows(page).first).to_have_id(seen[0])


async def test_period_may_be_given_as_times_and_errors_of_it_keep_the_form(world, browser):
    since = (datetime.now(UTC) - timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M")
    async with world.signed_in(browser, f"/console/calls?since={since}&tool=library.getBook") as opened:
        times = await rows(opened.page).locator("time").evaluate_all("all => all.map((one) => one.dateTime)")
        assert times
        assert min(times) >= since
        await expect(opened.page.get_by_label("Period")).to_have_value("custom")
        await opened.page.goto(f"{world.url}/console/calls?since=yesterday&tool=library.getBook")
        await expect(opened.page.locator(".problem")).to_contain_text("since")
        await expect(opened.page.get_by_label("Tool", exact=True)).to_have_value("library.getBook")
        opened.observed.errors.clear()


async def test_empty_list_says_what_to_do(world, browser):
    async with world.signed_in(browser, "/console/calls?tool=no.such") as opened:
        await expect(opened.page.get_by_role("heading", name="No calls")).to_be_visible()
        await opened.page.get_by_role("link", name="Last 30 days").click()
        await expect(opened.page).to_have_url(re.compile("period=30d"))
        assert await axe_in_both_schemes(opened) == []


async def test_charts_have_their_values_as_tables(world, browser):
    async with world.signed_in(browser, "/console/calls?period=24h") as opened:
        chart = opened.page.locator("figure.chart").first
        assert re.search(
            r"Calls\. [\d,]+ calls, \d+ errors",
            await chart.locator("svg[role=img]").get_attribute("aria-label"),
        )
        await chart.locator("summary").click()
        cells = await chart.locator("tbody td:nth-child(2)").all_inner_texts()
        whole = await opened.page.locator(".summary strong").inner_text()
        assert sum(int(one.replace(",", "")) for one in cells) == int(re.sub(r"\D", "", whole))


async def test_call_opens_in_a_drawer_and_as_a_page_by_the_keyboard(world, browser):
    failed = world.call(
        "github.listIssues", outcome="upstream-timeout", status=504, upstream_status=None, attempts=3
    )
    await world.store(failed)
    async with world.signed_in(browser, f"/console/calls?tool={failed.tool}") as opened:
        page = opened.page
        link = page.locator(f"#call-{failed.id} a")
        await link.focus()
        await page.keyboard.press("Enter")
        drawer = page.get_by_role("dialog", name="Call")
        await expect(
            drawer.get_by_role("heading", name="The upstream did not respond in time")
        ).to_be_visible()
        await expect(drawer).to_contain_text("3 requests were sent to the upstream")
        await expect(drawer).to_contain_text(str(failed.id))
        assert await axe_in_both_schemes(opened) == []
        await page.keyboard.press("Escape")
        await expect(drawer).to_be_hidden()
        await expect(link).to_be_focused()
        await page.keyboard.press("Enter")
        await drawer.get_by_role("link", name="Open as page").click()
        await expect(page).to_have_url(f"{world.url}/console/calls/{failed.id}")
        await expect(page.get_by_role("heading", level=1)).to_have_text("github.listIssues")


@pytest.mark.parametrize("width", WIDTHS)
async def test_page_of_a_call_has_no_axe_violations_and_no_horizontal_scrolling(world, browser, width):
    failed = world.call(
        "github.listIssues", outcome="invalid-arguments", status=422, upstream_status=None, attempts=0
    )
    await world.store(failed)
    async with world.signed_in(browser, f"/console/calls/{failed.id}", width=width) as opened:
        assert await axe_in_both_schemes(opened) == []
        assert await scroll_width(opened.page) <= width
        assert opened.observed.errors == []


async def test_pages_work_without_script(world, browser):
    async with world.signed_in(browser, "/console/calls?period=7d", java_script_enabled=False) as opened:
        page = opened.page
        await page.get_by_label("Tool", exact=True).fill("weather.forecast")
        await page.get_by_role("button", name="Filter", exact=True).click()
        await expect(rows(page).filter(has_text="library")).to_have_count(0)
        await page.get_by_role("link", name="Follow", exact=True).click()
        await expect(page.get_by_text("Following needs JavaScript")).to_be_visible()
        await rows(page).first.get_by_role("link").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("weather.forecast")
        await page.get_by_role("button", name="Show arguments and response").click()
        await expect(page.get_by_text("were not recorded")).to_be_visible()


async def test_csv_has_the_calls_of_the_filters(world, browser):
    async with world.signed_in(browser, "/console/calls?provider=weather&period=30d") as opened:
        async with opened.page.expect_download() as started:
            await opened.page.get_by_role("link", name="CSV").click()
        lines = (await (await started.value).path()).read_text().splitlines()
        whole = await opened.page.locator(".summary strong").inner_text()
        assert len(lines) - 1 == int(re.sub(r"\D", "", whole))
        assert all(",weather," in line for line in lines[1:])


COUNT_UPDATES = """() => {
  window.updates = [];
  new MutationObserver(() => window.updates.push(performance.now()))
    .observe(document.getElementById("call-rows"), { childList: true });
}"""


async def following(world, page):
    await expect(page.get_by_role("status")).to_have_text("Following new calls")
    await streams_of(world, 1)


async def streams_of(world, number):
    """Wait until so many streams are subscribed to the feed of calls."""
    async with asyncio.timeout(15):
        while len(world.application.services.call_feed._subscriptions) != number:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


async def test_new_calls_of_the_filters_come_to_the_top(world, browser):
    async with world.signed_in(browser, "/console/calls?follow=1&tool=weather.forecast") as opened:
        page = opened.page
        await following(world, page)
        new = world.call("weather.forecast", outcome="upstream-error")
        await world.store(world.call("library.getBook"), new)
        await expect(page.locator(f"#call-{new.id}")).to_be_visible()
        await expect(rows(page).first).to_have_id(f"call-{new.id}")
        await expect(rows(page).filter(has_text="library")).to_have_count(0)
        assert await axe_in_both_schemes(opened) == []
        assert opened.observed.errors == []


async def test_following_pauses_by_its_button_and_goes_on_with_all_calls(world, browser):
    async with world.signed_in(browser, "/console/calls?follow=1&tool=weather.forecast") as opened:
        page = opened.page
        await following(world, page)
        await page.get_by_role("button", name="Pause").click()
        await expect(page.get_by_role("status")).to_have_text("Paused")
        missed = world.call("weather.forecast")
        # Without a connection nothing can arrive.
        await streams_of(world, 0)
        await world.store(missed)
        assert await page.locator(f"#call-{missed.id}").count() == 0
        await page.get_by_role("button", name="Resume").click()
        await following(world, page)
        await expect(rows(page).first).to_have_id(f"call-{missed.id}")


async def test_following_pauses_while_one_reads_further_down(world, browser):
    async with world.signed_in(browser, "/console/calls?follow=1", width=360) as opened:
        page = opened.page
        await following(world, page)
        await page.mouse.move(100, 400)
        await page.mouse.wheel(0, 5_000)
        await expect(page.get_by_role("status")).to_have_text("Paused while you read further down")
        await page.evaluate("scrollTo(0, 0)")
        await following(world, page)


async def test_following_ends_with_the_key(world, browser):
    text = await world.key("reader", "calls:read")
    async with world.signed_in(browser, "/console/calls?follow=1", key=text) as opened:
        await following(world, opened.page)
        admin = await world.application.client("admin")
        await admin.delete(f"/keys/{world.keys['reader'][1]}")
        await expect(opened.page.get_by_role("status")).to_have_text(
            "The key or the session is not valid any more. Reload to sign in."
        )


async def test_live_tail_at_500_calls_a_second_is_bounded(world, browser):
    seconds, rate = 20, 500
    async with world.signed_in(browser, "/console/calls?follow=1") as opened:
        page = opened.page
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")
        await following(world, page)
        await page.evaluate(COUNT_UPDATES)
        stop = asyncio.get_running_loop().time() + seconds
        heap, nodes = [], []
        while asyncio.get_running_loop().time() < stop:
            began = asyncio.get_running_loop().time()
            await world.store(*(world.call() for _ in range(rate // 2)))
            await session.send("HeapProfiler.collectGarbage")
            metrics = {
                one["name"]: one["value"] for one in (await session.send("Performance.getMetrics"))["metrics"]
            }
            heap.append(metrics["JSHeapUsedSize"])
            nodes.append(await page.evaluate("document.getElementsByTagName('*').length"))
            # Text between rows would be nodes that are no elements.
            assert await page.evaluate("document.getElementById('call-rows').childNodes.length") <= 200
            await asyncio.sleep(max(0.0, 0.5 - (asyncio.get_running_loop().time() - began)))
        updates = await page.evaluate("window.updates")
        assert len(updates) >= seconds / 4
        for start in range(len(updates)):
            within = [one for one in updates[start:] if one < updates[start] + 1_000]
            assert len(within) <= 5  # Four, and the one at which the second begins.
        assert await rows(page).count() <= 81
        assert await page.locator(".left-out").count() >= 1
        assert max(nodes) <= 1_500
        half = len(heap) // 2
        assert max(heap[half:]) <= 1.25 * max(heap[:half])
        assert opened.observed.errors == []
