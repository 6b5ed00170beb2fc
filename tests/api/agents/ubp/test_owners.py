"""To which key the name of an executor belongs, and what other keys may do under it."""

import asyncio
from dataclasses import replace

import pytest
from sqlalchemy import update

from app.access.access_tokens import principal_id
from app.core.errors import Forbidden
from app.providers.registration.executor_tools import require_executor_name
from app.security.principal import Principal, TokenIdentity
from app.storage.models import TENANT, Provider
from tests.api.agents.ubp.conftest import defined
from tests.harness.cases import for_each
from tests.harness.ubp_peers import connected


@pytest.fixture(scope="module")
async def admin(pair):
    return await pair[0].client("admin")


async def new_key(admin, *scopes, **limits):
    body = {"name": "k", "scopes": scopes or ("executors:connect",), **limits}
    made = await admin.post("/keys", json=body)
    assert made.status_code == 201, made.text
    return made.json()


async def registered(application, key, name, *tools):
    """The response to a registration on a connection of its own, which then ends."""
    async with connected(application, key["key"]) as peer:
        return await peer.request(
            "agent.register_tools",
            {"tools": list(tools or (defined("run"),))},
            role="executor",
            executor=name,
        )


async def admit(admin, name, *keys):
    body = {"executor_keys": [key["id"] for key in keys]}
    response = await admin.patch(f"/providers/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def descriptions(admin, name):
    found = (await admin.get("/tools", params={"provider": name})).json()["items"]
    return {one["name"].partition(".")[2]: one["description"] for one in found}


async def pending(admin, name):
    """The source keys of what waits for approval."""
    waiting = (await admin.get(f"/providers/{name}")).json()["pending"]
    return [] if waiting is None else sorted(one["source_key"] for one in waiting["operations"])


async def test_a_name_belongs_to_the_key_that_registered_it_first(pair, admin):
    owner, stranger = await new_key(admin), await new_key(admin)
    async with connected(pair[0], owner["key"]) as executor:
        await executor.register("first", defined("run", "Ours."))
        assert (await admin.get("/providers/first")).json()["executor_owner"] == owner["id"]
        response = await registered(pair[1], stranger, "first", defined("run", "Theirs."))
        assert response["status"] == "PERMISSION_DENIED"
        assert "executor_keys" in response["result"]["value"]["hint"]
        assert owner["id"] not in str(response)
        assert await descriptions(admin, "first") == {"run": "Ours."}
        items = (await admin.get("/executors", params={"executor": "first"})).json()["items"]
        assert [one["key_id"] for one in items] == [owner["id"]]
        for _ in range(4):
            assert (await admin.post("/tools/first.run/call", json={})).json() == "Shipped"
        assert sum(executor.executed.values()) == 4
    # It does not get free when its executor is away.
    assert (await registered(pair[1], stranger, "first"))["status"] == "PERMISSION_DENIED"
    assert (await registered(pair[1], owner, "first"))["status"] == "SUCCESS"


async def test_successors_by_rotation_have_the_name(pair, admin):
    key = await new_key(admin)
    assert (await registered(pair[0], key, "chain"))["status"] == "SUCCESS"
    for _ in range(2):
        rotated = await admin.post(f"/keys/{key['id']}/rotate", json={"overlap_seconds": 0})
        key = rotated.json()
        response = await registered(pair[1], key, "chain", defined("run", f"By {key['id']}."))
        assert response["status"] == "SUCCESS", response
        assert await descriptions(admin, "chain") == {"run": f"By {key['id']}."}


async def test_of_keys_that_register_a_new_name_at_once_one_gets_it(pair, admin):
    keys = [await new_key(admin) for _ in range(4)]
    found = await asyncio.gather(
        *(registered(pair[index % 2], key, "race") for index, key in enumerate(keys))
    )
    assert sorted(one["status"] for one in found) == ["PERMISSION_DENIED"] * 3 + ["SUCCESS"]


async def test_the_first_key_gets_an_executor_without_an_owner(pair, admin):
    """As those that a gateway of an earlier release has stored; nothing else of it changes."""
    owner, stranger = await new_key(admin), await new_key(admin)
    await registered(pair[0], owner, "stored")
    services = pair[0].services
    async with services.database.transaction() as session:
        await session.execute(update(Provider).where(Provider.name == "stored").values(executor_owner=None))
    found = await asyncio.gather(
        registered(pair[0], stranger, "stored"), registered(pair[1], await new_key(admin), "stored")
    )
    assert sorted(one["status"] for one in found) == ["PERMISSION_DENIED", "SUCCESS"]
    events = await admin.get("/events", params={"object_type": "provider", "object_name": "stored"})
    assert [one["action"] for one in events.json()["items"]] == ["adopted", "created"]
    assert (await registered(pair[0], owner, "stored"))["status"] == "PERMISSION_DENIED"


async def test_an_admitted_key_executes_and_what_it_declares_waits_for_approval(pair, admin):
    owner, helper = await new_key(admin), await new_key(admin)
    decider = await pair[0].client("admin")
    async with connected(pair[0], owner["key"]) as executor, connected(pair[1], helper["key"]) as second:
        await executor.register("shared", defined("run", "Ours."), defined("stay", "Ours."))
        assert (await admit(admin, "shared", helper))["executor_keys"] == [helper["id"]]
        await second.register("shared", defined("run", "Theirs."), defined("extra", "Theirs."))
        assert await descriptions(admin, "shared") == {"run": "Ours.", "stay": "Ours."}
        assert await pending(admin, "shared") == ["extra", "run"]
        (waiting,) = (await admin.get("/approvals", params={"state": "pending"})).json()["items"]
        assert (waiting["kind"], waiting["requested_by"]) == ("definition", helper["id"])
        # Neither a registration of the owner that says nothing of it, nor a refresh applies it.
        await executor.register("shared", defined("stay", "Ours, newer."))
        assert await descriptions(admin, "shared") == {"run": "Ours.", "stay": "Ours, newer."}
        assert await pending(admin, "shared") == ["extra", "run"]
        assert (await admin.post("/providers/shared/refresh")).status_code == 200
        assert await descriptions(admin, "shared") == {"run": "Ours.", "stay": "Ours, newer."}
        assert await pending(admin, "shared") == ["extra", "run"]
        approval = (await admin.get("/providers/shared")).json()["pending"]["approval_id"]
        approved = await decider.post(f"/approvals/{approval}/approve")
        assert approved.status_code == 200, approved.text
        expected = {"run": "Theirs.", "extra": "Theirs.", "stay": "Ours, newer."}
        assert await descriptions(admin, "shared") == expected
        assert (await admin.post("/tools/shared.extra/call", json={})).json() == "Shipped"
        assert sum(second.executed.values()) == 1


async def test_an_admitted_key_removes_nothing(pair, admin):
    """Else it would remove a tool and declare it anew. What it names, its own connection no longer executes."""
    owner, helper = await new_key(admin), await new_key(admin)
    await registered(pair[0], owner, "kept", defined("run", "Ours."), defined("walk", "Ours."))
    await admit(admin, "kept", helper)
    async with connected(pair[1], helper["key"]) as second:
        await second.register("kept", defined("walk", "Ours."))
        response = await second.request("agent.deregister_tools", {"names": ["walk"]})
        assert response["result"]["value"] == {"commands": [], "removed": []}
        await second.register("kept", defined("run", "Theirs."))
    assert await descriptions(admin, "kept") == {"run": "Ours.", "walk": "Ours."}
    assert await pending(admin, "kept") == ["run"]
    # The next registration of the owner says what its tools are.
    assert (await registered(pair[0], owner, "kept", defined("run", "Ours.")))["status"] == "SUCCESS"
    assert (await descriptions(admin, "kept"), await pending(admin, "kept")) == ({"run": "Ours."}, [])


async def test_a_key_that_is_no_longer_admitted_is_disconnected(pair, admin):
    owner, helper = await new_key(admin), await new_key(admin)
    await registered(pair[0], owner, "ended")
    await admit(admin, "ended", helper)
    async with connected(pair[1], helper["key"]) as second:
        await second.register("ended")
        await admit(admin, "ended")
        async with asyncio.timeout(12):
            await second._socket.wait_closed()
        assert second._socket.close_code == 1008


async def test_the_owner_is_changed_and_taken_away_by_who_may_change_the_provider(pair, admin):
    owner, heir, third = [await new_key(admin) for _ in range(3)]
    await registered(pair[0], owner, "given")
    changed = await admin.patch("/providers/given", json={"executor_owner": heir["id"]})
    assert changed.json()["executor_owner"] == heir["id"]
    assert (await registered(pair[1], owner, "given"))["status"] == "PERMISSION_DENIED"
    assert (await registered(pair[1], heir, "given"))["status"] == "SUCCESS"
    changed = await admin.patch("/providers/given", json={"executor_owner": None})
    assert changed.json()["executor_owner"] is None
    assert (await registered(pair[0], third, "given"))["status"] == "SUCCESS"
    assert (await registered(pair[1], heir, "given"))["status"] == "PERMISSION_DENIED"


async def test_a_key_is_admitted_by_the_id_of_any_key_of_its_chain(pair, admin):
    owner, helper = await new_key(admin), await new_key(admin)
    await registered(pair[0], owner, "linked")
    rotated = (await admin.post(f"/keys/{helper['id']}/rotate", json={"overlap_seconds": 0})).json()
    assert (await admit(admin, "linked", rotated, helper))["executor_keys"] == [helper["id"]]
    assert (await registered(pair[1], rotated, "linked"))["status"] == "SUCCESS"


def token_of(client, subject="builder"):
    """The principal of an access token, as if it could have the scope."""
    identity = TokenIdentity("https://issuer.example", subject, client)
    return Principal(
        principal_id(identity),
        "access token",
        TENANT,
        frozenset({"executors:connect"}),
        rate_limit_id=principal_id(replace(identity, client=None)),
        token=identity,
    )


async def test_an_access_token_is_admitted_by_the_id_that_is_shown(pair, admin):
    """Other clients of its subject, which share its rate limit, are not."""
    owner, registration = await new_key(admin), pair[0].services.registration
    await registered(pair[0], owner, "tokens")
    first, second = token_of("first"), token_of("second")
    with pytest.raises(Forbidden):
        await require_executor_name(registration, "tokens", principal=first)
    await admit(admin, "tokens", {"id": first.key_id})
    await require_executor_name(registration, "tokens", principal=first)
    for other in (second, token_of("first", "other"), token_of(None)):
        with pytest.raises(Forbidden):
            await require_executor_name(registration, "tokens", principal=other)


@for_each(
    ("provider", "body", "pointer"),
    [
        ("asked", {"executor_keys": ["absent000000"]}, "/executor_keys/0"),
        ("asked", {"executor_owner": "absent000000"}, "/executor_owner"),
        ("asked", {"executor_keys": "absent000000"}, "/executor_keys"),
        ("asked", {"executor_keys": ["a b"]}, "/executor_keys/0"),
        ("plain", {"executor_owner": None}, "/executor_owner"),
        ("plain", {"executor_keys": []}, "/executor_keys"),
    ],
)
async def test_what_is_wrong_with_the_keys_of_an_executor_has_a_pointer(pair, admin, provider, body, pointer):
    if provider == "asked":
        key = await new_key(admin)
        await registered(pair[0], key, "asked")
    else:
        manual = {"utcp_version": "1.0.1", "tools": [{"name": "run", "description": "Run.", "tool_call_template": {
            "call_template_type": "http", "url": "http://127.0.0.1:9/"}}]}  # fmt: skip
        await admin.post("/providers", params={"name": "plain"}, json=manual)
    before = (await admin.get(f"/providers/{provider}")).json()
    response = await admin.patch(f"/providers/{provider}", json=body)
    assert response.status_code == 422, response.text
    assert [one["pointer"] for one in response.json()["errors"]] == [pointer]
    assert (await admin.get(f"/providers/{provider}")).json() == before


async def test_a_key_that_may_not_change_the_provider_admits_nobody(pair, admin):
    owner, stranger = await new_key(admin), await new_key(admin)
    await registered(pair[0], owner, "closed")
    for scopes, limits, status in (
        (("executors:connect", "providers:read"), {}, 403),
        (("providers:write",), {"providers": ["elsewhere"]}, 404),
    ):
        client = await pair[0].client(*scopes, **limits)
        response = await client.patch("/providers/closed", json={"executor_keys": [stranger["id"]]})
        assert response.status_code == status, response.text
