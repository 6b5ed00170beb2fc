"""What the gateway of each release stored is served by this one: its rows are loaded, upgraded and used.

The rows are SQL of their release (tests/releases), so that no model of today decides what they look like. Those of
the next release are written anew by this checkout, as its release will.
"""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest

from app.storage.database import asyncpg_dsn, migrate, schema_state
from scripts.release import DATA, head_revision, revisions
from scripts.release_data import write_release_data
from tests.harness.gateway import RunningGateway, serve
from tests.harness.release_upstream import URL, ReleaseUpstream, release_upstream, shop_document
from tests.harness.servers import Pair

Json = dict[str, Any]

NEXT = "next"

# The rows get older with each release; those that a gateway deletes for their age would be missed here.
RETENTION = {
    "APPROVAL_RETENTION_DAYS": "3650",
    "CALL_RETENTION_DAYS": "36500",
    "STATS_RETENTION_DAYS": "3650",
    "STATS_MINUTE_RETENTION_DAYS": "3650",
}


@dataclass(frozen=True, slots=True)
class UpgradedRelease:
    """A gateway on the upgraded rows of a release, and what these are expected to be."""

    gateway: RunningGateway
    upstream: ReleaseUpstream
    expected: Json

    def client(self, key: str = "admin_key") -> httpx2.Client:
        """Return a client with a key that the release created."""
        return self.gateway.client(self.expected[key])

    def get(self, path: str, **query: Any) -> Json:
        """Return the JSON of a successful GET."""
        with self.client() as client:
            response = client.get(path, params=query)
        assert response.status_code == 200, response.text
        found: Json = response.json()
        return found

    def call(self, tool: str, arguments: Json, **headers: str) -> httpx2.Response:
        """Call a tool with the key that the release created first."""
        with self.client() as client:
            return client.post(f"/tools/{tool}/call", json=arguments, headers=headers)


async def load(dsn: str, folder: Path, revision: str) -> None:
    """Load the rows of a release at its revision, and upgrade to the newest."""
    await migrate(dsn, revision=revision)
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    try:
        await connection.execute((folder / "data.sql").read_text(encoding="utf-8"))
    finally:
        await connection.close()
    await migrate(dsn)
    assert await schema_state(dsn) == "current"


@pytest.fixture(scope="module", params=[*revisions(), NEXT])
def upgraded(
    request: pytest.FixtureRequest, servers: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[UpgradedRelease]:
    version: str = request.param
    if version == NEXT:
        rows, revision = tmp_path_factory.mktemp("rows"), head_revision()
        write_release_data(rows, version=version, revision=revision)
    else:
        rows, revision = DATA / version, revisions()[version]
    expected = json.loads((rows / "expected.json").read_bytes())
    dsn = servers.create_database(migrated=False)
    try:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, load(dsn, rows, revision)).result()
        folder = tmp_path_factory.mktemp("release")
        settings = {**RETENTION, "SEALING_KEYS": expected["sealing_keys"], "CALL_LOG_BODIES": "all"}
        with release_upstream() as upstream, serve(servers, folder, database_url=dsn, **settings) as gateway:
            yield UpgradedRelease(gateway, upstream, expected)
    finally:
        servers.drop_database(dsn)


def test_every_tool_is_called_with_its_stored_credentials_and_variables(upgraded: UpgradedRelease) -> None:
    for call in upgraded.expected["calls"]:
        response = upgraded.call(call["tool"], call["arguments"])
        assert response.status_code == call["status"], (call["tool"], response.text)
        if call["body"] is not None:
            is_json = response.headers["content-type"].startswith("application/json")
            assert (response.json() if is_json else response.text) == call["body"], call["tool"]


def test_keys_keep_their_restrictions_and_their_revocation(upgraded: UpgradedRelease) -> None:
    with upgraded.client("agent_key") as agent:
        tools = agent.get("/tools").json()["items"]
        assert {tool["name"].partition(".")[0] for tool in tools} == {"shop"}
        assert agent.get("/keys").status_code == 403
        assert agent.post("/tools/mixed.rules/call", json={}).status_code == 404
    with upgraded.client("revoked_key") as revoked:
        assert revoked.get("/tools").status_code == 401


def test_changes_of_tools_and_providers_are_kept(upgraded: UpgradedRelease) -> None:
    tool = upgraded.get("/tools/shop.listItems")
    assert (tool["description"], tool["tags"]) == ("Our items.", ["books", "public"])
    provider = upgraded.get("/providers/mixed")
    assert provider["description"] == "A manual."
    assert (provider["limits"]["total"], provider["limits"]["rate"]["requests"]) == (20, 600)


def test_variables_are_listed_without_the_values_of_secrets(upgraded: UpgradedRelease) -> None:
    text = json.dumps([upgraded.get("/variables"), upgraded.get("/providers/mixed/variables")])
    assert '"eu"' in text
    assert '"north"' in text
    assert '"TOKEN"' in text
    assert "a-token-of-the-seed" not in text


def test_a_call_with_an_idempotency_key_is_not_repeated(upgraded: UpgradedRelease) -> None:
    order = upgraded.expected["order"]
    response = upgraded.call(order["tool"], order["arguments"], **{"Idempotency-Key": order["key"]})
    assert (response.status_code, response.json()) == (200, order["body"])
    assert response.headers["Idempotency-Replayed"] == "true"
    assert response.headers["X-Call-Id"] == order["call_id"]
    assert upgraded.upstream.orders == 0


