"""The tools of the catalogue send what the vendors' own SDKs send for the same operations: tests/plugins."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from app.openapi.model import DocumentLimits
from app.openapi.yaml_load import load_yaml
from app.plugins.entry import PluginCredential, PluginDocument, PluginEntry
from app.plugins.loader import PluginCatalogue
from app.plugins.overlay import overlay_of
from benchmarks.corpus.download import CorpusUnavailableError
from tests.harness.gateway import RunningGateway
from tests.interop.environments import InstallError
from tests.plugins.record import record, stored
from tests.plugins.recorder import Recorder, recorder
from tests.plugins.requests import unexplained
from tests.plugins.sdks import SDKS, document

T = TypeVar("T")
CREDENTIAL = "test-credential"
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
                problems[tool] = {at: call.requests[0] for at in found}
    assert problems == {}
    declared = {one["form"] for one in recorded["equivalent"]} | {one["at"] for one in recorded["differences"]}
    assert declared - used == set(), "a reason without a difference"


@pytest.mark.parametrize("plugin", sorted(SDKS))
def test_the_recorded_requests_are_those_of_the_sdk(plugin: str) -> None:
    recorded = installed(lambda: record(plugin))
    assert recorded == stored(plugin), f"make plugin-requests ARGS={plugin}"


def enable(entry: PluginEntry, gateway: RunningGateway, upstream: Recorder) -> None:
    """Enable a plugin with the document of its mirror, at the recorder in place of its API."""
    source = entry.document
    assert source is not None
    base = upstream.address(BASE_URLS.get(entry.name) or entry.base_url or "")
    registration = {
        "name": entry.name,
        "source": {"document": served_by(base, installed(lambda: document(source.mirrors[0]))), "overlay": overlay_of(entry, source)},
        "credentials": {slot: credential(entry.name, one) for slot, one in entry.credentials.items()},
    }
    with gateway.client(timeout=120) as client:
        response = client.post("/providers", json=registration)
        assert response.status_code == 201, response.text
        response = client.put(f"/toolsets/{entry.name}", json={"title": entry.title, "definition": definition(entry, source)})
        assert response.is_success, response.text


def credential(plugin: str, wanted: PluginCredential) -> dict[str, str]:
    """Return the credential of the recorded SDK; a bearer token in place of an OAuth2 client that would get it."""
    if wanted.kind == "basic":
        return {"kind": "basic", "username": USERS[plugin], "password": CREDENTIAL}
    if wanted.kind == "api_key":
        return {"kind": "api_key", "value": CREDENTIAL}
    return {"kind": "bearer", "token": CREDENTIAL}


def definition(entry: PluginEntry, source: PluginDocument) -> dict[str, Any]:
    """Return the definition of the toolset."""
    changes = {f"{entry.name}.{one.name}": {"name": one.name, "presets": one.presets} for one in source.operations}
    return {"providers": [entry.name], "changes": changes}


def served_by(base: str, content: bytes) -> dict[str, Any]:
    """Return a document with the recorder as its only server."""
    is_json = content.lstrip().startswith(b"{")
    given = json.loads(content) if is_json else load_yaml(content, limits=DocumentLimits(), warn=lambda *_: None)
    scheme, _, rest = base.partition("://")
    host, _, path = rest.partition("/")
    if "swagger" in given:
        return {**given, "schemes": [scheme], "host": host, "basePath": f"/{path}"}
    if "discoveryVersion" in given:
        return {**given, "rootUrl": f"{base}/", "servicePath": "", "baseUrl": f"{base}/"}
    for item in given["paths"].values():
        for node in (item, *item.values()):
            if isinstance(node, dict):
                node.pop("servers", None)
    return {**given, "servers": [{"url": base}]}


def installed(download: Callable[[], T]) -> T:
    """Return what is downloaded; where that fails the test is skipped, and fails under continuous integration."""
    try:
        return download()
    except (InstallError, CorpusUnavailableError) as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
