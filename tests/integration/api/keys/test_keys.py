"""`/keys` and `/events`: what one key can do with others."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.access import KeyVerifier
from app.core.rate_limit import RateLimit
from app.security.keys import mint
from tests.harness.cases import for_each
from tests.harness.keys import key_id_of


async def create(gateway, admin, **body):
    return await gateway.ask("POST", "/keys", admin, json={"name": "agent", "scopes": ["tools:call"]} | body)


async def test_a_new_key_is_shown_once_and_works_at_once(gateway):
    admin = await gateway.key()
    rights = {"scopes": ["tools:read"], "providers": ["library"], "tags": ["safe"]}
    response = await create(gateway, admin, **rights, allow_unknown_providers=True)
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    made = response.json()
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 200
    shown = (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()
    assert made == shown | {"key": made["key"], "last_used_at": None}
    assert made["key"] not in (await gateway.ask("GET", "/keys", admin)).text
    assert shown["scopes"] == ["tools:read"]
    assert (shown["providers"], shown["tags"], shown["state"]) == (["library"], ["safe"], "active")


async def test_a_revoked_key_stops_at_once_and_is_not_found(gateway):
    admin = await gateway.key()
    made = (await create(gateway, admin, scopes=["tools:read"])).json()
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 200
    assert (await gateway.ask("DELETE", f"/keys/{made['id']}", admin)).status_code == 204
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 401
    assert (await gateway.ask("GET", f"/keys/{made['id']}", admin)).status_code == 404
    assert (await gateway.ask("DELETE", f"/keys/{made['id']}", admin)).status_code == 404
    assert made["id"] not in (await gateway.ask("GET", "/keys", admin)).text
    listed = (await gateway.ask("GET", "/keys?include_revoked=true", admin)).json()["items"]
    (one,) = [key for key in listed if key["id"] == made["id"]]
    assert one["state"] == "revoked"
    assert one["revoked_at"]


async def test_a_key_cannot_revoke_itself(gateway):
    admin = await gateway.key()
    assert (await gateway.ask("DELETE", f"/keys/{key_id_of(admin)}", admin)).status_code == 409
    assert (await gateway.ask("GET", "/tools", admin)).status_code == 200


async def test_unknown_ids_are_not_found_and_other_ids_are_not_valid(gateway):
    admin = await gateway.key()
    for method in ("GET", "DELETE"):
        assert (await gateway.ask(method, f"/keys/{mint().key_id}", admin)).status_code == 404
        assert (await gateway.ask(method, "/keys/0OIl", admin)).status_code == 422


@for_each(
    ("own", "wanted"),
    [
        ({"scopes": ["keys:manage"]}, {"scopes": ["tools:call"]}),
        ({"scopes": ["keys:manage"]}, {"scopes": ["admin"]}),
        ({"scopes": ["keys:manage", "tools:call"]}, {"scopes": ["tools:call", "providers:write"]}),
        ({"scopes": ["admin"], "providers": ["library"]}, {"scopes": ["tools:call"]}),
        ({"scopes": ["admin"], "providers": ["library"]}, {"providers": ["library", "shop"]}),
        ({"scopes": ["admin"], "tags": ["safe"]}, {"providers": ["library"]}),
        ({"scopes": ["admin"], "tags": ["safe"]}, {"tags": ["safe", "unsafe"]}),
    ],
)
async def test_nobody_can_pass_on_more_than_they_have(gateway, own, wanted):
    maker = await gateway.key(*own.pop("scopes"), **own)
    response = await create(gateway, maker, **wanted)
    assert response.status_code == 403
    assert response.headers["content-type"] == "application/problem+json"


async def test_one_may_pass_on_what_one_has(gateway):
    maker = await gateway.key("keys:manage", "tools:call", providers=["library", "shop"])
    response = await create(gateway, maker, providers=["shop"], allow_unknown_providers=True)
    assert response.status_code == 201
    assert (await gateway.ask("DELETE", f"/keys/{response.json()['id']}", maker)).status_code == 204


async def test_a_key_cannot_make_one_that_outlives_it(gateway):
    admin = await gateway.key()
    end = datetime.now(UTC) + timedelta(hours=1)
    maker = (await create(gateway, admin, scopes=["admin"], expires_at=end.isoformat())).json()["key"]
    assert (await create(gateway, maker)).status_code == 403
    later = (end + timedelta(seconds=1)).isoformat()
    assert (await create(gateway, maker, expires_at=later)).status_code == 403
    assert (await create(gateway, maker, expires_at=end.isoformat())).status_code == 201


async def test_a_rate_limit_is_stored_shown_and_known_to_the_clients_principal(gateway):
    admin = await gateway.key()
    limit = {"requests": 100, "per_seconds": 60, "burst": 20}
    made = (await create(gateway, admin, rate_limit=limit)).json()
    assert made["rate_limit"] == limit
    assert (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()["rate_limit"] == limit
    assert (await gateway.keys.verify(made["key"])).rate_limit == RateLimit(100, 60, 20)
    even = (await create(gateway, admin, rate_limit={"requests": 5, "per_seconds": 1})).json()
    assert even["rate_limit"] == {"requests": 5, "per_seconds": 1, "burst": 5}
    assert (await create(gateway, admin)).json()["rate_limit"] is None


@pytest.mark.parametrize(
    "limit",
    [
        {},
        {"requests": 0, "per_seconds": 1},
        {"requests": 1, "per_seconds": 86_401},
        {"requests": 1.5, "per_seconds": 1},
    ],
)
async def test_limits_that_cannot_be(gateway, limit):
    admin = await gateway.key()
    assert (await create(gateway, admin, rate_limit=limit)).status_code == 422


async def test_a_limited_key_cannot_make_one_that_may_call_more(gateway):
    admin = await gateway.key()
    limit = {"requests": 100, "per_seconds": 60, "burst": 20}
    maker = (await create(gateway, admin, scopes=["admin"], rate_limit=limit)).json()["key"]
    assert (await create(gateway, maker)).status_code == 403
    assert (await create(gateway, maker, rate_limit={**limit, "burst": 21})).status_code == 403
    assert (await create(gateway, maker, rate_limit=limit)).status_code == 201


async def test_the_default_holds_for_keys_without_a_limit_and_binds_no_maker(gateway):
    default = RateLimit.parse("10/1", is_own=False)
    keys = KeyVerifier(gateway.database, gateway.vault, default_rate_limit=default)
    gateway.services = replace(gateway.services, keys=keys)
    admin = await gateway.key()
    assert (await gateway.keys.verify(admin)).rate_limit == RateLimit(10, 1, 10, is_own=False)
    made = await create(gateway, admin, rate_limit={"requests": 1000, "per_seconds": 1})
    assert made.status_code == 201
    assert (await gateway.keys.verify(made.json()["key"])).rate_limit == RateLimit(1000, 1, 1000)
    await keys.aclose()


async def test_a_lesser_key_cannot_revoke_a_greater_one(gateway):
    admin, lesser = await gateway.key(), await gateway.key("keys:manage")
    response = await gateway.ask("DELETE", f"/keys/{key_id_of(admin)}", lesser)
    assert response.status_code == 403
    assert "admin" in response.json()["detail"]
    assert (await gateway.ask("GET", "/tools", admin)).status_code == 200


async def test_keys_beyond_ones_limits_are_invisible(gateway):
    admin = await gateway.key()
    limited = await gateway.key("admin", providers=["library"])
    inside = await gateway.key("tools:call", providers=["library"])
    outside = await gateway.key("tools:call", providers=["library", "shop"])
    listed = {key["id"] for key in (await gateway.ask("GET", "/keys", limited)).json()["items"]}
    assert listed == {key_id_of(limited), key_id_of(inside)}
    for hidden in (admin, outside):
        assert (await gateway.ask("GET", f"/keys/{key_id_of(hidden)}", limited)).status_code == 404
        assert (await gateway.ask("DELETE", f"/keys/{key_id_of(hidden)}", limited)).status_code == 404


@for_each(
    ("body", "pointer"),
    [
        ({"scopes": []}, "/scopes"),
        ({"scopes": ["root"]}, "/scopes/0"),
        ({"scopes": "admin"}, "/scopes"),
        ({"name": ""}, "/name"),
        ({"name": "a\x00b"}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"name": "a" * 101}, "/name"),
        ({"name": None}, "/name"),
        ({"providers": ["a b"]}, "/providers/0"),
        ({"providers": "library"}, "/providers"),
        ({"tags": [""]}, "/tags/0"),
        ({"tags": ["x\u0000"]}, "/tags/0"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"expires_at": "2030-01-01T00:00:00"}, "/expires_at"),
        ({"expires_at": 1893456000}, "/expires_at"),
        ({"expires_at": "1893456000"}, "/expires_at"),
        ({"expires_at": "2030-02-30T00:00:00Z"}, "/expires_at"),
        ({"key": "mine"}, "/key"),
    ],
)
async def test_what_is_not_valid_is_pointed_at(gateway, body, pointer):
    response = await create(gateway, await gateway.key(), **body)
    assert response.status_code == 422
    assert pointer in [fault["pointer"] for fault in response.json()["errors"]]


async def test_a_name_with_a_lone_surrogate_is_rejected(gateway):
    response = await gateway.ask(
        "POST",
        "/keys",
        await gateway.key(),
        content=b'{"name": "\\ud800", "scopes": ["tools:call"]}',
        headers={"Content-Type": "application/json"},
    )
    assert response.status_code == 422


@pytest.mark.parametrize(
    "moment", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.999999Z", "2500-01-01t00:00:00z"]
)
async def test_far_moments_do_not_break_anything(gateway, moment):
    admin = await gateway.key()
    response = await create(gateway, admin, expires_at=moment, scopes=["tools:read"])
    assert response.status_code == 201
    assert (await gateway.ask("GET", "/tools", response.json()["key"])).status_code == 200
    assert (await gateway.ask("GET", "/keys", admin)).status_code == 200


@pytest.mark.parametrize("moment", ["2020-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00"])
async def test_a_moment_that_has_passed_is_a_conflict(gateway, moment):
    assert (await create(gateway, await gateway.key(), expires_at=moment)).status_code == 409


async def test_pages_are_complete_and_stable(gateway):
    admin = await gateway.key()
    made = {(await create(gateway, admin, name=f"key {number}")).json()["id"] for number in range(7)}
    seen, path = [], "/keys?limit=3"
    while path:
        page = (await gateway.ask("GET", path, admin)).json()
        seen += [key["id"] for key in page["items"]]
        path = page["next_cursor"] and f"/keys?limit=3&cursor={page['next_cursor']}"
    assert len(seen) == 8
    assert set(seen) == made | {key_id_of(admin)}


@for_each("query", ["limit=0", "limit=201", "limit=x", "cursor=x", "include_revoked=maybe"])
async def test_odd_paging_is_pointed_at(gateway, query):
    response = await gateway.ask("GET", f"/keys?{query}", await gateway.key())
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/query/" + query.partition("=")[0]


@for_each(
    ("method", "path"),
    [
        ("POST", "/keys"),
        ("GET", "/keys"),
        ("GET", "/keys/{id}"),
        ("DELETE", "/keys/{id}"),
        ("GET", "/events"),
    ],
)
async def test_every_route_is_closed_to_others(gateway, method, path):
    admin = await gateway.key()
    path = path.format(id=mint().key_id)
    body = {"json": {"name": "x", "scopes": ["tools:call"]}} if method == "POST" else {}
    small = await gateway.key("tools:call", "metrics:read")
    revoked = (await create(gateway, admin, scopes=["admin"])).json()
    await gateway.ask("DELETE", f"/keys/{revoked['id']}", admin)
    assert (await gateway.ask(method, path, None, **body)).status_code == 401
    assert (await gateway.ask(method, path, mint().text.reveal(), **body)).status_code == 401
    assert (await gateway.ask(method, path, revoked["key"], **body)).status_code == 401
    assert (await gateway.ask(method, path, small, **body)).status_code == 403


async def test_events_tell_who_made_and_revoked_which_key(gateway):
    admin = await gateway.key()
    made = (await create(gateway, admin)).json()
    await gateway.ask("DELETE", f"/keys/{made['id']}", admin)
    page = (await gateway.ask("GET", f"/events?object_type=key&object_name={made['id']}", admin)).json()
    assert {(e["actor"], e["action"], e["object_name"]) for e in page["items"]} == {
        (key_id_of(admin), "revoked", made["id"]),
        (key_id_of(admin), "created", made["id"]),
    }
    created = next(event for event in page["items"] if event["action"] == "created")
    assert created["detail"]["scopes"] == ["tools:call"]
    assert made["key"][17:] not in str(page)


async def test_a_limited_key_sees_its_own_events_only(gateway):
    admin = await gateway.key()
    await create(gateway, admin)
    limited = await gateway.key("admin", providers=["library"])
    await create(gateway, limited, providers=["library"], allow_unknown_providers=True)
    page = (await gateway.ask("GET", "/events", limited)).json()
    assert {event["actor"] for event in page["items"]} == {key_id_of(limited)}
    assert (await gateway.ask("GET", f"/events?actor={key_id_of(admin)}", limited)).json()["items"] == []
