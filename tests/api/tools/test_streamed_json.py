"""A client that accepts only JSON gets JSON, also where the upstream's response arrives in chunks."""

import json
from urllib.parse import urlencode

import pytest


async def called(api, upstream, **query):
    provider = await api.provider("api")
    await api.tool(provider, "pieces", {"url": f"{upstream.url}/pieces?{urlencode(query)}"})
    client = await api.client()
    return await client.post("/tools/api.pieces/call", headers={"Accept": "application/json"})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"body": ""}, None),
        ({"body": "[1, 2, 3, 4]"}, [1, 2, 3, 4]),
        ({"body": "[1, 2, 3, 4]", "bom": ""}, [1, 2, 3, 4]),
        ({"body": "<oops, no JSON>"}, "<oops, no JSON>"),
        ({"body": '"grüß"', "type": "application/json; charset=iso-8859-1", "coded": "latin-1"}, "grüß"),
    ],
)
async def test_a_chunked_response_is_valid_json(api, upstream, query, expected):
    response = await called(api, upstream, **query)
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.content) == expected
    assert (await api.calls())[0]["outcome"] == "ok"


async def test_a_large_response_is_passed_on_without_its_byte_order_mark(api, upstream):
    response = await called(api, upstream, body='"0123456789",', times=20_000, size=30_000, bom="")
    assert response.content == b'"0123456789",' * 20_000
    assert response.headers["content-type"] == "application/json"
    assert (await api.calls())[0]["response_bytes"] == 260_000


async def test_a_large_response_in_another_charset_is_converted(api, upstream):
    media = "application/json; charset=latin1"
    response = await called(
        api, upstream, body="é" * 10, times=30_000, size=90_000, type=media, coded="latin-1"
    )
    assert json.loads(response.content) == "é" * 300_000
