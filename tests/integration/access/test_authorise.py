"""The gate: deny by default, one key, the right scope."""

import pytest

from app.access.authorise import presented_key
from app.api.authorisation import declared_scope
from app.core.errors import Unauthenticated
from tests.harness.cases import for_each
from tests.harness.keys import key_id_of

KEY_HEADER = (b"authorization", b"Bearer abc")


async def test_either_header_carries_the_key(gateway):
    key = await gateway.key("tools:read")
    assert (await gateway.client.get("/tools", headers={"Authorization": f"Bearer {key}"})).status_code == 200
    assert (
        await gateway.client.get("/tools", headers={"Authorization": f"bearer   {key}"})
    ).status_code == 200
    assert (await gateway.client.get("/tools", headers={"X-API-Key": key})).status_code == 200


async def test_without_a_key_the_response_says_how_to_send_one(gateway):
    response = await gateway.ask("GET", "/tools")
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert "X-API-Key" in response.json()["detail"]


async def test_the_scope_that_is_missing_is_named(gateway):
    response = await gateway.ask("GET", "/tools", await gateway.key("tools:call", "metrics:read"))
    assert response.status_code == 403
    assert "`tools:read`" in response.json()["detail"]
    assert response.json()["missing_scopes"] == ["tools:read"]


async def test_a_plain_route_asks_the_same_gate(gateway):
    key = await gateway.key("tools:call")
    response = await gateway.ask("POST", "/call", key)
    assert response.status_code == 200
    assert response.text == key_id_of(key)
    assert (await gateway.ask("POST", "/call")).status_code == 401
    assert (await gateway.ask("POST", "/call", await gateway.key("tools:read"))).status_code == 403


@for_each(
    "headers",
    [
        [(b"authorization", b"")],
        [(b"authorization", b"Bearer")],
        [(b"authorization", b"Basic dXNlcjpwYXNz")],
        [(b"authorization", b"ugw_abc")],
        [(b"authorization", b"Bearer " + b"a" * 9_000)],
        [(b"x-api-key", b"a" * 1_000_000)],
        [KEY_HEADER, KEY_HEADER],
        [KEY_HEADER, (b"x-api-key", b"abc")],
        [(b"x-api-key", b"abc"), (b"x-api-key", b"")],
    ],
)
def test_odd_oversized_and_several_headers_are_rejected(headers):
    with pytest.raises(Unauthenticated):
        presented_key(headers)


@for_each(
    "value",
    [
        b"", b"\xff\xfe", b"ugw_", b"ugw_' OR 1=1 --_", b"null", b"\x00", b"a" * 55, b"ugw_" + b"\xe9" * 51,
        "ugw_日本".encode(), b"Bearer x", b"ugw_AAAAAAAAAAAA_" + b"A" * 38, b"ugw_AAAAAAAAAAAA_" + b"A" * 37,
    ],
)  # fmt: skip
async def test_what_is_not_a_key_is_rejected_without_a_database_statement(gateway, value):
    gateway.disconnect_database()
    for header in ({"X-API-Key": value}, {"Authorization": b"Bearer " + value}):
        assert (await gateway.client.get("/tools", headers=header)).status_code == 401
    gateway.reconnect_database()


async def test_what_is_open_needs_no_key_and_a_wrong_one_does_no_harm(gateway):
    assert (await gateway.ask("GET", "/open")).status_code == 200
    assert (await gateway.ask("GET", "/open", "nonsense")).status_code == 200


async def test_the_manual_opens_by_its_setting_only(gateway):
    assert (await gateway.ask("GET", "/manual")).status_code == 401
    gateway.configure(utcp_anonymous=True)
    response = await gateway.ask("GET", "/manual")
    assert (response.status_code, response.json()) == (200, "anonymous")


async def test_an_open_manual_still_rejects_wrong_keys_and_knows_right_ones(gateway):
    gateway.configure(utcp_anonymous=True)
    key = await gateway.key("tools:read")
    assert (await gateway.ask("GET", "/manual", key)).json() == key_id_of(key)
    assert (await gateway.ask("GET", "/manual", key[:-1] + "x")).status_code == 401
    assert (await gateway.ask("GET", "/manual", await gateway.key("metrics:read"))).status_code == 403


def test_every_route_can_be_asked_what_it_declares(gateway):
    found = {}
    for route in gateway.app.router.routes:
        for one in getattr(getattr(route, "original_router", None), "routes", None) or [route]:
            for method in getattr(one, "methods", None) or ():
                found[method, one.path] = declared_scope(one)
    assert found["GET", "/open"] == "open"
    assert found["GET", "/tools"] == "tools:read"
    assert found["GET", "/manual"] == "tools:read"
    assert found["POST", "/call"] == "tools:call"
    assert found["GET", "/undeclared"] is None
    assert found["POST", "/keys"] == "keys:manage"
    assert found["DELETE", "/keys/{key_id}"] == "keys:manage"
    assert found["GET", "/events"] == "calls:read"


def test_the_openapi_document_tells_how_to_authorise(gateway):
    document = gateway.app.openapi()
    assert document["components"]["securitySchemes"]["apiKey"]["scheme"] == "bearer"
    assert document["paths"]["/tools"]["get"]["security"] == [{"apiKey": []}]
    assert "security" not in document["paths"]["/open"]["get"]
