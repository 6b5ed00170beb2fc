"""What pages ask for while they are used: one request after the last key, few updates of a live tail, bounded nodes."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import expect

from tests.browser.console.test_pages import MAX_NODES
from tests.browser.console.test_pages import settle as settle_page

TYPED = "search the books"
KEY_MILLISECONDS = 40
CALLS = 600
_COUNT_UPDATES = """() => {
  globalThis.updates = []; globalThis.mostNodes = 0;
  new MutationObserver(() => {
    const now = performance.now();
    // Removing the oldest rows is a part of the update that has added the new ones.
    if (!updates.length || now - updates[updates.length - 1] > 20) updates.push(now);
    mostNodes = Math.max(mostNodes, document.getElementsByTagName("*").length);
  }).observe(document.querySelector("#call-rows"), { childList: true });
}"""


async def test_search_as_typed_is_one_request_after_the_last_key(populated: Any, console: Any) -> None:
    opened = await console(populated.gateway, "/console/tools", key=populated.keys["admin"])
    page = opened.page
    await settle_page(page)
    before = len(opened.observed.requests)
    await page.keyboard.press("/")
    await page.keyboard.type(TYPED, delay=KEY_MILLISECONDS)
    await expect(page.get_by_role("link", name="library.searchBooks").first).to_be_visible()
    await page.wait_for_timeout(500)
    # Chromium takes the icon from its cache again when the address changes.
    urls = (request.url for request in opened.observed.requests[before:])
    sent = [urlsplit(url) for url in urls if not url.endswith("/icon.svg")]
    assert [parse_qs(one.query).get("q") for one in sent if one.path == "/console/tools"] == [[TYPED]]
    assert len(sent) == 1
    # The state has an address, and typing has not filled the history.
    assert parse_qs(urlsplit(page.url).query)["q"] == [TYPED]
    await page.reload()
    await expect(page.locator("main input[type=search]").first).to_have_value(TYPED)


async def test_going_through_pages_of_10_000_tools_keeps_nodes_bounded(populated: Any, console: Any) -> None:
    opened = await console(populated.gateway, "/console/tools", key=populated.keys["admin"])
    page = opened.page
    nodes = []
    for _ in range(5):
        nodes.append(await page.evaluate("document.getElementsByTagName('*').length"))
        url = page.url
        await page.locator("a[rel=next]").first.click()
        await page.wait_for_function("url => location.href !== url", arg=url)
        await settle_page(page)
    assert max(nodes) <= MAX_NODES
    assert page.url != f"{populated.gateway.url}/console/tools"


@pytest.mark.time_limit(120)
async def test_live_tail_under_load_updates_seldom_and_stays_small(populated: Any, console: Any) -> None:
    opened = await console(populated.gateway, "/console/calls?follow=1", key=populated.keys["admin"])
    page = opened.page
    await expect(page.locator("live-tail [role=status]")).to_contain_text("Following")
    await page.evaluate(_COUNT_UPDATES)
    began = await page.evaluate("performance.now()")

    def call(number: int) -> int:
        with populated.client("caller") as client:
            statuses = [
                client.post("/tools/library.searchBooks/call", json={"q": f"{number} {at}"}).status_code
                for at in range(CALLS // 6)
            ]
        return statuses.count(200)

    with ThreadPoolExecutor(6) as threads:
        loop = asyncio.get_running_loop()
        made = await asyncio.gather(*(loop.run_in_executor(threads, call, number) for number in range(6)))
    assert sum(made) > CALLS / 2
    await page.wait_for_timeout(1_500)
    updates, most, ended = await page.evaluate("[updates, mostNodes, performance.now()]")
    assert updates, "no call was shown"
    # Some slack for the first and last quarter of a second.
    assert len(updates) <= 4 * (ended - began) / 1_000 + 2
    closest = sorted(later - earlier for earlier, later in pairwise(updates))
    assert len(closest) < 4 or closest[len(closest) // 2] >= 200, json.dumps(closest)
    assert most <= MAX_NODES
    assert await page.locator("#call-rows tr").count() <= 110
