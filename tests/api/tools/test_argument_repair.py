"""`Prefer: repair=...` on POST /tools/{name}/call, and what the response says of repairs."""

import pytest

INPUTS = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "genre/ä": {"enum": ["Novel"]}},
    "additionalProperties": False,
}


@pytest.fixture
async def path(api, upstream):
    row = await api.provider("library")
    await api.tool(row, "search", {"http_method": "GET", "url": f"{upstream.url}/echo"}, inputs=INPUTS)
    return "/tools/library.search/call"


async def test_rest_repairs_nothing_unless_asked(api, path):
    client = await api.client()
    response = await client.post(path, json={"n": "42"})
    assert response.status_code == 422
    for preference in ("repair=off", "repair=always", "x; repair=safe"):
        response = await client.post(path, json={"n": "42"}, headers={"Prefer": preference})
        assert response.status_code == 422, preference


@pytest.mark.parametrize("preference", ["repair=safe", 'wait=5, Repair="SAFE"', "repair=safe; x=1"])
async def test_repairs_are_named_in_the_response(api, path, preference):
    client = await api.client()
    arguments = {"n": "42", "Genre/Ä": "novel"}
    response = await client.post(path, json=arguments, headers={"Prefer": preference})
    assert response.status_code == 200, response.text
    assert response.json()["path"] == "/echo?n=42&genre%2F%C3%A4=Novel"
    assert response.headers["preference-applied"] == "repair=safe"
    named = response.headers["x-argument-repairs"].split(", ")
    assert sorted(named) == ['"#/Genre~1%C3%84";kind=name', '"#/genre~1%C3%A4";kind=enum', '"#/n";kind=type']


async def test_valid_arguments_have_no_repairs(api, path):
    client = await api.client()
    response = await client.post(path, json={"n": 42}, headers={"Prefer": "repair=on"})
    assert response.status_code == 200
    assert "x-argument-repairs" not in response.headers
    assert "preference-applied" not in response.headers


async def test_the_record_of_the_call_has_the_size_of_the_repaired_arguments(api, path):
    client = await api.client()
    await client.post(path, json={"n": "42"}, headers={"Prefer": "repair=on"})
    (record,) = await api.calls()
    assert record["request_bytes"] == len(b'{"n":42}')


async def test_the_repair_of_a_key_applies_to_its_calls_until_it_is_changed(api, path):
    admin = await api.client("admin")
    body = {"name": "agent", "scopes": ["tools:call"], "argument_repair": "safe"}
    made = (await admin.post("/keys", json=body)).json()
    assert made["argument_repair"] == "safe"
    headers = {"Authorization": f"Bearer {made['key']}"}
    response = await admin.post(path, json={"n": "42"}, headers=headers)
    assert response.status_code == 200, response.text
    assert response.headers["x-argument-repairs"] == '"#/n";kind=type'
    changed = await admin.patch(f"/keys/{made['id']}", json={"argument_repair": None})
    assert changed.json()["argument_repair"] is None
    assert (await admin.post(path, json={"n": "42"}, headers=headers)).status_code == 422
    events = (await admin.get("/events", params={"object_name": made["id"]})).json()["items"]
    assert events[0]["detail"]["after"] == {"argument_repair": None}
    rotated = await admin.patch(f"/keys/{made['id']}", json={"argument_repair": "on"})
    rotated = (await admin.post(f"/keys/{made['id']}/rotate", json={})).json()
    assert rotated["argument_repair"] == "on"
    refused = await admin.post("/keys", json={**body, "argument_repair": "always"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/argument_repair"


@pytest.mark.parametrize("preference", ["", "repair=off", "repair=safe"])
async def test_null_for_an_optional_input_is_no_value_whatever_is_asked(api, path, preference):
    client = await api.client()
    arguments = {"n": 42, "genre/ä": None}
    response = await client.post(path, json=arguments, headers={"Prefer": preference} if preference else {})
    assert response.status_code == 200, response.text
    assert response.json()["path"] == "/echo?n=42"
    assert response.headers["x-argument-repairs"] == '"#/genre~1%C3%A4";kind=null'
    described = await client.post(f"{path}?dry_run=true", json=arguments)
    assert described.json()["url"].endswith("/echo?n=42"), described.text
