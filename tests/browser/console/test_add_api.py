"""An API is added in the browser, from the empty overview to a called tool."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from playwright.async_api import Browser, Page, expect

from tests.browser.console.conftest import OpenConsole
from tests.browser.console.population import Upstreams, upstreams
from tests.browser.console.signed_in import SignIn
from tests.browser.harness import open_page
from tests.harness.beside import web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

MAX_CLICKS = 5
SLOW = 30_000
"""Milliseconds in which a source is read and converted on a busy machine."""
SECRET = "canary-2c8e51f09b"


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Upstreams]:
    """APIs to add: the sample API, and one whose document a test sets."""
    with upstreams(tmp_path_factory.mktemp("sources")) as running:
        yield running


@pytest.fixture
def new(servers: Pair, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway for one test alone."""
    with serve(servers, tmp_path) as gateway:
        yield gateway


def pets(sources: Upstreams, *paths: str) -> dict[str, Any]:
    """Return a document with a reading operation for each path, and a credential."""
    return {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": sources.url}],
        "security": [{"key": []}],
        "paths": {
            path: {
                "get": {
                    "operationId": "list" + path.strip("/").capitalize(),
                    "summary": f"List all {path.strip('/')} of the shop.",
                    "responses": {"200": {"description": "ok"}},
                }
            }
            for path in paths
        },
        "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    }


class Clicks:
    """Clicks by role and name, counted."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    async def click(self, role: Any, name: str, *, exact: bool = False) -> None:
        self.count += 1
        await self.page.get_by_role(role, name=name, exact=exact).first.click()


async def test_from_the_empty_overview_to_a_called_tool(
    console: OpenConsole, new: RunningGateway, sources: Upstreams
) -> None:
    opened = await console(new, "/console")
    page, user = opened.page, Clicks(opened.page)
    await user.click("link", "Add an API")
    await page.get_by_label("URL of an OpenAPI document").fill(sources.library["source"]["url"])
    await user.click("button", "Preview")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Sample library", timeout=SLOW)
    with new.client() as client:
        assert client.get("/providers").json()["items"] == []
    await user.click("button", "Add", exact=True)
    await expect(page.get_by_role("heading", name="Tools to try")).to_be_visible(timeout=SLOW)
    await user.click("link", "Try sample-library.")
    await page.wait_for_url("**/console/tools/sample-library.*")
    await page.get_by_role("button", name="Call", exact=True).last.click()
    user.count += 1
    await expect(page.locator("main")).to_contain_text("200", timeout=SLOW)
    assert user.count <= MAX_CLICKS


async def test_a_file_is_dropped(console: OpenConsole, new: RunningGateway, sources: Upstreams) -> None:
    opened = await console(new, "/console/add?source=file")
    page = opened.page
    document = json.dumps(pets(sources, "/cats", "/dogs"))
    drop = await page.evaluate_handle(
        """(text) => {
          const transfer = new DataTransfer();
          transfer.items.add(new File([text], "pets.json", { type: "application/json" }));
          return transfer;
        }""",
        document,
    )
    await page.locator("[data-drop]").dispatch_event("drop", {"dataTransfer": drop})
    await expect(page.get_by_role("heading", level=1)).to_have_text("Pets", timeout=SLOW)
    await expect(page.locator("main")).to_contain_text("listCats", timeout=SLOW)
    await page.get_by_label("Value", exact=True).fill(SECRET)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("pets is added", timeout=SLOW)
    assert SECRET not in await opened.stored()
    assert [one.url for one in opened.observed.requests if SECRET in one.url] == []
    with new.client() as client:
        assert client.get("/providers/pets").json()["credentials"][0]["slot"] == "key"


async def test_a_chosen_file_survives_a_reload(
    console: OpenConsole, new: RunningGateway, sources: Upstreams, tmp_path: Path
) -> None:
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(pets(sources, "/cats")))
    opened = await console(new, "/console/add?source=file")
    page = opened.page
    await page.get_by_label("OpenAPI or Swagger document").set_input_files(file)
    await page.get_by_role("button", name="Preview").click()
    await expect(page.locator("main")).to_contain_text("listCats", timeout=SLOW)
    await page.reload()
    await expect(page.locator("main")).to_contain_text("listCats", timeout=SLOW)
    with new.client() as client:
        assert client.get("/providers").json()["items"] == []
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("pets is added", timeout=SLOW)


async def test_progress_of_a_slow_source_is_shown_and_survives_a_reload(
    console: OpenConsole, new: RunningGateway, sources: Upstreams
) -> None:
    is_released = asyncio.Event()

    async def document(_: web.Request) -> web.Response:
        await is_released.wait()
        return web.json_response(pets(sources, "/cats"))

    application = web.Application()
    application.router.add_get("/slow.json", document)
    async with web_server(application) as url:
        opened = await console(new, "/console/add")
        page = opened.page
        await page.get_by_label("URL of an OpenAPI document").fill(f"{url}/slow.json")
        await page.get_by_role("button", name="Preview").click()
        await expect(page.get_by_role("progressbar")).to_be_visible(timeout=30_000)
        assert await opened.axe_violations() == []
        await page.reload()
        await expect(page.get_by_role("progressbar")).to_be_visible()
        is_released.set()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Pets", timeout=SLOW)


async def test_the_add_pages_are_accessible_and_fit_at_each_step(
    console: OpenConsole, new: RunningGateway, sources: Upstreams
) -> None:
    opened = await console(new, "/console/add?source=paste", viewport={"width": 360, "height": 800})
    page = opened.page
    await page.get_by_label("Document").fill("openapi: 3.0.3\ninfo: [")
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("alert")).to_be_visible(timeout=SLOW)
    await judge(opened)
    await page.get_by_label("Document").fill(json.dumps(pets(sources, "/cats")))
    await page.get_by_role("button", name="Preview").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Pets", timeout=SLOW)
    await judge(opened)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("heading", name="Tools to try")).to_be_visible(timeout=SLOW)
    await judge(opened)


async def judge(opened: Any) -> None:
    await opened.page.evaluate(
        "() => document.querySelectorAll('main details').forEach((one) => { one.open = true; })"
    )
    assert await opened.axe_violations() == []
    width = await opened.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360


async def test_an_api_is_added_and_deleted_without_script(
    browser: Browser, new: RunningGateway, sources: Upstreams, sign_in: SignIn
) -> None:
    sources.document = pets(sources, "/cats")
    options = {**sign_in.options(new, new.key), "java_script_enabled": False}
    async with open_page(browser, new.url + "/console/add", **options) as opened:
        page = opened.page
        await page.get_by_label("URL of an OpenAPI document").fill(f"{sources.url}/openapi.json")
        await page.get_by_role("button", name="Preview").click()
        await page.get_by_role("textbox", name="Name (required)").fill("zoo")
        await page.get_by_role("button", name="Add", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("zoo is added", timeout=SLOW)
        await page.goto(new.url + "/console/providers/zoo/settings")
        await page.get_by_role("link", name="Delete …").click()
        await page.get_by_label("Type the name of the provider").fill("zo")
        await page.get_by_role("button", name="Delete for good").click()
        await expect(page.locator("main")).to_contain_text("not the name of the provider")
        await page.get_by_label("Type the name of the provider").fill("zoo")
        await page.get_by_role("button", name="Delete for good").click()
        await expect(page.get_by_role("status")).to_contain_text("zoo")
    with new.client() as client:
        assert client.get("/providers").json()["items"] == []


async def test_a_refresh_shows_its_difference_and_a_pause_is_undone(
    console: OpenConsole, new: RunningGateway, sources: Upstreams
) -> None:
    sources.document = pets(sources, "/cats", "/dogs")
    with new.client() as client:
        body = {"name": "zoo", "url": f"{sources.url}/openapi.json"}
        assert client.post("/providers", json=body).status_code == 201
    sources.document = pets(sources, "/cats", "/birds")
    opened = await console(new, "/console/providers/zoo")
    page = opened.page
    await page.get_by_role("button", name="Refresh …").click()
    await expect(page.get_by_role("heading", name="What a refresh would change")).to_be_visible(timeout=SLOW)
    await expect(page.locator("main")).to_contain_text("GET /birds")
    assert await opened.axe_violations() == []
    await page.get_by_role("button", name="Refresh now").click()
    await expect(page.get_by_role("status").first).to_contain_text("Refreshed", timeout=SLOW)
    await expect(page.locator("main")).to_contain_text("zoo.listBirds")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator("main")).to_contain_text("This provider is paused")
    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()
    with new.client() as client:
        assert client.get("/providers/zoo").json()["enabled"] is True


async def test_a_credential_is_replaced_and_is_nowhere_in_the_browser(
    console: OpenConsole, new: RunningGateway, sources: Upstreams
) -> None:
    with new.client() as client:
        body = {"name": "zoo", "source": {"document": pets(sources, "/cats")}}
        assert client.post("/providers", json=body).status_code == 201
    opened = await console(new, "/console/providers/zoo/credentials")
    page = opened.page
    await page.get_by_role("link", name="Store key").click()
    await page.get_by_label("Value", exact=True).fill(SECRET)
    await page.get_by_role("button", name="Store", exact=True).click()
    await expect(page.get_by_role("status")).to_contain_text("never shown again")
    await page.get_by_role("button", name="Check").click()
    await expect(page.locator("main")).to_contain_text("accepted", timeout=SLOW)
    assert SECRET not in await opened.stored()
    assert [one.url for one in opened.observed.requests if SECRET in one.url] == []
