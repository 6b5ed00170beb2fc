"""The page of a tool in Chromium: its arguments are typed, checked, sent, and what comes back is shown."""

import asyncio
import json
import re

import pytest
from playwright.async_api import expect

from tests.browser.console.population import populate, upstreams
from tests.harness.gateway import serve

SEARCH = "/console/tools/library.searchBooks"
CANCEL = "/console/tools/library.cancelReservation"
LOAN = "/console/tools/library.createLoan"


@pytest.fixture(scope="module")
def populated(servers, tmp_path_factory):
    """A gateway with everything but the 10,000 tools, which these tests may change."""
    folder = tmp_path_factory.mktemp("tools")
    with upstreams(folder) as running, serve(servers, folder, CALL_LOG_BODIES="all") as gateway:
        yield populate(gateway, running, tools=0)


@pytest.fixture
def open_tool(populated, console):
    """Opens a page of a tool as an administrator."""

    async def open_path(path, **options):
        return await console(populated.gateway, path, key=populated.keys["admin"], **options)

    return open_path


async def overflow(page):
    return await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


async def press(page, name):
    await page.locator("#try_it").get_by_role("button", name=name, exact=True).last.click()


async def test_form_is_called_and_the_url_shows_it_again(open_tool):
    page = (await open_tool(SEARCH)).page
    await page.get_by_label("q", exact=True).fill("sea-wolf")
    await page.get_by_label("adventure").check()
    await page.get_by_label("limit", exact=True).fill("3")
    await press(page, "Call")
    await expect(page.get_by_role("heading", name="Response")).to_be_focused()
    await expect(page.locator(".json-tree")).to_contain_text("The Sea-Wolf")
    await expect(page.locator(".result-head")).to_contain_text("200")
    assert "args=" in page.url
    await page.reload()
    await expect(page.get_by_label("q", exact=True)).to_have_value("sea-wolf")
    await expect(page.get_by_label("adventure")).to_be_checked()
    last_call = page.get_by_role("heading", name="Last call")
    # The record is written soon after the call.
    async with asyncio.timeout(30):
        while not await last_call.is_visible():
            await asyncio.sleep(0.2)
            await page.reload()
    await page.get_by_role("link", name="Record of the call").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("library.searchBooks")


async def test_request_is_shown_and_not_sent(open_tool, populated):
    page = (await open_tool(SEARCH)).page
    await page.get_by_label("q", exact=True).fill("a b")
    await press(page, "Show the request")
    await expect(page.get_by_role("heading", name="This request would be sent")).to_be_visible()
    await expect(page.locator(".outcome pre").first).to_contain_text(
        re.compile(r"GET http://127\.0\.0\.1:\d+/books\?q=a(%20|\+)b")
    )


async def test_form_becomes_json_and_a_form_again(open_tool):
    page = (await open_tool(SEARCH)).page
    await page.get_by_label("q", exact=True).fill("sea")
    await page.get_by_role("button", name="JSON", exact=True).click()
    await expect(page.get_by_label("Arguments as JSON")).to_have_value('{\n  "q": "sea"\n}')
    assert "as=json" in page.url
    await page.get_by_label("Arguments as JSON").fill('{"q": "wolf", "limit": 2}')
    await press(page, "Call")
    await expect(page.locator(".json-tree")).to_contain_text("The Sea-Wolf")
    await page.get_by_role("button", name="Form", exact=True).click()
    await expect(page.get_by_label("limit", exact=True)).to_have_value("2")


async def test_json_that_cannot_be_read_says_where(open_tool):
    page = (await open_tool(SEARCH + "?as=json")).page
    await page.get_by_label("Arguments as JSON").fill('{"q": "sea",}')
    await press(page, "Call")
    await expect(page.get_by_label("Arguments as JSON")).to_be_focused()
    await expect(page.locator("#args-errors")).to_contain_text("column 13")
    await expect(page.get_by_label("Arguments as JSON")).to_have_value('{"q": "sea",}')


