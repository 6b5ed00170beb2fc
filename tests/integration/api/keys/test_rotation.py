"""`POST /keys/{key_id}/rotate`: the successor, the overlap, and who may."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from sqlmodel import col

from app.storage.models import Key
from tests.harness.cases import for_each
from tests.harness.keys import key_id_of


async def create(gateway, admin, **body):
    made = await gateway.ask("POST", "/keys", admin, json={"name": "agent", "scopes": ["tools:read"]} | body)
    assert made.status_code == 201, made.text
    return made.json()


async def rotate(gateway, key, key_id, headers=None, **body):
    return await gateway.ask("POST", f"/keys/{key_id}/rotate", key, json=body, headers=headers or {})


async def shown(gateway, admin, key_id):
    return (await gateway.ask("GET", f"/keys/{key_id}", admin)).json()


async def test_both_keys_are_valid_during_the_overlap(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    before = datetime.now(UTC)
    response = await rotate(gateway, admin, old["id"], overlap_seconds=3600)
    after = datetime.now(UTC)
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    new = response.json()
    for key in (old["key"], new["key"]):
        assert (await gateway.ask("GET", "/tools", key)).status_code == 200
    end = datetime.fromisoformat((await shown(gateway, admin, old["id"]))["expires_at"])
    assert before + timedelta(hours=1) <= end <= after + timedelta(hours=1)


async def test_the_successor_has_description_and_rights_and_both_name_each_other(gateway):
    admin = await gateway.key()
    limit = {"requests": 5, "per_seconds": 1, "burst": 2}
    old = await create(
        gateway, admin, owner="o", purpose="p", providers=["a"], tags=["t"], rate_limit=limit,
        expires_at="2999-01-01T00:00:00Z", allow_unknown_providers=True,
    )  # fmt: skip
    new = (await rotate(gateway, admin, old["id"])).json()
    same = ("name", "owner", "purpose", "scopes", "providers", "tags", "rate_limit", "expires_at")
    assert {name: new[name] for name in same} == {name: old[name] for name in same}
    assert (new["rotated_from"], new["successor_id"]) == (old["id"], None)
    assert (await shown(gateway, admin, old["id"]))["successor_id"] == new["id"]
    assert new["key"] not in str(await shown(gateway, admin, new["id"]))


async def test_the_default_overlap_is_a_day_and_a_body_is_not_needed(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    assert (await gateway.ask("POST", f"/keys/{old['id']}/rotate", admin)).status_code == 201
    end = datetime.fromisoformat((await shown(gateway, admin, old["id"]))["expires_at"])
    assert timedelta(hours=23) < end - datetime.now(UTC) <= timedelta(hours=24)


async def test_without_an_overlap_the_old_key_ends_at_once(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    assert (await gateway.ask("GET", "/tools", old["key"])).status_code == 200
    new = (await rotate(gateway, admin, old["id"], overlap_seconds=0)).json()
    assert (await gateway.ask("GET", "/tools", old["key"])).status_code == 401
    assert (await gateway.ask("GET", "/tools", new["key"])).status_code == 200


async def test_an_overlap_never_prolongs_the_old_key(gateway):
    admin = await gateway.key()
    end = datetime.now(UTC) + timedelta(minutes=5)
    old = await create(gateway, admin, expires_at=end.isoformat())
    await rotate(gateway, admin, old["id"], overlap_seconds=3600)
    assert datetime.fromisoformat((await shown(gateway, admin, old["id"]))["expires_at"]) == end


async def test_a_key_rotates_itself_without_keys_manage(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin, expires_at="2999-01-01T00:00:00Z")
    response = await rotate(gateway, old["key"], old["id"])
    assert response.status_code == 201
    assert (await gateway.ask("GET", "/tools", response.json()["key"])).status_code == 200


@pytest.mark.parametrize("later", [None, "2999-01-01T00:00:01Z"])
async def test_a_key_that_rotates_itself_does_not_expire_later(gateway, later):
    admin = await gateway.key()
    old = await create(gateway, admin, expires_at="2999-01-01T00:00:00Z")
    assert (await rotate(gateway, old["key"], old["id"], expires_at=later)).status_code == 403
    sooner = await rotate(gateway, old["key"], old["id"], expires_at="2998-01-01T00:00:00Z")
    assert sooner.json()["expires_at"] == "2998-01-01T00:00:00Z"


async def test_a_key_whose_expiry_was_changed_a_moment_ago_gives_its_successor_no_later_one(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    assert (await gateway.ask("GET", "/me", old["key"])).status_code == 200
    async with gateway.services.database.transaction() as session:
        # As another worker does: this one has not read the change yet.
        end = datetime(2999, 1, 1, tzinfo=UTC)
        await session.execute(update(Key).where(col(Key.key_id) == old["id"]).values(expires_at=end))
    assert (await rotate(gateway, old["key"], old["id"], expires_at=None)).status_code == 403
    new = (await rotate(gateway, old["key"], old["id"])).json()
    assert new["expires_at"] == "2999-01-01T00:00:00Z"


async def test_a_manager_may_give_the_successor_another_expiry(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin, expires_at="2999-01-01T00:00:00Z")
    new = (await rotate(gateway, admin, old["id"], expires_at=None)).json()
    assert new["expires_at"] is None
    past = await rotate(gateway, admin, new["id"], expires_at="2020-01-01T00:00:00Z")
    assert past.status_code == 409


async def test_all_keys_of_a_chain_count_against_one_rate_limit(gateway):
    admin = await gateway.key()
    first = await create(gateway, admin)
    second = (await rotate(gateway, first["key"], first["id"])).json()
    third = (await rotate(gateway, second["key"], second["id"])).json()
    owners = [(await gateway.keys.verify(key["key"])).rate_limit_owner for key in (first, second, third)]
    assert owners == [first["id"]] * 3


async def test_a_key_has_one_successor(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    new = (await rotate(gateway, admin, old["id"])).json()
    again = await rotate(gateway, admin, old["id"])
    assert again.status_code == 409
    assert new["id"] in again.json()["detail"]
    assert (await rotate(gateway, admin, new["id"])).status_code == 201


async def test_an_expired_key_is_not_rotated(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin, expires_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
    other = await create(gateway, admin)
    await rotate(gateway, admin, other["id"], overlap_seconds=0)
    assert (await rotate(gateway, admin, other["id"])).status_code == 409
    assert (await rotate(gateway, admin, old["id"])).status_code == 201


async def test_the_successor_survives_the_revocation_of_the_old_key(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    new = (await rotate(gateway, admin, old["id"])).json()
    assert (await gateway.ask("DELETE", f"/keys/{old['id']}", new["key"])).status_code == 403
    assert (await gateway.ask("DELETE", f"/keys/{old['id']}", admin)).status_code == 204
    assert (await gateway.ask("GET", "/tools", new["key"])).status_code == 200


async def test_another_key_needs_keys_manage_and_the_rights_of_the_key(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    stranger = await gateway.key("tools:read", "tools:call")
    response = await rotate(gateway, stranger, old["id"])
    assert (response.status_code, response.json()["missing_scopes"]) == (403, ["keys:manage"])
    small = await gateway.key("keys:manage")
    assert (await rotate(gateway, small, old["id"])).status_code == 403
    limited = await gateway.key("admin", providers=["p"])
    assert (await rotate(gateway, limited, old["id"])).status_code == 404
    assert (await rotate(gateway, limited, key_id_of(limited))).status_code == 201


@for_each("seconds", [-1, 2_592_001, 1.5, "60", None])
async def test_an_overlap_that_cannot_be(gateway, seconds):
    admin = await gateway.key()
    response = await rotate(gateway, admin, key_id_of(admin), overlap_seconds=seconds)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/overlap_seconds"


async def test_a_retry_with_the_same_idempotency_key_gets_the_same_successor(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    named = {"Idempotency-Key": '"rotation-1"'}
    first = await rotate(gateway, old["key"], old["id"], named)
    second = await rotate(gateway, old["key"], old["id"], named)
    assert first.json() == second.json()
    assert second.headers["idempotency-replayed"] == "true"
    other = await create(gateway, admin)
    assert (await rotate(gateway, old["key"], other["id"], named)).status_code == 422


async def test_the_events_tell_of_both_keys(gateway):
    admin = await gateway.key()
    old = await create(gateway, admin)
    new = (await rotate(gateway, admin, old["id"], overlap_seconds=60)).json()
    events = (await gateway.ask("GET", "/events?object_type=key", admin)).json()["items"]
    by_action = {(one["object_name"], one["action"]): one["detail"] for one in events}
    assert by_action[old["id"], "rotated"]["successor_id"] == new["id"]
    assert by_action[old["id"], "rotated"]["overlap_seconds"] == 60
    assert by_action[new["id"], "created"]["rotated_from"] == old["id"]
    assert new["key"][17:] not in str(events)
