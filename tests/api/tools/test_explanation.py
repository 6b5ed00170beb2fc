"""`GET /explain` says of every situation what a call then does."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from app.access.repository import find_key, revoke_key
from app.catalog.feed import record_change
from app.core.rate_limit import RateLimit
from app.storage.models import Revision

SECURED = [[{"slot": "main", "scopes": []}]]
# The problem of a call by the first required check that does not pass.
PROBLEMS = {
    "key-state": {"unauthenticated"},
    "scopes": {"forbidden"},
    "restrictions": {"not-found"},
    "definition": {"invalid-input"},
    "variables": {"unset-variable"},
    "tool-enabled": {"not-found"},
    "provider-enabled": {"not-found"},
    "rate-limit": {"rate-limited"},
    "circuit-breaker": {"circuit-open"},
    "credentials": {"credential-missing", "credential-not-allowed", "unset-variable"},
    "destination": {"blocked-address"},
}
ORDER = [
    "key-state", "scopes", "restrictions", "definition", "variables", "tool-enabled", "provider-enabled",
    "rate-limit", "circuit-breaker", "credentials", "destination", "requires-approval", "pending-approval",
]  # fmt: skip


def key_id(client):
    return client.headers["Authorization"].split("_")[1]


async def explained(api, client, tool="p.t"):
    """The explanation of a call with the key of a client, by an admin."""
    admin = await api.client("admin")
    response = await admin.get("/explain", params={"tool": tool, "key": key_id(client)})
    assert response.status_code == 200, response.text
    return response.json()


async def assert_agrees(api, client, failing=None, tool="p.t"):
    """The explanation and a call agree; `failing` is the first required check that does not pass."""
    found = await explained(api, client, tool)
    failed = [one["check"] for one in found["checks"] if one["required"] and one["passed"] is False]
    assert [one["check"] for one in found["checks"]] == ORDER
    assert (failed or [None])[0] == failing
    assert found["may_call"] is (failing is None)
    assert all(one["hint"] for one in found["checks"] if one["passed"] is False)
    own = await client.get("/explain", params={"tool": tool})
    if own.status_code == 200:
        # A key may know less than an admin, but is told nothing else.
        for mine, theirs in zip(own.json()["checks"], found["checks"], strict=True):
            assert mine["passed"] in (None, theirs["passed"])
    called = await client.post(f"/tools/{tool}/call", json={})
    if failing is None:
        assert called.status_code == 200, called.text
    else:
        assert called.json()["type"].rpartition(":")[2] in PROBLEMS[failing], called.text
    assert own.status_code == 200 or called.json()["type"] == own.json()["type"]
    return found


@pytest.fixture
async def tool(api, upstream):
    """Stores the tool p.t of the upstream, with columns of the tool and of its provider."""

    async def make(*, url=None, provider=None, **fields):
        row = await api.provider("p", **(provider or {}))
        await api.tool(row, "t", {"url": url or f"{upstream.url}/x", "header_fields": ["X-Key"]}, **fields)
        return row

    return make


async def test_a_tool_that_may_be_called(api, tool):
    await tool()
    found = await assert_agrees(api, await api.client())
    assert (found["tool"], found["provider"], found["may_see"]) == ("p.t", "p", True)
    assert {one["passed"] for one in found["checks"]} == {True}


@pytest.mark.parametrize("scopes", [["tools:read"], ["providers:read", "calls:read"]])
async def test_a_key_without_the_scope(api, tool, scopes):
    await tool()
    found = await assert_agrees(api, await api.client(*scopes), "scopes")
    assert found["may_see"] is ("tools:read" in scopes)


@pytest.mark.parametrize(
    ("limits", "failing"),
    [
        ({"providers": ["other"]}, "restrictions"),
        ({"providers": ["p"]}, None),
        ({"tags": ["absent"]}, "restrictions"),
        ({"tags": ["own"]}, None),
        ({"tags": ["registered"]}, None),
        ({"tags": ["given"]}, None),
        ({"tags": ["given"], "providers": ["other"]}, "restrictions"),
    ],
)
async def test_restrictions(api, tool, limits, failing):
    row = await tool(provider={"tags": ["registered"]}, tags=["own"])
    if limits.get("tags") == ["given"]:
        await api.tool(row, "t2", {"url": "http://127.0.0.1:9/"}, override={"tags": ["given"]})
        found = await explained(api, await api.client(**limits), "p.t2")
        check = next(one for one in found["checks"] if one["check"] == "restrictions")
        assert check["passed"] is (failing is None)
        return
    found = await assert_agrees(api, await api.client(**limits), failing)
    assert found["may_see"] is (failing is None)


@pytest.mark.parametrize(
    ("columns", "failing"),
    [
        ({"override": {"enabled": False}}, "tool-enabled"),
        ({"provider": {"enabled": False}}, "provider-enabled"),
        ({"provider": {"enabled": False}, "override": {"enabled": False}}, "tool-enabled"),
    ],
)
async def test_what_is_disabled(api, tool, columns, failing):
    await tool(**columns)
    await assert_agrees(api, await api.client(), failing)


async def test_a_variable_without_a_value(api, tool, upstream):
    row = await tool(url=upstream.url + "/${PART}")
    client = await api.client()
    await assert_agrees(api, client, "variables")
    await api.variable("PART", "x", provider=row, secret=False)
    await assert_agrees(api, client)


async def test_a_stored_tool_that_cannot_be_used(api, tool):
    await tool(url="ftp://example.com/x", override={"enabled": False})
    await assert_agrees(api, await api.client(), "definition")


async def test_credentials_missing_elsewhere_and_stored(api, tool, upstream):
    row = await tool(security=SECURED)
    client = await api.client()
    found = await assert_agrees(api, client, "credentials")
    check = next(one for one in found["checks"] if one["check"] == "credentials")
    assert "/providers/p/credentials/main" in check["hint"]
    await api.credential(row, "main", "api_key", {"value": "the-secret"}, origins=[upstream.url])
    found = await assert_agrees(api, client)
    assert "the-secret" not in str(found)


async def test_a_credential_for_another_origin(api, tool):
    row = await tool(security=SECURED)
    await api.credential(row, "main", "api_key", {"value": "v"}, origins=["https://example.com"])
    await assert_agrees(api, await api.client(), "credentials")


async def test_a_variable_of_a_credential_without_a_value(api, tool, upstream):
    row = await tool(security=SECURED)
    await api.credential(
        row, "main", "api_key", {"value": "${PART}"}, origins=[upstream.url], variables=["PART"]
    )
    await assert_agrees(api, await api.client(), "credentials")


async def test_a_blocked_destination_is_named_to_registrars_only(api, tool):
    await tool(url="http://10.1.2.3/x")
    client = await api.client()
    found = await assert_agrees(api, client, "destination")
    assert "ALLOW_NETWORKS=10.1.2.3:80" in str(found)
    assert "10.1.2.3" not in (await client.get("/explain", params={"tool": "p.t"})).text


async def test_a_used_up_rate_limit_of_the_key(api, tool):
    await tool()
    client = await api.client(rate=RateLimit(1, 3600, 2))
    await assert_agrees(api, client)
    await assert_agrees(api, client)
    await assert_agrees(api, client, "rate-limit")


async def test_a_used_up_rate_limit_of_the_provider(api, tool):
    await tool(provider={"limits": {"rate": {"requests": 1, "per_seconds": 3600}}})
    client = await api.client()
    await assert_agrees(api, client)
    await assert_agrees(api, client, "rate-limit")


async def test_a_successor_has_what_its_predecessor_left_of_the_rate_limit(api, tool):
    await tool()
    client = await api.client(rate=RateLimit(1, 3600, 1))
    await assert_agrees(api, client)
    made = (await client.post(f"/keys/{key_id(client)}/rotate")).json()
    client.headers["Authorization"] = f"Bearer {made['key']}"
    await assert_agrees(api, client, "rate-limit")


async def test_an_open_circuit_breaker(api, tool):
    await tool(
        url="http://127.0.0.1:9/x",
        provider={"limits": {"attempts": 1, "breaker_failures": 1, "breaker_open": 60}},
    )
    client = await api.client()
    found = await explained(api, client)
    assert found["may_call"] is True
    assert (await client.post("/tools/p.t/call", json={})).status_code == 502
    await assert_agrees(api, client, "circuit-breaker")


async def test_an_expired_and_a_revoked_key(api, tool):
    await tool()
    client, services = await api.client(), api.services
    async with services.database.transaction() as session:
        row = await find_key(session, key_id(client))
        row.expires_at = datetime.now(UTC) - timedelta(seconds=1)
        session.add(row)
        await record_change(session, kind="key", object_id=row.key_id)
    await services.feed.catch_up()
    found = await assert_agrees(api, client, "key-state")
    assert found["may_see"] is False
    async with services.database.transaction() as session:
        await revoke_key(session, await find_key(session, key_id(client)), actor="test")
    await services.feed.catch_up()
    found = await assert_agrees(api, client, "key-state")
    assert "revoked" in found["checks"][0]["detail"]


async def test_a_pending_approval_is_told_and_does_not_prevent_calls(api, tool):
    row = await tool()
    operations = [{"source_key": "other", "pending_approval": True}]
    for source_key, passed in ((None, True), ("t", False)):
        if source_key is not None:
            operations.append({"source_key": source_key, "pending_approval": True})
        async with api.services.database.transaction() as session:
            session.add(Revision(provider_id=row.id, state="pending", report={"operations": operations}))
        reader = await api.client("tools:read", "tools:call", "providers:read")
        check = (await assert_agrees(api, reader))["checks"][-1]
        assert (check["passed"], check["required"]) == (passed, False)
    own = (await (await api.client()).get("/explain", params={"tool": "p.t"})).json()["checks"][-1]
    assert own["passed"] is None


async def test_a_tool_that_requires_approval(api, tool):
    await tool()
    admin, client = await api.client("admin"), await api.client()
    changed = await admin.patch("/tools/p.t", json={"requires_approval": True})
    assert changed.status_code == 200, changed.text
    found = await explained(api, client)
    check = found["checks"][-2]
    assert (check["check"], check["passed"], check["required"]) == ("requires-approval", False, False)
    assert found["may_call"] is True
    assert (await client.post("/tools/p.t/call", json={})).status_code == 202


async def test_explaining_calls_and_counts_nothing(api, tool, upstream):
    await tool()
    client = await api.client(rate=RateLimit(1, 3600, 1))
    await asyncio.gather(*(client.get("/explain", params={"tool": "p.t"}) for _ in range(3)))
    assert upstream.requests == []
    assert await api.calls() == []
    await assert_agrees(api, client)


class TestWhoMayAsk:
    async def test_another_key_needs_keys_manage(self, api, tool):
        await tool()
        other, client = await api.client(), await api.client()
        response = await client.get("/explain", params={"tool": "p.t", "key": key_id(other)})
        assert (response.status_code, response.json()["missing_scopes"]) == (403, ["keys:manage"])
        own = await client.get("/explain", params={"tool": "p.t", "key": key_id(client)})
        assert own.status_code == 200

    async def test_a_key_or_a_tool_that_the_key_may_not_see_is_not_found(self, api, tool):
        await tool()
        other = await api.client()
        limited = await api.client("admin", providers=["q"])
        unseen = await limited.get("/explain", params={"tool": "p.t", "key": key_id(other)})
        unknown = await limited.get("/explain", params={"tool": "p.t", "key": "AbCdEfGhJkMn"})
        assert (unseen.status_code, unseen.json()) == (404, unknown.json())
        hidden = await limited.get("/explain", params={"tool": "p.t"})
        absent = await limited.get("/explain", params={"tool": "p.absent"})
        assert hidden.status_code == absent.status_code == 404
        assert hidden.json()["detail"].replace("p.t", "p.absent") == absent.json()["detail"]

    @pytest.mark.parametrize("scope", ["metrics:read", "keys:manage", "providers:read"])
    async def test_a_key_that_sees_no_tools_is_not_told_whether_one_exists(self, api, tool, scope):
        await tool()
        client = await api.client(scope)
        texts = [(await client.get("/explain", params={"tool": name})).text for name in ("p.t", "p.absent")]
        assert texts[0] == texts[1]
        assert '"may_call":false' in texts[0]

    async def test_a_key_without_a_valid_text_gets_nothing(self, api):
        client = await api.client()
        client.headers["Authorization"] = "Bearer nothing"
        assert (await client.get("/explain", params={"tool": "p.t"})).status_code == 401

    @pytest.mark.parametrize("query", [{}, {"tool": "a b"}, {"tool": "p.t", "key": "ugw_x"}])
    async def test_what_is_not_valid_is_rejected(self, api, query):
        response = await (await api.client()).get("/explain", params=query)
        assert response.status_code == 422
