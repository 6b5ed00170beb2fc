"""The console in Chromium, signed in, before a gateway with data and before an empty one."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.browser.console.pages import Site, read_site
from tests.browser.console.population import Populated, populate, upstreams
from tests.browser.console.signed_in import SignIn
from tests.browser.harness import BrowserPage, open_page, save_screenshots
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

OpenConsole = Callable[..., Awaitable[BrowserPage]]


@pytest.fixture(scope="session")
def populated(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Populated]:
    """A gateway with everything; tests leave it as it is, but for calls."""
    folder = tmp_path_factory.mktemp("populated")
    with upstreams(folder) as running, serve(servers, folder, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running)


@pytest.fixture(scope="session")
def empty(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that has nothing but its first key."""
    with serve(servers, tmp_path_factory.mktemp("empty")) as gateway:
        yield gateway


@pytest.fixture
def small(servers: Pair, tmp_path: Path) -> Iterator[Populated]:
    """A gateway with everything but the 10,000 tools, for one test alone, which may change it."""
    with upstreams(tmp_path) as running, serve(servers, tmp_path, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running, tools=0)


@pytest.fixture(scope="session")
def sign_in() -> SignIn:
    """Signs in, once for each key."""
    return SignIn()


@pytest.fixture(scope="session")
def site(populated: Populated, sign_in: SignIn) -> Site:
    """All pages of the gateway with data, as an administrator sees them."""
    with sign_in.client(populated.gateway, populated.keys["admin"]) as client:
        return read_site(client, populated.addresses["admin"])


@pytest.fixture(scope="session")
def empty_site(empty: RunningGateway, sign_in: SignIn) -> Site:
    """All pages of the empty gateway, as an administrator sees them."""
    with sign_in.client(empty, empty.key) as client:
        return read_site(client)


@pytest.fixture
async def console(
    browser: Browser, request: pytest.FixtureRequest, repository_root: Path, sign_in: SignIn
) -> AsyncIterator[OpenConsole]:
    """Opens paths of a gateway, signed in with a key; at the end no page may have reported an error or left the origin."""
    pages: list[BrowserPage] = []
    async with AsyncExitStack() as stack:

        async def open_path(
            gateway: RunningGateway, path: str, *, key: str | None = None, **options: Any
        ) -> BrowserPage:
            signed = {} if key == "" else sign_in.options(gateway, key or gateway.key)
            page = await stack.enter_async_context(
                open_page(browser, gateway.url + path, **{**signed, **options})
            )
            pages.append(page)
            return page

        yield open_path
        await save_screenshots(request, pages, repository_root / ".screenshots")
        assert [page.observed.errors for page in pages] == [[] for _ in pages]
        assert [page.observed.foreign_requests() for page in pages] == [[] for _ in pages]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests of this folder more time: the first one of a worker fills a gateway."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("time_limit") is None:
            item.add_marker(pytest.mark.time_limit(600))
