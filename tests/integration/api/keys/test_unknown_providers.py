"""`providers` of a key that do not exist: rejected with a pointer and a suggestion, unless they are allowed."""

import pytest
from sqlalchemy import text

from tests.stored import store_provider, store_tool

BODY = {"name": "agent", "scopes": ["tools:read"]}


@pytest.fixture(autouse=True)
async def registry(gateway):
    """Providers `library` (tag `public`), `shop` with a tool tagged `public`, and `hidden` without tags."""
    async with gateway.database.transaction() as session:
        await session.execute(text("TRUNCATE providers CASCADE"))
    await store_provider(gateway.database, "library", tags=["public"])
    shop = await store_provider(gateway.database, "shop")
    await store_tool(gateway.database, shop, "order", override={"tags": ["public"]})
    await store_provider(gateway.database, "hidden")


async def create(gateway, key, **body):
    return await gateway.ask("POST", "/keys", key, json=BODY | body)


async def key_ids(gateway, admin):
    return {key["id"] for key in (await gateway.ask("GET", "/keys", admin)).json()["items"]}


def details(response):
    assert response.status_code == 422, response.text
    assert response.json()["type"] == "urn:utcp-gateway:problem:invalid-input"
    return {error["pointer"]: error["detail"] for error in response.json()["errors"]}


async def test_each_unknown_provider_of_a_new_key_is_pointed_at(gateway):
    admin = await gateway.key()
    before = await key_ids(gateway, admin)
    response = await create(gateway, admin, providers=["libary", "shop", "nothing"])
    assert details(response) == {
        "/providers/0": "There is no provider of this name. Did you mean `library`?",
        "/providers/2": "There is no provider of this name.",
    }
    assert "allow_unknown_providers" in response.json()["hint"]
    assert await key_ids(gateway, admin) == before


async def test_unknown_providers_may_be_allowed(gateway):
    admin = await gateway.key()
    response = await create(gateway, admin, providers=["later"], allow_unknown_providers=True)
    assert response.status_code == 201
    made = response.json()
    assert made["providers"] == ["later"]
    assert "allow_unknown_providers" not in made
    assert "unknown-providers" in [warning["code"] for warning in made["warnings"]]
    path = f"/keys/{made['id']}"
    changes = {"providers": ["later", "latest"]}
    assert list(details(await gateway.ask("PATCH", path, admin, json=changes))) == [
        "/providers/0",
        "/providers/1",
    ]
    assert (await gateway.ask("GET", path, admin)).json()["providers"] == ["later"]
    allowed = await gateway.ask("PATCH", path, admin, json={**changes, "allow_unknown_providers": True})
    assert allowed.json()["providers"] == ["later", "latest"]


async def test_other_changes_and_rotation_of_a_key_with_unknown_providers_are_accepted(gateway):
    admin = await gateway.key()
    made = (await create(gateway, admin, providers=["later"], allow_unknown_providers=True)).json()
    path = f"/keys/{made['id']}"
    assert (await gateway.ask("PATCH", path, admin, json={"owner": "b"})).status_code == 200
    assert (await gateway.ask("POST", f"{path}/rotate", admin)).json()["providers"] == ["later"]
    known = await gateway.ask("PATCH", path, admin, json={"providers": ["library", "shop"]})
    assert known.json()["providers"] == ["library", "shop"]
    assert (await gateway.ask("PATCH", path, admin, json={"providers": []})).json()["providers"] == []


async def test_a_provider_that_the_requesting_key_may_not_see_is_as_one_that_does_not_exist(gateway):
    limited = await gateway.key("admin", tags=["public"])
    found = details(await create(gateway, limited, providers=["hidden", "hiden", "absent"], tags=["public"]))
    assert set(found.values()) == {"There is no provider of this name."}
    assert len(found) == 3
    visible = await create(gateway, limited, providers=["library", "shop"], tags=["public"])
    assert visible.status_code == 201


async def test_a_key_that_may_not_list_providers_gets_no_suggestions(gateway):
    maker = await gateway.key("keys:manage", "tools:read")
    found = details(await create(gateway, maker, providers=["libary"]))
    assert found == {"/providers/0": "There is no provider of this name."}


async def test_rights_are_checked_first(gateway):
    maker = await gateway.key("keys:manage")
    assert (await create(gateway, maker, providers=["libary"])).status_code == 403


@pytest.mark.parametrize("value", ["yes", 1, None])
async def test_the_permission_of_unknown_providers_is_a_boolean(gateway, value):
    response = await create(gateway, await gateway.key(), allow_unknown_providers=value)
    assert list(details(response)) == ["/allow_unknown_providers"]
