"""The tests that the entries of the catalogue have: each with the gateway, and a local API in the vendor's place."""

from typing import Any

import pytest

from app.providers.plugins import PluginCatalogue, PluginEntry
from app.providers.plugins.entry import PluginTest
from tests.api.plugins.conftest import CANARY

CATALOGUE = PluginCatalogue()
MANUALS = [entry for entry in map(CATALOGUE.read, CATALOGUE.names()) if entry.manual is not None]
CASES = [
    pytest.param(entry, test, id=f"{entry.name}-{number}")
    for entry in MANUALS
    for number, test in enumerate(entry.tests)
]
SECRETS = {
    "basic": f"user:{CANARY}",
    "connection_string": f"postgresql://reader:{CANARY}@db.example.com:5432/shop",
}


def configuration(entry: PluginEntry, test: PluginTest, url: str) -> dict[str, Any]:
    settings = dict(test.settings)
    if "base_url" in entry.settings and test.response is not None:
        settings["base_url"] = url
    credentials = {slot: SECRETS.get(one.kind, CANARY) for slot, one in entry.credentials.items()}
    return {"settings": settings, "credentials": credentials}


def test_every_tool_has_a_test() -> None:
    for entry in MANUALS:
        assert {test.tool for test in entry.tests} == set(entry.tool_names), entry.name


@pytest.mark.parametrize(("entry", "test"), CASES)
async def test_the_expected_request_and_result(
    api, admin, vendor, entry: PluginEntry, test: PluginTest
) -> None:
    enabled = await admin.put(f"/plugins/{entry.name}", json=configuration(entry, test, vendor.url))
    assert enabled.status_code == 201, enabled.text
    caller = await api.client("tools:read", "tools:call")
    if test.request is not None:
        described = await caller.post(
            f"/toolsets/{entry.name}/tools/{test.tool}/call?dry_run=true", json=test.arguments
        )
        assert described.status_code == 200, described.text
        sent = described.json()
        expected = test.request
        url = (
            expected.url if test.response is None else expected.url.replace(entry.base_url or "", vendor.url)
        )
        assert (sent["method"], sent["url"]) == (expected.method, url)
        headers = {name.lower(): value for name, value in dict(sent["headers"]).items()}
        for name, value in expected.headers.items():
            assert headers[name.lower()] == value
        if expected.body is not None:
            assert sent["body"] == expected.body
    if test.response is None and test.error is None:
        return
    if test.response is not None:
        vendor.status, vendor.body = test.response.status, test.response.body
        vendor.headers = test.response.headers
    response = await caller.post(f"/toolsets/{entry.name}/tools/{test.tool}/call", json=test.arguments)
    assert CANARY not in response.text
    if test.error is not None:
        assert response.status_code >= 400
        assert test.error in response.text
        if test.response is None:
            assert vendor.requests == []
        return
    assert response.status_code == 200, response.text
    assert response.json() == test.result
    assert CANARY in str(vendor.requests[-1]["headers"])