def test_records_of_calls_are_listed_with_their_sealed_bodies(upgraded: UpgradedRelease) -> None:
    order = upgraded.expected["order"]
    record = upgraded.get(f"/calls/{order['call_id']}")
    assert (record["tool"], record["status"]) == (order["tool"], 200)
    bodies = upgraded.get(f"/calls/{order['call_id']}/bodies")
    texts = [json.loads(one["text"]) for one in bodies.values() if isinstance(one, dict)]
    assert texts == [order["arguments"], order["body"]]
    until = datetime.fromisoformat(upgraded.expected["stored_on"]) + timedelta(days=2)
    listed = upgraded.get("/calls", limit=200, until=f"{until:%Y-%m-%dT00:00:00Z}")["items"]
    tools = [one["tool"] for one in listed]
    assert {call["tool"] for call in upgraded.expected["calls"]} | {order["tool"]} <= set(tools)


def test_statistics_of_stored_calls_are_counted(upgraded: UpgradedRelease) -> None:
    day = datetime.fromisoformat(upgraded.expected["stored_on"]).replace(tzinfo=UTC)
    since, until = (f"{day + timedelta(days=days):%Y-%m-%dT00:00:00Z}" for days in (-1, 2))
    counts = upgraded.get("/stats", group="tool", interval="day", since=since, until=until, limit=50)
    text = json.dumps(counts)
    assert all(f'"{call["tool"]}"' in text for call in upgraded.expected["calls"] if call["status"] == 200)


def test_events_and_imports_are_listed(upgraded: UpgradedRelease) -> None:
    actions = {event["object_type"] for event in upgraded.get("/events", limit=200)["items"]}
    assert {"provider", "tool", "key"} <= actions
    imported = upgraded.get(f"/imports/{upgraded.expected['import_id']}")
    assert imported["state"] == "done"


def test_an_approved_call_is_made_with_its_stored_arguments(upgraded: UpgradedRelease) -> None:
    approval = upgraded.expected["approval"]
    path = f"/approvals/{approval['id']}"
    with upgraded.client() as client:
        assert client.post(f"{path}/approve").json()["state"] == "executed"
    with upgraded.client("agent_key") as agent:
        result = agent.get(f"{path}/result").json()
    assert (result["upstream_status"], result["json"]["quantity"]) == (200, approval["quantity"])


def test_a_pending_change_is_approved_and_a_retained_override_returns(upgraded: UpgradedRelease) -> None:
    moved = URL.replace("127.0.0.1", "localhost")
    provider = upgraded.get("/providers/shop")
    assert provider["pending"] is not None
    assert provider["origins"] == [URL]
    with upgraded.client() as client:
        assert client.post("/providers/shop/approve").status_code == 200
        assert moved in upgraded.get("/providers/shop")["origins"]
        upgraded.upstream.document = shop_document(server=moved, operations=("items", "old"))
        assert client.post("/providers/shop/refresh").status_code == 200
    assert upgraded.get("/tools/shop.listOldItems")["enabled"] is False


@pytest.fixture
def toolset(upgraded: UpgradedRelease) -> Json:
    """What is expected of the toolset of a release; those before toolsets have none, and serve none."""
    if "toolset" not in upgraded.expected:
        assert upgraded.get("/toolsets")["items"] == []
        pytest.skip("This release had no toolsets.")
    found: Json = upgraded.expected["toolset"]
    return found


def test_a_toolset_has_its_names_and_presets(upgraded: UpgradedRelease, toolset: Json) -> None:
    stored = upgraded.get(f"/toolsets/{toolset['name']}")
    assert (stored["title"], stored["problems"]) == (toolset["title"], [])
    assert [(one["name"], one["tool"]) for one in stored["members"]] == [
        (toolset["tool"], toolset["canonical_name"])
    ]
    path = f"/toolsets/{toolset['name']}/tools"
    with upgraded.client() as client:
        called = client.post(f"{path}/{toolset['tool']}/call", json={})
        assert (called.status_code, called.json()) == (200, toolset["body"])
        given = client.post(f"{path}/{toolset['tool']}/call", json={toolset["preset"]: "Rome"})
        assert (given.status_code, given.json()["errors"][0]["pointer"]) == (422, f"/{toolset['preset']}")
        former = client.post(f"{path}/{toolset['former_name']}/call", json={})
        assert (former.status_code, former.json()["suggestions"]) == (404, [toolset["tool"]])


def test_synonyms_and_pins_are_used(upgraded: UpgradedRelease) -> None:
    if "search_words" not in upgraded.expected:
        pytest.skip("This release had no synonyms.")
    words = upgraded.expected["search_words"]
    (synonyms,) = upgraded.get("/search/synonyms")["items"]
    (pin,) = upgraded.get("/search/pins")["items"]
    assert {name: synonyms[name] for name in words["synonyms"]} == words["synonyms"]
    assert {name: pin[name] for name in words["pin"]} == words["pin"]
    assert "shop.listItems" in [item["name"] for item in upgraded.get("/tools/search?q=zebra")["items"]]


def test_a_key_limited_to_a_toolset_uses_nothing_else(upgraded: UpgradedRelease, toolset: Json) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message["params"] = {"name": toolset["tool"], "arguments": {}}
    with upgraded.client("toolset_key") as client:
        called = client.post(f"/toolsets/{toolset['name']}/mcp", json=message).json()["result"]
        assert (called["isError"], called["structuredContent"]) == (False, toolset["body"])
        assert [tool["name"] for tool in client.get("/tools").json()["items"]] == [toolset["tool"]]
        # The plain addresses have the names of the toolset, and no others.
        through = client.post(f"/tools/{toolset['tool']}/call", json={})
        assert (through.status_code, through.json()) == (200, toolset["body"])
        assert client.post(f"/tools/{toolset['canonical_name']}/call", json={}).status_code == 404
