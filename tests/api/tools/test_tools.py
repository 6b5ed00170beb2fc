"""/tools and /calls: pages, changes with ETags, and only what the key may see."""

import asyncio

import pytest
from sqlalchemy import text

from app.storage.models import Revision
from tests.harness.cases import for_each


@pytest.fixture
async def library(api):
    books = await api.provider("library", tags=["public"])
    for name in ("b", "a", "C"):
        await api.tool(books, name, {"url": "https://x.example/a"}, description=f"Tool {name}.", tags=["own"])
    weather = await api.provider("weather", tags=["internal"])
    async with api.services.database.transaction() as session:
        revision = Revision(provider_id=weather.id)
        session.add(revision)
    await api.tool(
        weather,
        "now",
        {"url": "https://x.example/w"},
        revision_id=revision.id,
        description="Rain.",
        tags=["sky"],
    )
    return {"library": books, "weather": weather}


async def names(client, **query):
    response = await client.get("/tools", params=query)
    assert response.status_code == 200, response.text
    return [tool["name"] for tool in response.json()["items"]]


async def test_pages_hold_every_tool_once_in_one_order(api, library):
    client = await api.client()
    everything = await names(client, limit=200)
    assert sorted(everything) == ["library.C", "library.a", "library.b", "weather.now"]
    paged, cursor = [], None
    while True:
        query = {"limit": 1} | ({"cursor": cursor} if cursor else {})
        page = (await client.get("/tools", params=query)).json()
        paged += [tool["name"] for tool in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == everything


async def test_filters(api, library):
    client = await api.client()
    await (await api.client("admin")).patch("/tools/library.a", json={"enabled": False})
    assert await names(client, provider="weather") == ["weather.now"]
    assert await names(client, tag="sky") == ["weather.now"]
    assert await names(client, tag="internal") == ["weather.now"]
    assert await names(client, enabled="false") == ["library.a"]
    assert "library.a" not in await names(client, enabled="true")
    assert await names(client, provider="library", enabled="false", tag="own") == ["library.a"]


@for_each(
    "query",
    ["limit=0", "limit=201", "limit=x", "cursor=!!", "cursor=AAAA", "provider=a%00", "tag=%00", "enabled=2"],
)
async def test_invalid_queries_are_rejected(api, query):
    response = await (await api.client()).get(f"/tools?{query}")
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"


async def test_one_tool_by_name_and_alias(api, library):
    client = await api.client()
    response = await client.get("/tools/library_a")
    tool = response.json()
    assert response.headers["etag"] == '"1"'
    assert (tool["name"], tool["call_url"]) == ("library.a", "https://gateway.example/tools/library_a/call")
    assert tool["custom"] is True
    assert (await client.get("/tools/library.a")).json() == tool
    assert (await client.get("/tools/library.zzz")).status_code == 404
    assert (await client.get("/tools/%00")).status_code == 422


async def test_an_override_replaces_the_source_until_it_is_removed(api, library):
    client = await api.client("admin")
    changed = (await client.patch("/tools/weather.now", json={"description": "Sun.", "tags": ["x"]})).json()
    assert (changed["description"], changed["tags"], changed["version"]) == ("Sun.", ["x"], 2)
    half = (await client.patch("/tools/weather.now", json={"tags": None})).json()
    assert (half["description"], half["tags"]) == ("Sun.", ["sky"])
    await client.patch("/tools/weather.now", json={"description": None})
    tool = (await client.get("/tools/weather.now")).json()
    assert (tool["description"], tool["tags"], tool["enabled"]) == ("Rain.", ["sky"], True)
    async with api.services.database.read_session() as session:
        assert (await session.execute(text("SELECT count(*) FROM overrides"))).scalar_one() == 0
        actions = (await session.execute(text("SELECT action, object_name, detail FROM events"))).all()
    assert ("updated", "weather.now", {"changed": ["tags"]}) in [tuple(row) for row in actions]


@for_each(
    "body", [{"name": "x"}, {"tags": ["a\x00"]}, {"tags": [""]}, {"enabled": 1}, {"description": "\x00"}, []]
)
async def test_invalid_changes_are_rejected(api, library, body):
    client = await api.client("admin")
    assert (await client.patch("/tools/weather.now", json=body)).status_code == 422
    assert (await client.get("/tools/weather.now")).json()["version"] == 1


async def test_a_lost_update_is_rejected(api, library):
    client = await api.client("admin")
    tag = (await client.get("/tools/library.a")).headers["etag"]
    first = await client.patch("/tools/library.a", json={"description": "1"}, headers={"If-Match": tag})
    second = await client.patch("/tools/library.a", json={"description": "2"}, headers={"If-Match": tag})
    assert (first.status_code, second.status_code) == (200, 412)
    deleted = await client.delete("/tools/library.a", headers={"If-Match": tag})
    assert deleted.status_code == 412
    assert (
        await client.delete("/tools/library.a", headers={"If-Match": first.headers["etag"]})
    ).status_code == 204


async def test_one_of_concurrent_changes_with_the_same_etag_succeeds(api, library):
    client = await api.client("admin")
    responses = await asyncio.gather(
        *(
            client.patch("/tools/library.b", json={"description": str(n)}, headers={"If-Match": '"1"'})
            for n in range(5)
        )
    )
    assert sorted(response.status_code for response in responses) == [200, 412, 412, 412, 412]


async def test_only_custom_tools_can_be_deleted(api, library):
    client = await api.client("admin")
    assert (await client.delete("/tools/library.a")).status_code == 204
    assert (await client.get("/tools/library.a")).status_code == 404
    assert (await client.delete("/tools/library.a")).status_code == 404
    imported = await client.delete("/tools/weather.now")
    assert imported.status_code == 409
    assert "enabled" in imported.json()["detail"]


async def test_a_limited_key_neither_sees_nor_changes_the_rest(api, library):
    for limits in ({"providers": ["library"]}, {"tags": ["public"]}, {"tags": ["sky", "own"]}):
        client = await api.client("admin", **limits)
        assert "weather.now" not in await names(client)
        assert len(await names(client)) == 3
        assert (await client.patch("/tools/weather.now", json={"enabled": False})).status_code == 404
        assert (await client.delete("/tools/weather.now")).status_code == 404
        found = (await client.get("/tools/search", params={"q": "rain"})).json()["items"]
        assert found == []


async def test_search_hits_have_what_a_call_needs(api, library):
    client = await api.client()
    hit = (await client.get("/tools/search", params={"q": "rain"})).json()["items"][0]
    assert set(hit) == {
        "score",
        "available",
        "name",
        "alias",
        "provider",
        "signature",
        "description",
        "effects",
        "cost",
        "health",
        "missing_credential",
        "inputs",
        "tags",
        "call_url",
    }
    assert hit["name"] == "weather.now"
    assert hit["score"] > 0
    await (await api.client("admin")).patch("/tools/weather.now", json={"description": "Zebra."})
    assert (await client.get("/tools/search?q=zebra")).json()["items"][0]["name"] == "weather.now"
    assert (await client.get("/tools/search?q=rain")).json()["items"] == []
    assert len((await client.get("/tools/search")).json()["items"]) == 4
    for odd in ('"', "a AND (", "%00", "%ff", "*" * 900):
        assert (await client.get(f"/tools/search?q={odd}")).status_code == 200
    for wrong in ("limit=0", "limit=51", f"q={'x' * 8001}", "q=a&q=b&q=c&q=d&q=e"):
        assert (await client.get(f"/tools/search?{wrong}")).status_code == 422


async def test_calls_are_filtered_and_paged(api, library):
    client = await api.client()
    for name in ("library.a", "library.a", "library.nothing"):
        await client.post(f"/tools/{name}/call", json=[])
    await api.services.call_log.flush()
    reader = await api.client("calls:read")

    async def found(**query):
        response = await reader.get("/calls", params=query)
        assert response.status_code == 200, response.text
        return [call["tool"] for call in response.json()["items"]]

    assert await found() == ["library.nothing", "library.a", "library.a"]
    assert await found(tool="library.a", outcome="invalid-arguments") == ["library.a"] * 2
    assert await found(outcome="not-found") == ["library.nothing"]
    assert await found(provider="library") == ["library.a"] * 2
    assert await found(since="2000-01-01T00:00:00Z", until="2001-01-01T00:00:00Z") == []
    assert len(await found(since="0001-01-01T00:00:00+14:00", until="9999-12-31T23:59:59-14:00")) == 3
    page = (await reader.get("/calls?limit=2")).json()
    rest = (await reader.get("/calls", params={"cursor": page["next_cursor"]})).json()
    assert (len(page["items"]), len(rest["items"]), rest["next_cursor"]) == (2, 1, None)
    assert (await client.get("/calls")).status_code == 403
    limited = await api.client("calls:read", tags=["internal"])
    assert (await limited.get("/calls")).json()["items"] == []
    # A provider may hold tools that a tag shows and others that it does not.
    shown = await api.tool(library["library"], "shown", {"url": "https://x.example/a"}, tags=["shared"])
    await client.post(f"/tools/{shown.name}/call", json={"x": 1})
    by_tag = await api.client("calls:read", tags=["shared"])
    assert [one["tool"] for one in await api.calls() if one["tool"] == shown.name] == [shown.name]
    assert [one["tool"] for one in (await by_tag.get("/calls")).json()["items"]] == [shown.name]
    for wrong in ("since=5", "cursor=x", "outcome=", "limit=0"):
        assert (await reader.get(f"/calls?{wrong}")).status_code == 422


async def test_calls_are_found_by_their_outcome(api, library, upstream):
    client, reader = await api.client(), await api.client("calls:read")
    await api.tool(library["library"], "get", {"url": f"{upstream.url}/respond/200/json"})
    post = {"url": f"{upstream.url}/respond/404/problem", "http_method": "POST"}
    await api.tool(library["library"], "post", post)
    found = (await client.post("/tools/library.get/call", json={})).headers["x-call-id"]
    by_manual = {"X-Call-Interface": "utcp"}
    missing = (await client.post("/tools/library.post/call", json={}, headers=by_manual)).headers["x-call-id"]
    unknown = {"X-Call-Interface": "mcp"}
    nothing = (await client.post("/tools/library.none/call", json={}, headers=unknown)).headers["x-call-id"]
    await api.services.call_log.flush()

    async def ids(**query):
        response = await reader.get("/calls", params=query)
        assert response.status_code == 200, response.text
        return {call["id"] for call in response.json()["items"]} & {found, missing, nothing}

    assert await ids(status=404) == {missing, nothing}
    assert await ids(upstream_status=404) == {missing}
    assert await ids(upstream_status=200, status=200) == {found}
    assert await ids(safe="true") == {found}
    assert await ids(safe="false") == {missing}
    assert await ids(interface="utcp") == {missing}
    assert await ids(interface="rest") == {found, nothing}
    assert await ids(call_id=found) == {found}
    assert await ids(min_duration_ms=0) == {found, missing, nothing}
    assert await ids(min_duration_ms=3_600_000) == set()
    one = (await reader.get(f"/calls/{missing}")).json()
    assert (one["tool"], one["attempts"], one["safe"], one["status"]) == ("library.post", 1, False, 404)
    assert (await reader.get(f"/calls/{nothing}")).json()["attempts"] == 0
    assert "arguments" not in one
    assert (await client.get(f"/calls/{found}")).status_code == 403
    assert (await reader.get(f"/calls/{found[:-4]}0000")).status_code == 404
    limited = await api.client("calls:read", providers=["other"])
    assert (await limited.get(f"/calls/{found}")).status_code == 404
    for wrong in ("status=5", "min_duration_ms=nan", "safe=perhaps", "call_id=1", "interface=soap"):
        assert (await reader.get(f"/calls?{wrong}")).status_code == 422


async def test_operator_says_what_a_tool_does(api, library):
    """The method tells it by default; what is set replaces it, is in the history, and null reverts it."""
    admin = await api.client("admin")
    path = "/tools/weather.now"
    before = (await admin.get(path)).json()
    hints = {"read_only": True, "destructive": None, "idempotent": None, "open_world": True}
    known = hints | {"header_inputs": {}, "risk_tier": None}
    assert before["annotations"] == known
    given = {"annotations": {"read_only": False, "destructive": True}, "publish_output_schema": True}
    after = (await admin.patch(path, json=given)).json()
    assert after["annotations"] == known | given["annotations"]
    assert after["publish_output_schema"] is True
    history = (await admin.get(f"{path}/history")).json()["items"][0]
    assert {change["field"]: change["after"] for change in history["changes"]} == given
    reverted = {"annotations": None, "publish_output_schema": None}
    batch = {"operations": [{"tool": "weather.now", "patch": reverted}]}
    items = (await admin.post("/tools:batch", json=batch)).json()["items"]
    assert items[0]["changed"] == ["annotations", "publish_output_schema"]
    assert (await admin.get(path)).json()["annotations"] == known
