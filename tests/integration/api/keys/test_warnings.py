"""Warnings about keys, in `GET /keys` and `GET /me`, and the state `expiring`."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from tests.harness.cases import for_each
from tests.harness.keys import key_id_of
from tests.stored import store_provider, store_tool

DAY = timedelta(days=1)


@pytest.fixture
async def registry(gateway):
    """A provider `library` tagged `public`, and a provider `shop` with a tool that a person tagged `safe`."""
    async with gateway.database.transaction() as session:
        await session.execute(text("TRUNCATE providers CASCADE"))
    await store_provider(gateway.database, "library", tags=["public"])
    shop = await store_provider(gateway.database, "shop")
    await store_tool(gateway.database, shop, "order", override={"tags": ["safe"]}, tags=["imported"])


async def warnings_of(gateway, admin, **restrictions):
    body = {"name": "agent", "scopes": ["tools:read"], "allow_unknown_providers": True}
    body = body | {"providers": None, "tags": None} | restrictions
    made = (await gateway.ask("POST", "/keys", admin, json=body)).json()
    shown = (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()
    listed = (await gateway.ask("GET", "/keys", admin)).json()["items"]
    me = (await gateway.ask("GET", "/me", made["key"])).json()
    assert shown["warnings"] == made["warnings"]
    # The key itself may not see a provider without one of its tags.
    hidden = {"unknown-providers"} if body["providers"] and body["tags"] else set()
    assert [one for one in me["warnings"] if one["code"] not in hidden] == shown["warnings"]
    assert next(one for one in listed if one["id"] == made["id"])["warnings"] == shown["warnings"]
    assert all(warning["detail"] and warning["hint"] for warning in shown["warnings"])
    return [warning["code"] for warning in shown["warnings"]]


@for_each(
    ("restrictions", "codes"),
    [
        ({}, []),
        ({"providers": ["library"]}, []),
        ({"providers": ["library", "gone"]}, ["unknown-providers"]),
        ({"providers": ["gone"]}, ["unknown-providers", "sees-nothing"]),
        ({"providers": []}, ["sees-nothing"]),
        ({"tags": ["public"]}, []),
        ({"tags": ["safe", "x"]}, []),
        ({"tags": ["imported"]}, ["sees-nothing"]),
        ({"tags": ["safe"], "providers": ["library"]}, ["sees-nothing"]),
        ({"tags": ["safe"], "providers": ["shop"]}, []),
    ],
)
@pytest.mark.usefixtures("registry")
async def test_restrictions_to_what_does_not_exist(gateway, restrictions, codes):
    assert await warnings_of(gateway, await gateway.key(), **restrictions) == codes


@pytest.mark.usefixtures("registry")
async def test_a_provider_that_the_viewer_may_not_see_was_not_found(gateway):
    limited = await gateway.key("keys:manage", "tools:read", tags=["safe"])
    seen = []
    for provider in ("library", "gone"):
        body = {"name": "agent", "scopes": ["tools:read"], "tags": ["safe"], "providers": [provider]}
        made = (
            await gateway.ask("POST", "/keys", limited, json=body | {"allow_unknown_providers": True})
        ).json()
        seen.append([(one["code"], one["detail"].replace(provider, "")) for one in made["warnings"]])
    assert seen[0] == seen[1]
    assert [code for code, _ in seen[0]] == ["unknown-providers", "sees-nothing"]


async def test_a_key_that_expires_within_the_window(gateway):
    admin = await gateway.key()
    moment = datetime.now(UTC)
    assert await warnings_of(gateway, admin, expires_at=(moment + 13 * DAY).isoformat()) == ["expires-soon"]
    assert await warnings_of(gateway, admin, expires_at=(moment + 15 * DAY).isoformat()) == []
    gateway.configure(key_expiry_warning_days=16)
    assert await warnings_of(gateway, admin, expires_at=(moment + 15 * DAY).isoformat()) == ["expires-soon"]


async def test_an_admin_key_without_expiry(gateway):
    admin = await gateway.key()
    assert await warnings_of(gateway, admin, scopes=["admin"]) == ["admin-without-expiry"]
    later = (datetime.now(UTC) + 100 * DAY).isoformat()
    assert await warnings_of(gateway, admin, scopes=["admin"], expires_at=later) == []


async def test_a_key_that_was_not_used_for_long(gateway):
    admin = await gateway.key()
    ids = {}
    for name in ("never", "long ago", "lately"):
        body = {"name": name, "scopes": ["tools:read"]}
        ids[name] = (await gateway.ask("POST", "/keys", admin, json=body)).json()["id"]
    statement = text("UPDATE keys SET created_at = :old, last_used_at = :used WHERE key_id = :id")
    old, used = datetime.now(UTC) - 40 * DAY, datetime.now(UTC) - 31 * DAY
    async with gateway.database.transaction() as session:
        for name, moment in (("never", None), ("long ago", used), ("lately", datetime.now(UTC))):
            await session.execute(statement, {"old": old, "used": moment, "id": ids[name]})
    listed = (await gateway.ask("GET", "/keys", admin)).json()["items"]
    codes = {key["name"]: [one["code"] for one in key["warnings"]] for key in listed}
    assert (codes["never"], codes["long ago"], codes["lately"]) == (["unused"], ["unused"], [])


async def test_a_key_that_is_not_valid_has_no_warnings(gateway):
    admin = await gateway.key()
    body = {"name": "a", "scopes": ["tools:read"], "providers": ["gone"], "allow_unknown_providers": True}
    made = (await gateway.ask("POST", "/keys", admin, json=body)).json()
    await gateway.ask("DELETE", f"/keys/{made['id']}", admin)
    listed = (await gateway.ask("GET", "/keys?state=revoked", admin)).json()["items"]
    assert [key["warnings"] for key in listed] == [[]]


async def test_the_warning_of_a_rotated_key_names_its_successor(gateway):
    admin = await gateway.key()
    made = (await gateway.ask("POST", "/keys", admin, json={"name": "a", "scopes": ["tools:read"]})).json()
    new = (await gateway.ask("POST", f"/keys/{made['id']}/rotate", admin)).json()
    (warning,) = (await gateway.ask("GET", f"/keys/{made['id']}", admin)).json()["warnings"]
    assert new["id"] in warning["hint"]


async def test_the_state_expiring_lists_valid_keys_that_expire_soon(gateway):
    admin = await gateway.key()
    moment = datetime.now(UTC)
    for name, end in (("soon", moment + DAY), ("later", moment + 30 * DAY), ("never", None)):
        body = {"name": name, "scopes": ["tools:read"], "expires_at": end and end.isoformat()}
        await gateway.ask("POST", "/keys", admin, json=body)
    listed = (await gateway.ask("GET", "/keys?state=expiring&sort=name", admin)).json()
    assert [(key["name"], key["state"]) for key in listed["items"]] == [("soon", "active")]
    assert (await gateway.ask("GET", "/keys?state=active", admin)).json()["total"] == 4


@pytest.mark.usefixtures("registry")
class TestMe:
    async def test_a_key_reads_its_rights_and_what_they_mean(self, gateway):
        key = await gateway.key("tools:read", "metrics:read", providers=["shop"])
        me = (await gateway.ask("GET", "/me", key)).json()
        assert (me["id"], me["is_admin"], me["providers"]) == (key_id_of(key), False, ["shop"])
        assert me["tenant_id"] == str((await gateway.keys.verify(key)).tenant_id)
        assert [scope["name"] for scope in me["scope_descriptions"]] == ["tools:read", "metrics:read"]
        assert me["scope_descriptions"][0]["documentation_url"] == "/scopes/tools:read"
        assert me["visible"] == {"providers": 1, "tools": 1}
        assert "key" not in me

    @pytest.mark.parametrize(
        ("scopes", "visible"),
        [
            (["admin"], {"providers": 2, "tools": 1}),
            (["tools:call"], {"providers": 0, "tools": 1}),
            (["providers:read"], {"providers": 2, "tools": 0}),
            (["metrics:read"], {"providers": 0, "tools": 0}),
        ],
    )
    async def test_a_key_sees_no_more_than_its_scopes_allow(self, gateway, scopes, visible):
        me = await gateway.ask("GET", "/me", await gateway.key(*scopes))
        assert me.json()["visible"] == visible

    async def test_without_a_key_there_is_no_me(self, gateway):
        assert (await gateway.ask("GET", "/me")).status_code == 401

    async def test_what_is_left_of_the_rate_limit_is_read_without_counting(self, gateway):
        admin = await gateway.key()
        assert (await gateway.ask("GET", "/me", admin)).json()["rate_limit_usage"] is None
        limit = {"requests": 3, "per_seconds": 3600, "burst": 3}
        body = {"name": "a", "scopes": ["tools:call"], "rate_limit": limit}
        made = (await gateway.ask("POST", "/keys", admin, json=body)).json()
        principal = await gateway.keys.verify(made["key"])
        for left in (3, 2):
            for _ in range(2):
                usage = (await gateway.ask("GET", "/me", made["key"])).json()["rate_limit_usage"]
                assert usage["remaining"] == left
                assert usage["is_default"] is False
            await gateway.services.calls.rate_limiter.admit(
                principal.tenant_id, key_id=made["id"], key=principal.rate_limit,
                provider_id=principal.tenant_id, provider=None,
            )  # fmt: skip
