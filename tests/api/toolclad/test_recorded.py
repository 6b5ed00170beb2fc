"""Tools of manifests whose calls are recorded, replayed and mocked, by the mode of a toolset."""

import pytest

from tests.api.toolclad.conftest import SECRET
from tests.api.toolclad.test_calls import VARIABLES, lookup

CALL = "/toolsets/{}/tools/words_lookup/call"


@pytest.fixture
async def toolsets(clad, site):
    await clad.register("words", lookup(site.url), variables=VARIABLES)
    admin = await clad.application.client("admin")
    assert (await admin.post("/recordings", json={"name": "r"})).status_code == 201
    modes = {
        "recorded": {"mode": "record", "recording": "r"},
        "replayed": {"mode": "replay", "recording": "r"},
        "mocked": {"mode": "mock"},
    }
    for name, upstream in modes.items():
        definition = {"tools": ["words.lookup"], "upstream": upstream}
        made = await admin.put(f"/toolsets/{name}", json={"definition": definition})
        assert made.status_code in (200, 201), made.text
    yield admin
    for name in modes:
        await admin.delete(f"/toolsets/{name}")
    await admin.delete("/recordings/r")


async def test_results_are_replayed_without_another_request(clad, site, toolsets) -> None:
    sent = {"word": "sea", "limit": 99}
    live = await clad.client.post(CALL.format("recorded"), json=sent)
    assert live.status_code == 200, live.text
    assert live.json() == {"ok": True}
    requests = len(site.requests)
    replayed = await clad.client.post(CALL.format("replayed"), json=sent)
    assert replayed.status_code == 200, replayed.text
    assert (replayed.content, replayed.headers["x-call-source"]) == (live.content, "recording")
    assert len(site.requests) == requests
    exported = (await toolsets.get("/recordings/r/export")).text
    assert "sea" in exported
    assert SECRET not in exported


async def test_mocked_results_fit_the_output_schema_of_the_manifest(clad, site, toolsets) -> None:
    requests = len(site.requests)
    mocked = await clad.client.post(CALL.format("mocked"), json={"word": "sea"})
    assert mocked.status_code == 200, mocked.text
    assert mocked.headers["x-call-source"] == "mock"
    assert isinstance(mocked.json()["ok"], bool)
    assert len(site.requests) == requests


@pytest.mark.parametrize("toolset", ["replayed", "mocked"])
async def test_what_was_not_executed_has_no_envelope(clad, toolsets, toolset) -> None:
    rejected = await clad.client.post(f"{CALL.format(toolset)}?envelope=true", json={"word": "sea"})
    assert rejected.status_code == 422, rejected.text
    assert "nothing was executed" in rejected.json()["detail"]


async def test_a_recorded_call_has_its_envelope(clad, toolsets) -> None:
    envelope = await clad.client.post(f"{CALL.format('recorded')}?envelope=true", json={"word": "sea"})
    assert envelope.status_code == 200, envelope.text
    assert envelope.json()["status"] == "success"
