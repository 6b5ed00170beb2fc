"""What the overview says needs attention is there, and its links lead to pages that exist."""

import re

import pytest

from tests.api.console.test_hostile_requests import admin, application
from tests.api.session.conftest import text_of

__all__ = ["admin", "application"]


@pytest.fixture
async def rejected(application, admin):
    """The names of two providers whose calls were rejected because they have no credential."""
    names = ("letters", "parcels")
    for name in names:
        document = {
            "openapi": "3.1.0", "info": {"title": name, "version": "1"}, "security": [{"key": []}],
            "servers": [{"url": "http://127.0.0.1:9"}],
            "paths": {"/all": {"get": {"operationId": "list", "responses": {"200": {"description": "ok"}}}}},
            "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
        }  # fmt: skip
        made = await admin.post("/providers", json={"name": name, "source": {"document": document}})
        assert made.status_code == 201, made.text
        assert (await admin.post(f"/tools/{name}.list/call", json={})).status_code == 424
    await application.services.call_log.flush()
    return names


async def attention(client):
    page = await client.get("/console")
    assert page.status_code == 200, page.text
    section = re.search(r'aria-labelledby="attention">(.*?)</section>', page.text, re.DOTALL)[1]
    return text_of(page), re.findall(r'href="([^"]+)"', section)


async def test_needs_attention_leads_to_nothing_that_is_gone(application, admin, rejected):
    text, links = await attention(admin)
    for name in rejected:
        assert f"{name} needs a credential" in text
        assert f"/console/providers/{name}/credentials" in links

    assert (await admin.delete("/providers/letters")).status_code == 204
    stored = await admin.put(
        "/providers/parcels/credentials/key", json={"kind": "api_key", "value": "s3cret"}
    )
    assert stored.status_code == 201, stored.text

    text, links = await attention(admin)
    assert "needs a credential" not in text
    for link in links:
        assert (await admin.get(link.replace("&amp;", "&"))).status_code == 200, link


async def test_a_key_that_cannot_see_a_provider_is_not_led_to_it(application, admin):
    reader = await application.client("calls:read")
    _, links = await attention(reader)
    assert [link for link in links if "/console/providers/" in link] == []
