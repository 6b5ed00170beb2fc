"""Chromium for all tests of this folder; a failed test leaves a screenshot of its page in `.screenshots/`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser, async_playwright

from tests.browser.harness import (
    ARGUMENTS,
    FAILED,
    BrowserPage,
    chromium_program,
    open_page,
    save_screenshots,
)
from tests.harness.gateway import RunningGateway

OpenPage = Callable[..., Awaitable[BrowserPage]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """Note for the fixtures whether the test failed."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    program = chromium_program()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield browser
        await browser.close()


@pytest.fixture
async def opened(
    browser: Browser, gateway: RunningGateway, request: pytest.FixtureRequest, repository_root: Path
) -> AsyncIterator[OpenPage]:
    """Opens paths of the gateway; at the end no page may have reported an error or left the origin."""
    pages: list[BrowserPage] = []
    async with AsyncExitStack() as stack:

        async def open_path(path: str, *, width: int = 1440) -> BrowserPage:
            page = await stack.enter_async_context(open_page(browser, gateway.url + path, width=width))
            pages.append(page)
            return page

        yield open_path
        await save_screenshots(request, pages, repository_root / ".screenshots")
        assert [page.observed.errors for page in pages] == [[] for _ in pages]
        assert [page.observed.foreign_requests() for page in pages] == [[] for _ in pages]
