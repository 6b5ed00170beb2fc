"""No stored secret is in what the browser shows, stores, or receives, nor in the log of the gateway."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.browser.console.pages import GET_PATHS, Site
from tests.browser.console.test_pages import settle
from tests.browser.harness import open_page
from tests.harness.canaries import LeakSearch

ODD_END = "/+&="
"""The end of planted secrets, which is written in another way in HTML and in JSON: the rest is searched for, too."""
MEANT_HEADERS = frozenset({"cookie", "set-cookie", "authorization", "x-api-key"})
"""Header fields whose purpose it is to carry a key or session; browsers do not show them to scripts."""


def search_for(planted: Mapping[str, str]) -> LeakSearch:
    """Return a search for secrets as they are, and without an odd end."""
    return LeakSearch(
        {**planted, **{f"start of {name}": text.rstrip(ODD_END) for name, text in planted.items()}}
    )


def without_meant(har: dict[str, Any]) -> bytes:
    """Return a recording of the network as text, without the fields that are meant for secrets.

    The body of a sign-in is the key that somebody typed.
    """
    for entry in har["log"]["entries"]:
        for message in (entry["request"], entry["response"]):
            message["headers"] = [
                one for one in message["headers"] if one["name"].lower() not in MEANT_HEADERS
            ]
            message["cookies"] = []
        if re.search(r"/console/(sign-in|confirm)$", entry["request"]["url"]):
            entry["request"].pop("postData", None)
    return json.dumps(har, ensure_ascii=False).encode()


@pytest.mark.time_limit(240)
async def test_no_secret_leaves_the_gateway(
    browser: Browser, populated: Any, site: Site, sign_in: Any, tmp_path: Any
) -> None:
    key = populated.keys["admin"]
    search = LeakSearch(
        {**populated.secrets, **{f"key {name}": text for name, text in populated.keys.items()}}
    )
    library = populated.upstreams.library["credentials"]
    for slot, credential in library.items():
        for name in ("value", "password", "client_secret"):
            if name in credential:
                search.add(f"{slot} {name}", credential[name])
    options = sign_in.options(populated.gateway, key)
    for cookie in options.get("storage_state", {}).get("cookies", []):
        search.add("session", cookie["value"])
    har = tmp_path / "visit.har"
    leaks: list[str] = []
    urls: list[str] = []
    async with open_page(
        browser,
        populated.gateway.url + "/console",
        record_har_path=har,
        record_har_content="embed",
        **options,
    ) as opened:
        page = opened.page
        for template in GET_PATHS:
            for address in site.addresses.get(template, [])[:3]:
                await page.goto(populated.gateway.url + address)
                await settle(page)
                await page.evaluate(
                    "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
                )
                shown = json.loads(await opened.stored())
                # The last two are the cookies themselves, which no script can read.
                leaks += search.leaks_in(f"the document of {address}", json.dumps(shown[0]).encode())
        urls = [request.url for request in opened.observed.requests]
    leaks += search.leaks_in("URLs", "\n".join(urls).encode())
    recorded = json.loads(await asyncio.to_thread(har.read_text))
    assert len(recorded["log"]["entries"]) > len(GET_PATHS)
    leaks += search.leaks_in("the network", without_meant(recorded))
    leaks += search.leaks_in("the log", await asyncio.to_thread(populated.gateway.log.read_bytes))
    assert leaks == []


async def test_the_search_finds_a_planted_secret(populated: Any, console: Any) -> None:
    search = search_for(populated.secrets)
    opened = await console(populated.gateway, "/console/calls", key=populated.keys["admin"])
    await opened.page.evaluate(
        "(text) => { document.querySelector('main').append(text); }", populated.secrets["variable"]
    )
    assert search.leaks_in("the document", (await opened.stored()).encode())


async def test_no_script_can_read_the_session(populated: Any, console: Any) -> None:
    opened = await console(populated.gateway, "/console/calls", key=populated.keys["admin"])
    cookies = await opened.context.cookies()
    assert [one["httpOnly"] and one["sameSite"] == "Strict" for one in cookies] == [True] * len(cookies)
    assert await opened.page.evaluate("[document.cookie, localStorage.length, sessionStorage.length]") == [
        "",
        0,
        0,
    ]
