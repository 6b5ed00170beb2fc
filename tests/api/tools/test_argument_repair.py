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