async def test_error_of_the_gateway_is_at_its_field(open_tool):
    page = (await open_tool(SEARCH + '?args={"limit":"many"}')).page
    await press(page, "Call")
    await expect(page.get_by_role("heading", name="The gateway rejected the call")).to_be_visible()
    field = page.get_by_label("limit", exact=True)
    await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(field).to_be_focused()
    described = (await field.get_attribute("aria-describedby") or "").split()
    await expect(page.locator(f"#{described[0]}")).to_contain_text("integer")


async def test_error_of_the_upstream_is_named_as_its(open_tool):
    page = (await open_tool("/console/tools/library.getBook?args=" + '{"book_id":"bk-999"}')).page
    await press(page, "Call")
    await expect(page.get_by_role("heading", name="The upstream failed")).to_be_visible()
    await expect(page.locator(".result-head")).to_contain_text("404")


async def test_call_that_deletes_asks_with_the_exact_request(open_tool):
    page = (await open_tool(CANCEL)).page
    await page.locator("#try-form input:visible").first.fill("rs-404")
    await press(page, "Call …")
    await expect(
        page.get_by_role("heading", name="This call may delete or overwrite something")
    ).to_be_focused()
    await expect(page.locator("#try_it pre").first).to_contain_text("DELETE http://127.0.0.1")
    await press(page, "Back to the arguments")
    await expect(page.locator("#try-form input:visible").first).to_have_value("rs-404")
    await press(page, "Call …")
    await press(page, "Call now")
    await expect(page.locator(".result-head")).to_be_visible()


async def test_confirmation_works_without_script_and_a_reload_calls_only_once(open_tool, populated):
    page = (await open_tool(LOAN, java_script_enabled=False)).page
    with populated.client() as client:
        tool = client.get("/tools/library.createLoan").json()
        loan = tool["inputs"]["$defs"]["LoanRequest"]["examples"][0]
        args = json.dumps({"body": loan} if "body" in tool["inputs"]["properties"] else loan)
        before = client.get("/calls", params={"tool": tool["name"], "total": True}).json()["total"]
    await page.goto(f"{populated.gateway.url}{LOAN}?as=json&args={args}")
    await press(page, "Call …")
    await press(page, "Call now")
    await expect(page.locator(".result-head")).to_be_visible()
    shown = await page.locator(".result-head .badge").first.inner_text()
    await page.reload()
    await expect(page.locator(".result-head .badge").first).to_have_text(shown)
    # Records are written soon after their calls.
    await asyncio.sleep(3)
    with populated.client() as client:
        found = client.get("/calls", params={"tool": tool["name"], "limit": 5, "total": True}).json()
    fresh = [one for one in found["items"][: found["total"] - before] if one["outcome"] != "replayed"]
    assert len(fresh) == 1


async def test_items_are_added_without_script(open_tool, populated):
    gateway = populated.gateway
    body = {
        "call_template_type": "http",
        "url": "http://127.0.0.1:9/x",
        "http_method": "POST",
        "body_field": "body",
    }
    inputs = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}},
              "labels": {"type": "object", "additionalProperties": {"type": "integer"}}}}  # fmt: skip
    with populated.client() as client:
        made = client.post(
            "/tools", json={"provider": "library", "name": "lists", "inputs": inputs, "call_template": body}
        )
        assert made.status_code in (201, 409), made.text
        name = "library.lists"
    try:
        page = (await open_tool(f"/console/tools/{name}", java_script_enabled=False)).page
        await page.get_by_role("button", name="Add item").click()
        await page.locator("[name='/names/0']").fill("one")
        await page.get_by_role("button", name="Add item").click()
        await page.locator("[name='/names/1']").fill("two")
        await page.locator(".foldable > summary", has_text="labels").click()
        await page.locator("[name='key:/labels/~row0']").fill("x")
        await page.locator("[name='/labels/~row0']").fill("5")
        await page.get_by_role("button", name="Remove 1").first.click()
        await page.get_by_role("button", name="JSON", exact=True).click()
        await expect(page.get_by_label("Arguments as JSON")).to_have_value(
            '{\n  "names": [\n    "two"\n  ],\n  "labels": {\n    "x": 5\n  }\n}'
        )
    finally:
        with populated.client() as client:
            client.delete(f"/tools/{name}")
    assert gateway.process.poll() is None


