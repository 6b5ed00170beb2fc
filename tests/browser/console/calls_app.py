"""The console over an application in the event loop of the test, with calls of two weeks in it."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from playwright.async_api import Browser, Page

from app.access.repository import create_key
from app.access.sessions.cookie import loopback_cookie
from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import CallLogEntry
from app.core.uuid7 import uuid7
from app.storage.models import TENANT
from tests.browser.harness import BrowserPage, open_page
from tests.harness.application import Application
from tests.stored import store_provider, store_tool

TOOLS = (
    "library.searchBooks",
    "library.getBook",
    "library.lendBook",
    "weather.forecast",
    "github.listIssues",
)
ERRORS = ("upstream-timeout", "upstream-error", "invalid-arguments", "credential-missing")


@dataclass
class ConsoleApp:
    """A running gateway, and the texts and ids of keys by name."""

    application: Application
    keys: dict[str, tuple[str, str]]
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.application.url

    async def key(self, name: str, *scopes: Any, **limits: Any) -> str:
        """Make a key, and return its text."""
        services = self.application.services
        async with services.database.transaction() as session:
            minted = await create_key(
                session, services.vault, name=name, scopes=scopes, actor="test", **limits
            )
        await services.feed.catch_up()
        self.keys[name] = (minted.text.reveal(), minted.key_id)
        return minted.text.reveal()

    @asynccontextmanager
    async def signed_in(
        self, browser: Browser, path: str, *, key: str | None = None, width: int = 1440, **options: Any
    ) -> AsyncIterator[BrowserPage]:
        """Open a page of the console with a session of a key; `key` is the admin's by default."""
        services = self.application.services
        key = key or self.keys["admin"][0]
        if key not in self.sessions:
            # Sign-ins are limited.
            made = await services.sessions.sign_in(key, host="127.0.0.1")
            self.sessions[key] = made.text.reveal()
        cookie = {
            "name": loopback_cookie(urlsplit(self.url).netloc), "value": self.sessions[key],
            "domain": "127.0.0.1", "path": "/", "expires": -1, "httpOnly": True, "secure": False,
            "sameSite": "Strict",
        }  # fmt: skip
        options["storage_state"] = {"cookies": [cookie], "origins": []}
        async with open_page(browser, self.url + path, width=width, **options) as page:
            yield page

    async def store(self, *entries: CallLogEntry) -> None:
        """Store records of calls as another worker would."""
        writer = BatchCallLog(self.application.services.database)
        for entry in entries:
            writer.record(entry)
        assert await writer.flush()

    def call(self, tool: str = TOOLS[0], **changed: Any) -> CallLogEntry:
        """Return the record of a call; `changed` are members of it."""
        fields: dict[str, Any] = {
            "id": uuid7(), "at": datetime.now(UTC), "tenant_id": TENANT,
            "key_id": self.keys["support agent"][1], "provider": tool.partition(".")[0], "tool": tool,
            "outcome": "ok", "status": 200, "upstream_status": 200, "duration_ms": 12.5, "attempts": 1,
            "request_bytes": 40, "response_bytes": 1_234, "safe": True, "interface": "mcp",
        }  # fmt: skip
        return CallLogEntry(**fields | changed)


async def fill(app: ConsoleApp, *, calls: int = 600) -> None:
    """Store three providers, three keys, and calls of which most are of the last 24 hours."""
    database = app.application.services.database
    made: dict[str, Any] = {}
    for tool in TOOLS:
        provider, _, name = tool.partition(".")
        if provider not in made:
            made[provider] = await store_provider(database, provider, title=provider.title())
        await store_tool(database, made[provider], name)
    for name, scopes in (("support agent", ["tools:call"]), ("nightly report", ["tools:call"])):
        await app.key(name, *scopes)
    await app.application.services.feed.catch_up()
    chance = random.Random(5)
    now = datetime.now(UTC)
    entries = []
    for _ in range(calls):
        tool = chance.choices(TOOLS, (9, 5, 2, 4, 3))[0]
        is_error = chance.random() < (0.25 if tool.startswith("github") else 0.02)
        hours = chance.uniform(0, 24) if chance.random() < 0.7 else chance.uniform(24, 24 * 9)
        at = now - timedelta(hours=hours)
        outcome = chance.choice(ERRORS) if is_error else "ok"
        entries.append(
            app.call(
                tool,
                id=uuid7_at(at),
                at=at,
                key_id=app.keys[chance.choices(("support agent", "nightly report"), (3, 1))[0]][1],
                outcome=outcome,
                status=502 if is_error else 200,
                upstream_status=None if is_error else 200,
                attempts=2 if is_error else 1,
                duration_ms=chance.lognormvariate(3.2, 0.9),
                interface=chance.choice(("mcp", "rest", "tool-calls")),
                safe=tool != "library.lendBook",
            )
        )
    await app.store(*sorted(entries, key=lambda one: one.at))


def uuid7_at(moment: datetime) -> UUID:
    """Return a UUIDv7 of a time."""
    return UUID(int=int(moment.timestamp() * 1000) << 80 | uuid7().int & ((1 << 80) - 1))


async def axe_in_both_schemes(page: BrowserPage) -> list[Any]:
    """Return the violations that axe finds in light and in dark."""
    found = []
    for scheme in ("light", "dark"):
        await page.page.emulate_media(color_scheme=scheme)
        found += await page.axe_violations()
    return found


async def scroll_width(page: Page) -> int:
    """Return the width of the document in CSS pixels."""
    width: int = await page.evaluate("document.documentElement.scrollWidth")
    return width
