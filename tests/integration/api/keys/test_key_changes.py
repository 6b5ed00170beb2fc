"""`PATCH /keys/{key_id}`: what changes, what must not, and who may."""

from datetime import UTC, datetime, timedelta

from app.core.rate_limit import RateLimit
from tests.harness.cases import for_each
from tests.harness.keys import key_id_of


async def create(gateway, admin, **body):
    body = {"name": "agent", "scopes": ["tools:read"], "allow_unknown_providers": True} | body
    made = await gateway.ask("POST", "/keys", admin, json=body)
    assert made.status_code == 201, made.text
    return made.json()


async def change(gateway, key, key_id, headers=None, **body):
    return await gateway.ask("PATCH", f"/keys/{key_id}", key, json=body, headers=headers or {})


async def test_owner_and_purpose_are_stored_and_shown(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin, owner="billing@example.com", purpose="Nightly invoices")
    shown = (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()
    assert (shown["owner"], shown["purpose"]) == ("billing@example.com", "Nightly invoices")
    found = (await gateway.ask("GET", "/keys?q=INVOICES", admin)).json()
    assert [key["id"] for key in found["items"]] == [made["id"]]


async def test_only_the_given_members_change(gateway):
    admin = await gateway.key()
    end = (datetime.now(UTC) + timedelta(days=90)).isoformat()
    made = await create(gateway, admin, tags=["safe"], expires_at=end, owner="a")
    changed = (await change(gateway, admin, made["id"], owner="b")).json()
    assert changed == {**{name: made[name] for name in changed}, "owner": "b"}


async def test_null_removes_restrictions_expiry_and_rate_limit(gateway):
    admin = await gateway.key()
    limit = {"requests": 5, "per_seconds": 1}
    made = await create(
        gateway, admin, providers=["p"], tags=["t"], expires_at="2999-01-01T00:00:00Z", rate_limit=limit
    )
    response = await change(
        gateway, admin, made["id"], providers=None, tags=None, expires_at=None, rate_limit=None
    )
    changed = response.json()
    assert [changed[name] for name in ("providers", "tags", "expires_at", "rate_limit")] == [None] * 4


async def test_a_change_of_scopes_is_in_effect_at_once(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin)
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 200
    assert (await change(gateway, admin, made["id"], scopes=["metrics:read"])).status_code == 200
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 403


async def test_a_change_of_the_rate_limit_reaches_the_principal(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin)
    limit = {"requests": 7, "per_seconds": 60}
    await change(gateway, admin, made["id"], rate_limit=limit)
    assert (await gateway.keys.verify(made["key"])).rate_limit == RateLimit(7, 60, 7)


async def test_an_expired_key_is_valid_again_with_a_later_expiry(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin)
    await gateway.ask("POST", f"/keys/{made['id']}/rotate", admin, json={"overlap_seconds": 0})
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 401
    assert (await change(gateway, admin, made["id"], name="expired still")).status_code == 200
    assert (await change(gateway, admin, made["id"], expires_at="2999-01-01T00:00:00Z")).status_code == 200
    assert (await gateway.ask("GET", "/tools", made["key"])).status_code == 200


async def test_the_etag_is_the_version_and_guards_a_change(gateway):
    admin = await gateway.key()
    response = await gateway.ask("POST", "/keys", admin, json={"name": "a", "scopes": ["tools:read"]})
    key_id = response.json()["id"]
    read = await gateway.ask("GET", f"/keys/{key_id}", admin)
    assert response.headers["etag"] == read.headers["etag"] == '"1"'
    changed = await change(gateway, admin, key_id, {"If-Match": '"1"'}, owner="b")
    assert (changed.status_code, changed.headers["etag"]) == (200, '"2"')
    stale = await change(gateway, admin, key_id, {"If-Match": '"1"'}, owner="c")
    assert stale.status_code == 412
    assert (await gateway.ask("GET", f"/keys/{key_id}", admin)).json()["owner"] == "b"


async def test_a_change_without_an_effect_stores_nothing(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin, owner="a")
    for body in ({}, {"owner": "a"}, {"scopes": ["tools:read"]}):
        assert (await change(gateway, admin, made["id"], **body)).headers["etag"] == '"1"'
    events = (await gateway.ask("GET", f"/events?object_name={made['id']}", admin)).json()["items"]
    assert [event["action"] for event in events] == ["created"]


async def test_the_event_of_a_change_has_before_and_after(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin, owner="a")
    await change(gateway, admin, made["id"], owner="b", tags=["t"])
    events = (await gateway.ask("GET", f"/events?object_name={made['id']}", admin)).json()["items"]
    (event,) = [one for one in events if one["action"] == "updated"]
    assert event["actor"] == key_id_of(admin)
    assert event["detail"] == {
        "name": "agent",
        "changed": ["owner", "tags"],
        "before": {"owner": "a", "tags": None},
        "after": {"owner": "b", "tags": ["t"]},
    }


@for_each(
    ("own", "key", "changes"),
    [
        ({"scopes": ["keys:manage", "tools:read"]}, {}, {"scopes": ["tools:call"]}),
        ({"scopes": ["keys:manage"]}, {}, {"owner": "mine"}),
        ({"scopes": ["admin"], "providers": ["p"]}, {"providers": ["p"]}, {"providers": None}),
        ({"scopes": ["admin"], "providers": ["p"]}, {"providers": ["p"]}, {"providers": ["p", "q"]}),
        ({"scopes": ["admin"], "tags": ["t"]}, {"tags": ["t"]}, {"tags": ["u"]}),
        ({"scopes": ["admin"], "rate": RateLimit(1, 1, 1)}, {}, {"scopes": ["tools:call"]}),
        (
            {"scopes": ["admin"], "rate": RateLimit(1, 1, 1)},
            {},
            {"rate_limit": {"requests": 2, "per_seconds": 1}},
        ),
    ],
)
async def test_nobody_can_give_a_key_more_than_they_have(gateway, own, key, changes):
    admin = await gateway.key()
    made = await create(gateway, admin, **key)
    changer = await gateway.key(*own.pop("scopes"), **own)
    response = await change(gateway, changer, made["id"], **changes)
    assert response.status_code == 403
    shown = (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()
    assert all(shown[name] == made[name] for name in shown)


async def test_a_key_that_expires_cannot_give_a_later_expiry(gateway):
    admin = await gateway.key()
    end = datetime.now(UTC) + timedelta(days=1)
    changer = (await create(gateway, admin, scopes=["admin"], expires_at=end.isoformat()))["key"]
    made = await create(gateway, admin, expires_at=end.isoformat())
    later = (end + timedelta(seconds=1)).isoformat()
    assert (await change(gateway, changer, made["id"], expires_at=later)).status_code == 403
    assert (await change(gateway, changer, made["id"], expires_at=None)).status_code == 403
    earlier = (end - timedelta(hours=1)).isoformat()
    assert (await change(gateway, changer, made["id"], expires_at=earlier)).status_code == 200


async def test_a_key_cannot_change_its_own_rights_but_its_description(gateway):
    admin = await gateway.key()
    own = key_id_of(admin)
    response = await change(gateway, admin, own, scopes=["admin"], tags=None)
    assert response.status_code == 403
    assert [error["pointer"] for error in response.json()["errors"]] == ["/scopes", "/tags"]
    assert (await change(gateway, admin, own, owner="operations")).json()["owner"] == "operations"


async def test_an_expiry_in_the_past_is_a_conflict(gateway):
    admin = await gateway.key()
    made = await create(gateway, admin)
    assert (await change(gateway, admin, made["id"], expires_at="2020-01-01T00:00:00Z")).status_code == 409


async def test_unseen_and_revoked_keys_are_not_found(gateway):
    admin = await gateway.key()
    limited = await gateway.key("admin", providers=["p"])
    made = await create(gateway, admin)
    assert (await change(gateway, limited, made["id"], owner="x")).status_code == 404
    await gateway.ask("DELETE", f"/keys/{made['id']}", admin)
    assert (await change(gateway, admin, made["id"], owner="x")).status_code == 404


@for_each(
    ("body", "pointer"),
    [
        ({"name": None}, "/name"),
        ({"name": ""}, "/name"),
        ({"scopes": None}, "/scopes"),
        ({"scopes": []}, "/scopes"),
        ({"owner": None}, "/owner"),
        ({"owner": "a\nb"}, "/owner"),
        ({"owner": "x" * 201}, "/owner"),
        ({"purpose": "x" * 501}, "/purpose"),
        ({"providers": ["a b"]}, "/providers/0"),
        ({"expires_at": "tomorrow"}, "/expires_at"),
        ({"text": "x"}, "/text"),
    ],
)
async def test_what_is_not_valid_is_pointed_at(gateway, body, pointer):
    admin = await gateway.key()
    made = await create(gateway, admin)
    response = await change(gateway, admin, made["id"], **body)
    assert response.status_code == 422
    assert pointer in [error["pointer"] for error in response.json()["errors"]]
