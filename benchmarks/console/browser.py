"""The browser's part, in Chromium: first paint beside a static page, scrolling in a trace, and the live tail.

The static page is the HTML of the same page with the same style sheet, without scripts, from a server that
only sends files. Both are loaded with an empty cache and a processor that is slowed four times, in turn.
"""

import asyncio
import re
import shutil
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, web
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, async_playwright

from benchmarks.scale import Report
from benchmarks.servers import NotStarted
from tests.browser.harness import ARGUMENTS, PROGRAMS

SLOWED = 4
MAX_PAINT_RATIO = 1.5
MAX_TASK = 50.0
MAX_STEP = 8.0
MAX_UPDATES = 4.0
MAX_NODES = 1_500.0
_VIEWPORT = {"width": 1440, "height": 900}
_PAINTS = """() => new Promise((resolve) => {
  const found = performance.getEntriesByName("first-contentful-paint")[0];
  if (found) resolve(found.startTime);
  else new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) resolve(entry.startTime);
  }).observe({ type: "paint", buffered: true });
})"""
_OBSERVE = """
globalThis.longTasks = [];
globalThis.shift = 0;
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) longTasks.push([one.startTime, one.duration]);
}).observe({ type: "longtask", buffered: true });
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) if (!one.hadRecentInput) shift += one.value;
}).observe({ type: "layout-shift", buffered: true });
"""
_COUNT_UPDATES = """() => {
  globalThis.updates = []; globalThis.mostNodes = 0;
  new MutationObserver(() => {
    updates.push(performance.now());
    mostNodes = Math.max(mostNodes, document.getElementsByTagName("*").length);
  }).observe(document.querySelector("#call-rows"), { childList: true });
}"""
_LAYOUT_EVENTS = frozenset({"Layout", "UpdateLayoutTree", "RecalculateStyles", "PrePaint", "HitTest"})
_SCROLL_STEPS = 40


def program() -> str:
    """Return the path of Chromium. Raises NotStarted."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        raise NotStarted("chromium is not installed (Debian: apt-get install chromium)")
    return found


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run Chromium without a window until the block ends. Raises NotStarted."""
    path = program()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def static_copy(base: str, path: str, headers: Mapping[str, str]) -> AsyncIterator[str]:
    """Serve the HTML of a page and its style sheet as files, and yield the URL of the page."""
    async with ClientSession(headers=headers) as http:
        async with http.get(base + path) as response:
            html = await response.text()
        style_path = re.findall(r'<link rel="stylesheet" href="([^"]+)"', html)[0]
        async with http.get(base + style_path) as response:
            style = await response.read()
    html = re.sub(r"<script[^>]*></script>", "", html)

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=html, content_type="text/html")

    async def sheet(_: web.Request) -> web.Response:
        return web.Response(body=style, content_type="text/css")

    application = web.Application()
    application.router.add_get(style_path, sheet)
    application.router.add_get("/", page)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@dataclass(frozen=True, slots=True)
class Paint:
    """One cold load: milliseconds until the first contentful paint and of the longest task after it, and the
    shift of its layout.
    """

    first: float
    longest: float
    shift: float


async def paint_once(browser: Browser, url: str, headers: Mapping[str, str]) -> Paint:
    """Load a page with an empty cache on a slowed processor."""
    context = await _context(browser, headers)
    try:
        await context.add_init_script(_OBSERVE)
        page = await context.new_page()
        session = await context.new_cdp_session(page)
        await session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        await session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
        await page.goto(url, wait_until="load")
        first = float(await page.evaluate(_PAINTS))
        await page.wait_for_timeout(500)
        tasks, shift = await page.evaluate("[longTasks, shift]")
        longest = max((duration for start, duration in tasks if start + duration > first), default=0.0)
        return Paint(first, longest, float(shift))
    finally:
        await context.close()


async def _context(browser: Browser, headers: Mapping[str, str]) -> BrowserContext:
    context = await browser.new_context(viewport=_VIEWPORT, reduced_motion="reduce")  # type: ignore[arg-type]
    # A session is a cookie, which is sent as a header here: the context is new for each load.
    await context.set_extra_http_headers(dict(headers))
    return context


async def measure_paint(
    browser: Browser,
    base: str,
    headers: Mapping[str, str],
    report: Report,
    *,
    paths: Sequence[str],
    times: int,
) -> None:
    """Measure first contentful paints of pages beside static copies of them."""
    for path in paths:
        async with static_copy(base, path, headers) as static:
            for url in (base + path, static):
                await paint_once(browser, url, headers)
            ours, files = [], []
            for _ in range(times):
                ours.append(await paint_once(browser, base + path, headers))
                files.append(await paint_once(browser, static, headers))
        first, of_files = (statistics.median(one.first for one in many) for many in (ours, files))
        report.add(f"{path}: first contentful paint", first, "ms")
        report.add(f"{path}: static copy of it", of_files, "ms")
        report.add(f"{path}: x static copy", first / of_files, "x", MAX_PAINT_RATIO)
        report.add(
            f"{path}: longest task after it", statistics.median(one.longest for one in ours), "ms", MAX_TASK
        )
        report.add(f"{path}: layout shift", max(one.shift for one in ours), "", 0.02)


