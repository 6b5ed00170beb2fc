"""The tools of the catalogue send what the vendors' own SDKs send for the same operations: tests/plugins."""

import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from app.providers.plugins.entry import PluginCredential, PluginEntry
from app.providers.plugins.loader import PluginCatalogue
from benchmarks.corpus.download import CorpusUnavailableError
from tests.harness.gateway import RunningGateway
from tests.interop.environments import InstallError
from tests.plugins.record import record, stored
from tests.plugins.recorder import CREDENTIAL, TOKEN, Recorder, recorder
from tests.plugins.requests import unexplained
from tests.plugins.sdks import SDKS, document

T = TypeVar("T")
USERS = {"twilio": "AC" + "0" * 32, "mailchimp": "user"}
BASE_URLS = {"mailchimp": "https://us6.api.mailchimp.com/3.0"}
"""Where the address of an API depends on the account: that of the account for which the SDK was recorded."""


@pytest.fixture(scope="module")
def upstream() -> Iterator[Recorder]:
    """The recorder in place of all APIs."""
    with recorder() as running:
        yield running


@pytest.mark.parametrize("plugin", sorted(SDKS))
def test_each_tool_sends_what_the_sdk_sends(plugin: str, gateway: RunningGateway, upstream: Recorder) -> None:
    recorded = stored(plugin)
    entry = PluginCatalogue().read(plugin)
    enable(entry, gateway, upstream)
    used: set[str] = set()
    problems: dict[str, Any] = {}
    with gateway.client() as client:
        for operation in recorded["operations"]:
            tool = operation["tool"]
            call = upstream.begin({})
            response = client.post(f"/toolsets/{plugin}/tools/{tool}/call", json=operation["arguments"])
            if len(call.requests) != 1:
                problems[tool] = response.text
            elif found := unexplained(recorded, operation, call.requests[0], used):
                problems[tool] = dict.fromkeys(found, call.requests[0])
    assert problems == {}
    declared = {one["form"] for one in recorded["equivalent"]} | {
        one["at"] for one in recorded["differences"]
    }
    assert declared - used == set(), "a reason without a difference"


@pytest.mark.parametrize("plugin", sorted(SDKS))
def test_the_recorded_requests_are_those_of_the_sdk(plugin: str) -> None:
    recorded = installed(lambda: record(plugin))
    assert recorded == stored(plugin), f"make plugin-requests ARGS={plugin}"


def enable(entry: PluginEntry, gateway: RunningGateway, upstream: Recorder) -> None:
    """Enable a plugin with the document of its mirror, at the recorder in place of its API."""
    source = entry.document
    assert source is not None
    [mirror, *_] = source.mirrors
    configuration = {
        "settings": {"base_url": upstream.address(BASE_URLS.get(entry.name) or entry.base_url or "")},
        "credentials": {
            slot: credential(entry.name, one, upstream) for slot, one in entry.credentials.items()
        },
        "document": installed(lambda: document(mirror)).decode(),
    }
    with gateway.client(timeout=120) as client:
        response = client.put(f"/plugins/{entry.name}", json=configuration)
        assert response.status_code == 201, response.text
        assert response.json()["missing_tools"] == []
        for one in source.operations:
            if one.read_only is not None:
                tool = client.get(f"/tools/{entry.name}.{one.name}").json()
                assert tool["annotations"]["read_only"] is one.read_only


def credential(plugin: str, wanted: PluginCredential, upstream: Recorder) -> Any:
    """Return the credential of the recorded SDK; an OAuth2 client gets the same token."""
    if wanted.kind == "basic":
        return f"{USERS[plugin]}:{CREDENTIAL}"
    if wanted.kind == "oauth2":
        return {
            "kind": "oauth2",
            "grant_type": "refresh_token",
            "client_id": "agent",
            "client_secret": "secret-of-the-agent",
            "refresh_token": "refresh-token-of-the-agent",
            "token_url": f"{upstream.url}{TOKEN}",
        }
    return CREDENTIAL


def installed(download: Callable[[], T]) -> T:
    """Return what is downloaded; where that fails the test is skipped, and fails under continuous integration."""
    try:
        return download()
    except (InstallError, CorpusUnavailableError) as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