async def test_description_is_edited_compared_and_taken_back(open_tool):
    page = (await open_tool("/console/tools/library.getStock?view=definition")).page
    await page.get_by_text("Edit description, tags and words").click()
    field = page.get_by_label("Description")
    was = await field.input_value()
    await field.fill(was + " Counts hidden\u202e copies.")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_contain_text("Saved the description.")
    await page.get_by_text("What differs").click()
    await expect(page.locator("ins")).to_contain_text("Counts hidden")
    await page.get_by_role("link", name="Versions").click()
    await expect(page.locator(".versions ins").first).to_contain_text("Counts hidden")
    await page.goto(page.url.replace("versions", "definition"))
    await page.get_by_text("Edit description, tags and words").click()
    await page.get_by_role("button", name="Use that of the source").click()
    await expect(page.get_by_text("It is the same.")).to_be_visible()


async def test_tool_is_disabled_and_enabled_by_undo(open_tool):
    page = (await open_tool("/console/tools/library.getOpeningHours")).page
    await page.get_by_role("button", name="Disable").click()
    await expect(page.get_by_text("This tool is disabled")).to_be_visible()
    if await page.get_by_role("button", name="Undo").count():
        await page.get_by_role("button", name="Undo").click()
    else:
        await page.get_by_role("button", name="Enable").click()
    await expect(page.get_by_role("button", name="Disable")).to_be_visible()


async def test_running_call_is_shown_and_can_be_cancelled(open_tool):
    page = (await open_tool(SEARCH)).page
    await page.route("**/console/tools/*", lambda _: None)
    await press(page, "Call")
    await expect(page.get_by_text("Calling …")).to_be_visible()
    await page.get_by_role("button", name="Cancel").click()
    await expect(page.get_by_text("Calling …")).to_have_count(0)
    await page.unroute("**/console/tools/*")


async def test_snippets_have_the_arguments_and_no_key(open_tool, populated):
    page = (await open_tool(SEARCH + '?args={"q":"it\'s"}')).page
    code = page.locator(".snippets")
    await expect(code.locator("summary")).to_have_text(
        ["curl", "Python", "TypeScript", "MCP", "OpenAI", "Anthropic"]
    )
    await code.get_by_text("Python", exact=True).click()
    await expect(code).to_contain_text('gateway.call("library.searchBooks", {"q": "it\'s"})')
    assert populated.keys["admin"] not in await page.content()


async def test_access_of_another_key_is_explained(open_tool):
    page = (await open_tool(SEARCH + "?view=access")).page
    await page.get_by_label("Key").select_option(label="auditor key")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.get_by_role("heading", name="auditor key may not call this tool now")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
async def test_states_of_the_page_are_accessible_and_fit(width, scheme, open_tool):
    opened = await open_tool(SEARCH, width=width, color_scheme=scheme)
    page = opened.page
    found = {}

    async def judge(state):
        found[state] = [
            *await opened.axe_violations(),
            *([await overflow(page)] if await overflow(page) > 0 else []),
        ]

    await judge("form")
    await press(page, "Call")
    await expect(page.locator(".json-tree")).to_be_visible()
    await page.evaluate("scrollTo(0, 0)")
    await judge("response")
    base = page.url.partition("/console")[0]
    await page.goto(base + SEARCH + '?args={"limit":"many","odd":{"a":[1]}}')
    await press(page, "Call")
    await expect(page.locator(".problem")).to_be_visible()
    await page.evaluate("scrollTo(0, 0)")
    await judge("errors")
    await page.goto(base + CANCEL)
    await page.locator("#try-form input:visible").first.fill("rs-404")
    await press(page, "Call …")
    await expect(page.locator(".question")).to_be_visible()
    await page.evaluate("scrollTo(0, 0)")
    await judge("question")
    for view in ("definition", "versions", "calls", "access"):
        await page.goto(f"{base}{SEARCH}?view={view}")
        await judge(view)
    assert {state: one for state, one in found.items() if one} == {}
