"""/utcp: what UTCP clients can use, only what the key may call, with ETags and compression."""

import gzip

import pytest
from fastapi import FastAPI

from app.agents.call.endpoint import CALL_ROUTE
from app.agents.utcp import router as discovery_router
from app.api import calls, exports, search, stats, tools
from app.api.authorisation import declared_scope, iter_routes


@pytest.fixture
async def library(api):
    books = await api.provider("library", tags=["public"])
    for name in ("b", "a", "c"):
        await api.tool(books, name, {"url": "https://x.example/a"}, description=f"Tool {name}.", tags=[name])
    weather = await api.provider("weather", tags=["internal"])
    await api.tool(weather, "now", {"url": "https://x.example/w"}, description="Rain.")
    await api.tool(weather, "off", {"url": "https://x.example/w"}, override={"enabled": False})
    return {"library": books, "weather": weather}


async def listed(client, path="/utcp", **query):
    response = await client.get(path, params=query)
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["tools"]]


async def test_the_manual_names_every_enabled_tool_with_its_call_url(api, library):
    client = await api.client()
    manual = (await client.get("/utcp")).json()
    assert set(manual) == {"utcp_version", "manual_version", "tools"}
    assert [tool["name"] for tool in manual["tools"]] == [
        "library_a",
        "library_b",
        "library_c",
        "weather_now",
    ]
    template = manual["tools"][0]["tool_call_template"]
    assert template["url"] == "https://gateway.example/tools/library_a/call"
    assert set((await client.get("/utcp?version=0")).json()) == {"version", "tools"}
    assert "null" not in (await client.get("/utcp")).text


async def test_filters(api, library):
    client = await api.client()
    assert await listed(client, provider="weather") == ["weather_now"]
    assert await listed(client, tag="b") == ["library_b"]
    assert await listed(client, tag="internal") == ["weather_now"]
    assert await listed(client, q="rain") == ["weather_now"]
    assert sorted(await listed(client, q="tool c a b")) == ["library_a", "library_b", "library_c"]
    assert await listed(client, provider="absent") == []
    assert await listed(client, "/providers/library/utcp", tag="c") == ["library_c"]
    assert (await client.get("/providers/absent/utcp")).status_code == 404
    for wrong in ("version=2", "version=", "provider=%00", "tag="):
        assert (await client.get(f"/utcp?{wrong}")).status_code == 422


async def test_a_limited_key_gets_its_own_manual(api, library):
    assert await listed(await api.client()) == ["library_a", "library_b", "library_c", "weather_now"]
    for limits in ({"providers": ["weather"]}, {"tags": ["internal"]}):
        client = await api.client(**limits)
        assert await listed(client) == ["weather_now"]
        assert await listed(client, q="tool rain") == ["weather_now"]
        assert (await client.get("/providers/library/utcp")).status_code == 404
        assert await listed(client, "/providers/weather/utcp") == ["weather_now"]
    by_tool = await api.client(tags=["b"])
    assert await listed(by_tool, "/providers/library/utcp") == ["library_b"]
    assert (await by_tool.get("/providers/weather/utcp")).status_code == 404


async def test_a_matching_etag_gets_304(api, library):
    client = await api.client()
    first = await client.get("/utcp", headers={"Accept-Encoding": "identity"})
    tag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"
    assert {"Accept-Encoding", "Authorization"} <= set(first.headers["vary"].split(", "))
    for value in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = await client.get("/utcp", headers={"Accept-Encoding": "identity", "If-None-Match": value})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = await client.get("/utcp?version=0", headers={"Accept-Encoding": "identity", "If-None-Match": tag})
    assert other.status_code == 200
    await (await api.client("admin")).patch("/tools/library.a", json={"description": "New."})
    changed = await client.get("/utcp", headers={"Accept-Encoding": "identity", "If-None-Match": tag})
    assert changed.status_code == 200
    assert "New." in changed.text


async def test_compression_has_its_own_etag_and_the_same_content(api, library):
    client = await api.client()
    plain = await client.get("/utcp", headers={"Accept-Encoding": "identity"})
    async with client.stream("GET", "/utcp", headers={"Accept-Encoding": "br, gzip;q=0.8"}) as zipped:
        raw = b"".join([piece async for piece in zipped.aiter_raw()])
    assert zipped.headers["content-encoding"] == "gzip"
    assert gzip.decompress(raw) == plain.content
    assert zipped.headers["etag"] != plain.headers["etag"]
    rejected = await client.get("/utcp", headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in rejected.headers


async def test_changes_are_shown_at_once(api, library):
    client = await api.client()
    assert "library_c" in await listed(client)
    await (await api.client("admin")).delete("/tools/library.c")
    assert "library_c" not in await listed(client)
    books = library["library"]
    await api.tool(books, "d", {"url": "https://x.example/d"})
    assert await listed(client, provider="library") == ["library_a", "library_b", "library_d"]


async def test_the_manual_needs_a_key_unless_a_setting_opens_it(api, library):
    client = await api.client()
    client.headers.pop("Authorization")
    assert (await client.get("/utcp")).status_code == 401
    assert (await (await api.client("tools:call")).get("/utcp")).status_code == 403


def test_every_route_declares_what_it_needs():
    api = FastAPI(openapi_url=None)
    for edge in (exports, search, tools, calls, stats):
        edge.install(api)
    routes = iter_routes([CALL_ROUTE, *api.routes, *discovery_router.routes])
    declared = {(route.path, declared_scope(route)) for route in routes}
    assert ("/tools/{name}/call", "tools:call") in declared
    assert ("/utcp", "tools:read") in declared
    assert None not in {scope for _, scope in declared}