async def _traced(session: CDPSession, page: Page) -> list[dict[str, Any]]:
    """Scroll a page down in a trace, and return the events of its main thread with their durations."""
    events: list[dict[str, Any]] = []
    done = asyncio.Event()
    session.on("Tracing.dataCollected", lambda data: events.extend(data["value"]))
    session.on("Tracing.tracingComplete", lambda _: done.set())
    await session.send(
        "Tracing.start",
        {
            "traceConfig": {
                "includedCategories": [
                    "devtools.timeline",
                    "toplevel",
                    "disabled-by-default-devtools.timeline",
                ]
            }
        },
    )
    for _ in range(_SCROLL_STEPS):
        await page.mouse.wheel(0, 120)
        await page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
    await session.send("Tracing.end")
    await done.wait()
    mains = {
        (one["pid"], one["tid"])
        for one in events
        if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"
    }
    return [one for one in events if one.get("ph") == "X" and (one["pid"], one["tid"]) in mains]


async def measure_scroll(
    browser: Browser, base: str, headers: Mapping[str, str], report: Report, *, path: str, pages: int
) -> None:
    """Measure scrolling through pages of a list: the longest task, and style and layout of a step."""
    context = await _context(browser, headers)
    try:
        page = await context.new_page()
        await page.goto(base + path)
        session = await context.new_cdp_session(page)
        longest, layout, nodes, seen = 0.0, 0.0, 0, 0
        for _ in range(pages):
            events = await _traced(session, page)
            tasks = [
                one["dur"] / 1e3
                for one in events
                if one["name"] in ("RunTask", "ThreadControllerImpl::RunTask")
            ]
            longest = max(longest, *tasks, 0.0)
            layout = max(
                layout,
                sum(one["dur"] / 1e3 for one in events if one["name"] in _LAYOUT_EVENTS) / _SCROLL_STEPS,
            )
            nodes = max(nodes, await page.evaluate("document.getElementsByTagName('*').length"))
            seen += await page.locator("#results tbody tr").count()
            following = page.locator("a[rel=next]")
            if not await following.count():
                break
            url = page.url
            await following.first.click()
            await page.wait_for_function("url => location.href !== url", arg=url)
            session = await context.new_cdp_session(page)
        report.add(f"{path}: rows scrolled through", seen, "")
        report.add(f"{path}: longest task while scrolling", longest, "ms", MAX_TASK)
        report.add(f"{path}: style and layout of a step", layout, "ms", MAX_STEP)
        report.add(f"{path}: nodes", nodes, "", MAX_NODES)
    finally:
        await context.close()


async def _metrics(session: CDPSession) -> dict[str, float]:
    found = await session.send("Performance.getMetrics")
    return {one["name"]: one["value"] for one in found["metrics"]}


async def _level(session: CDPSession) -> float:
    """Return the megabytes of the heap after a collection."""
    await session.send("HeapProfiler.collectGarbage")
    return (await _metrics(session))["JSHeapUsedSize"] / 1e6


async def measure_tail(
    browser: Browser,
    base: str,
    headers: Mapping[str, str],
    report: Report,
    *,
    seconds: float,
    start_load: Any,
) -> None:
    """Follow calls for a while, beside an idle page of the same list; `start_load` begins the calls, and
    returns what waits for their end.
    """
    context, idle_context = await _context(browser, headers), await _context(browser, headers)
    try:
        tail, idle = await context.new_page(), await idle_context.new_page()
        await idle.goto(f"{base}/console/calls")
        await tail.goto(f"{base}/console/calls?follow=1")
        await tail.wait_for_selector("#call-rows", state="attached")
        await tail.evaluate(_COUNT_UPDATES)
        sessions = [await one.new_cdp_session(page) for one, page in ((context, tail), (idle_context, idle))]
        for session in sessions:
            await session.send("Performance.enable")
            await session.send("HeapProfiler.enable")
        wait = await start_load()
        await asyncio.sleep(min(15.0, seconds / 4))
        begun, heap = [await _metrics(one) for one in sessions], await _level(sessions[0])
        first = await tail.evaluate("[performance.now(), updates.length]")
        await asyncio.sleep(seconds)
        last = await tail.evaluate("[performance.now(), updates.length]")
        ended, heap_after = [await _metrics(one) for one in sessions], await _level(sessions[0])
        nodes = await tail.evaluate("Math.max(mostNodes, document.getElementsByTagName('*').length)")
        rate = await wait()
        lasted = (last[0] - first[0]) / 1e3
        busy = [
            (after["TaskDuration"] - before["TaskDuration"]) / lasted
            for before, after in zip(begun, ended, strict=True)
        ]
        report.add("live tail: calls a second", rate, "")
        report.add("live tail: updates a second", (last[1] - first[1]) / lasted, "", MAX_UPDATES)
        report.add("live tail: nodes at most", nodes, "", MAX_NODES)
        report.add(f"live tail: growth of the heap in {seconds:g} s", heap_after - heap, "MB", 2.0)
        report.add("live tail: CPU of the tab", busy[0] * 100, "%")
        report.add("live tail: CPU of an idle page", busy[1] * 100, "%")
    finally:
        await context.close()
        await idle_context.close()
