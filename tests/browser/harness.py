"""Pages of a gateway in Chromium: what they report is collected, and axe judges them."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    # No name but that of this machine resolves.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

FAILED = pytest.StashKey[bool]()
"""Whether a test has failed, for fixtures that end after it."""

_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP ${event.effectiveDirective} ${event.blockedURI}`);
});
"""
_RUN_AXE = """async ([tags, without, only]) => {
  const { violations } = await axe.run(document, {
    runOnly: only.length ? { type: "rule", values: only } : { type: "tag", values: tags }, resultTypes: ["violations"],
    rules: Object.fromEntries(without.map((rule) => [rule, { enabled: false }])),
  });
  return violations.map(({ id, help, nodes }) => ({ id, help, nodes: nodes.map((node) => node.html).slice(0, 5) }));
}"""


def chromium_program() -> str:
    """Return the path of Chromium; without one the test is skipped, and under continuous integration it fails."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is not None:
        return found
    reason = "chromium is not installed (Debian: apt-get install chromium)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(slots=True)
class Observed:
    """What the pages of a context did: `errors` are messages of console, scripts and CSP; `requests` are URLs."""

    origin: str
    errors: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def note_message(self, message: ConsoleMessage) -> None:
        """Note a message of the console that is an error; that the page itself has a status from 400 on is none."""
        is_own_status = message.text.startswith("Failed to load resource") and (
            message.page is not None and message.location["url"] == message.page.url
        )
        if message.type == "error" and not is_own_status:
            self.errors.append(message.text)

    def foreign_requests(self) -> list[str]:
        """Return the URLs of requests to another origin."""
        return [request.url for request in self.requests if origin_of(request.url) != self.origin]


@dataclass(frozen=True, slots=True)
class BrowserPage:
    """A page and what was observed in it."""

    page: Page
    observed: Observed

    @property
    def context(self) -> BrowserContext:
        """The context, which no other test shares: it has storage and cookies of its own."""
        return self.page.context

    async def axe_violations(
        self, *, without: Sequence[str] = (), only: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return the violations of WCAG 2.2 A and AA and of best practices that axe finds in what is visible.

        `without` are the ids of rules that are left out, `only` those that are tried in place of all.
        """
        if not await self.page.evaluate("!!globalThis.axe"):
            await self.page.evaluate(axe_source())
        found: list[dict[str, Any]] = await self.page.evaluate(
            _RUN_AXE, [list(AXE_TAGS), list(without), list(only)]
        )
        return found

    async def stored(self) -> str:
        """Return as text all that the page stored in the browser, its URL and its document with form fields."""
        stored = await self.page.evaluate("""async () => ({
          local: { ...localStorage }, session: { ...sessionStorage }, cookie: document.cookie,
          databases: await indexedDB.databases(), caches: isSecureContext ? await caches.keys() : [],
          url: location.href, history: history.state, name: window.name,
          document: document.documentElement.outerHTML,
          fields: [...document.querySelectorAll("input, textarea, select")].map((field) => field.value),
        })""")
        cookies = await self.context.cookies()
        return json.dumps([stored, cookies, await self.context.storage_state()], default=str)


async def save_screenshots(
    request: pytest.FixtureRequest, pages: Sequence[BrowserPage], folder: Path
) -> None:
    """Save what the pages of a test show, if it has failed."""
    if not request.node.stash.get(FAILED, False):
        return
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    for number, page in enumerate(pages):
        name = re.sub(r"[^\w-]+", "-", f"{request.node.name}-{number}")
        await page.page.screenshot(path=folder / f"{name}.png")


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def axe_source() -> str:
    """Return the script of axe-core, which the package axe-playwright-python has."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@asynccontextmanager
async def open_page(
    browser: Browser, url: str, *, width: int = 1440, scripts: Sequence[str] = (), **options: Any
) -> AsyncIterator[BrowserPage]:
    """Open a URL in a context of its own, `width` CSS pixels wide; `options` are further ones of the context.

    `scripts` run before those of each page.
    """
    given = {"viewport": {"width": width, "height": 900}, "reduced_motion": "reduce", **options}
    context = await browser.new_context(**given)
    context.set_default_timeout(30_000)
    try:
        for script in (_REPORT_VIOLATIONS, *scripts):
            await context.add_init_script(script)
        page = await context.new_page()
        observed = Observed(origin_of(url))
        page.on("request", lambda request: observed.requests.append(request))  # noqa: PLW0108 - it is marked
        page.on("pageerror", lambda error: observed.errors.append(str(error)))
        page.on("console", lambda message: observed.note_message(message))  # noqa: PLW0108 - it is marked
        await page.goto(url)
        yield BrowserPage(page, observed)
    finally:
        await context.close()
