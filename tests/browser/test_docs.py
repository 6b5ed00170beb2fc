"""`/docs` in Chromium: accessible, within its Content Security Policy, and without a trace of the key."""

import pytest
from playwright.async_api import expect

# Each operation of the page is a stop, and there are about a hundred.
_TABS_MAX = 150


async def send(docs, operation):
    """Open an operation, send its form as it is, and return its section after the response."""
    section = docs.page.locator(f"#{operation}")
    await section.locator("summary").first.click()
    await section.get_by_role("button", name="Send").click()
    await expect(section.locator("[data-status]")).to_contain_text("Status")
    return section


async def use_key(docs, key):
    await docs.page.get_by_label("API key", exact=True).fill(key)
    await docs.page.get_by_role("button", name="Use key").click()
    await expect(docs.page.locator("#key-state")).to_have_text("A key is set.")


async def tab_to(page, selector):
    """Press Tab until the element has the focus."""
    for _ in range(_TABS_MAX):
        await page.keyboard.press("Tab")
        if await page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    pytest.fail(f"{selector} is not reached by {_TABS_MAX} presses of Tab")


@pytest.mark.parametrize("width", [360, 768, 1440])
async def test_page_has_no_axe_violations_and_no_horizontal_scrolling(opened, width):
    docs = await opened("/docs", width=width)
    await docs.page.evaluate("""() => {
      for (const id of ["createKey", "callTool", "schema-KeyView"]) {
        const section = document.getElementById(id);
        section.open = true;
        for (const part of section.querySelectorAll("details")) part.open = true;
      }
      // Axe judges what is visible, but takes its time for what is not.
      for (const hidden of document.querySelectorAll("details:not([open]) > :not(summary)")) hidden.remove();
    }""")
    for color_scheme in ("light", "dark"):
        await docs.page.emulate_media(color_scheme=color_scheme)
        assert await docs.axe_violations() == []
    assert await docs.page.evaluate("document.documentElement.scrollWidth") <= width


async def test_page_with_every_section_open_and_a_response_has_no_axe_violations(opened, gateway):
    docs = await opened("/docs")
    await use_key(docs, gateway.key)
    await send(docs, "listKeys")
    await docs.page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    # Contrast takes most of the time; these sections have the colors of those that the test above opens.
    assert await docs.axe_violations(without=["color-contrast"]) == []


async def test_all_requests_are_for_files_of_the_page(opened, gateway):
    docs = await opened("/docs")
    await expect(docs.page.get_by_role("heading", level=1)).to_contain_text("utcp-gateway")
    paths = {request.url.removeprefix(gateway.url) for request in docs.observed.requests}
    assert {"/docs", "/docs/assets/docs.css", "/docs/assets/docs.js"} <= paths
    assert paths <= {"/docs", "/docs/assets/docs.css", "/docs/assets/docs.js", "/docs/assets/icon.svg"}


async def test_policy_is_enforced_and_violations_are_noticed(opened):
    docs = await opened("/docs")
    for script, directive in (
        ("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/x.png'}))", "img-src"),
        ("document.body.setAttribute('style', 'color: red')", "style-src-attr"),
        ("fetch('http://127.0.0.1:9/').catch(() => {})", "connect-src"),
        ("try { document.body.innerHTML = '<p>x</p>' } catch {}", "require-trusted-types-for"),
    ):
        async with docs.page.expect_console_message(
            lambda message, name=directive: f"CSP {name} " in message.text
        ):
            await docs.page.evaluate(f"() => {{ {script} }}")
        assert any(f"CSP {directive} " in error for error in docs.observed.errors)
    docs.observed.errors.clear()
    docs.observed.requests.clear()


async def test_key_is_in_nothing_that_the_browser_stores_and_is_forgotten_by_a_reload(opened, gateway):
    docs = await opened("/docs")
    await use_key(docs, gateway.key)
    section = await send(docs, "listTools")
    await expect(section.locator("[data-status]")).to_have_text("Status 200 application/json")
    await expect(section.locator("[data-result]")).to_contain_text('"items"')
    sent = await docs.observed.requests[-1].all_headers()
    assert sent["authorization"] == f"Bearer {gateway.key}"
    assert gateway.key not in docs.observed.requests[-1].url
    assert gateway.key not in await docs.stored()
    await docs.page.reload()
    assert gateway.key not in await docs.stored()
    await expect(docs.page.locator("#key-state")).to_have_text("No key is set.")
    section = await send(docs, "listTools")
    await expect(section.locator("[data-status]")).to_have_text("Status 401 application/problem+json")
    assert "authorization" not in await docs.observed.requests[-1].all_headers()
    # Chromium reports every response with 4xx.
    assert len(docs.observed.errors) == 1
    docs.observed.errors.clear()


async def test_key_is_forgotten_on_request(opened, gateway):
    docs = await opened("/docs")
    await use_key(docs, gateway.key)
    await docs.page.get_by_role("button", name="Forget key").click()
    await expect(docs.page.locator("#key-state")).to_have_text("No key is set.")


async def test_example_of_a_body_is_accepted_as_it_is(opened, gateway):
    # The examples are those of the sample API.
    template = {"call_template_type": "http", "url": "http://127.0.0.1:9/books", "http_method": "GET"}
    with gateway.client() as client:
        made = client.post("/tools", json={"provider": "library", "name": "any", "call_template": template})
    assert made.status_code in (201, 409), made.text
    docs = await opened("/docs#createKey")
    await use_key(docs, gateway.key)
    section = docs.page.locator("#createKey")
    assert await section.get_attribute("open") is not None
    await section.get_by_role("button", name="Send").click()
    await expect(section.locator("[data-status]")).to_have_text("Status 201 application/json")
    await expect(section.locator("[data-result]")).to_contain_text('"support agent"')


async def test_parameters_are_sent_where_they_belong(opened, gateway):
    docs = await opened("/docs#listEvents")
    await use_key(docs, gateway.key)
    section = docs.page.locator("#listEvents")
    await section.get_by_label("limit").fill("3")
    await section.get_by_label("actor").fill("a&b=c/d")
    await section.get_by_role("button", name="Send").click()
    await expect(section.locator("[data-status]")).to_contain_text("Status")
    assert docs.observed.requests[-1].url == f"{gateway.url}/events?actor=a%26b%3Dc%2Fd&limit=3"


async def test_request_is_sent_with_the_keyboard_only(opened, gateway):
    page = (await opened("/docs")).page
    await tab_to(page, ".skip")
    await page.keyboard.press("Enter")
    await tab_to(page, "#api-key")
    await page.keyboard.type(gateway.key)
    await page.keyboard.press("Enter")
    await tab_to(page, "#live > summary")
    await page.keyboard.press("Enter")
    await tab_to(page, "#live [type=submit]")
    await page.keyboard.press("Enter")
    await expect(page.locator("#live [data-status]")).to_have_text("Status 200 application/json")


async def test_reference_is_complete_without_javascript(browser, gateway):
    context = await browser.new_context(java_script_enabled=False)
    try:
        page = await context.new_page()
        await page.goto(f"{gateway.url}/docs")
        await page.locator("#createKey > summary").click()
        await expect(page.locator("#createKey").get_by_role("heading", name="Request body")).to_be_visible()
        await expect(page.locator("#createKey").get_by_role("button", name="Send")).to_be_disabled()
    finally:
        await context.close()
