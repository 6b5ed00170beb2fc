"""The addresses of a toolset: its manual, its search, and calls with preset arguments."""

import orjson
import pytest

DESK = {
    "providers": ["library"],
    "changes": {
        "library.books": {"name": "find_books", "presets": {"limit": 5}},
        "library.loan": {"presets": {"branch": "north", "/body/desk": 3}},
    },
}


@pytest.fixture
async def desk(api, library):
    admin = await api.client("admin")
    response = await admin.put("/toolsets/desk", json={"definition": DESK})
    assert response.status_code == 201, response.text
    return admin


async def call(client, tool, body, toolset="desk"):
    return await client.post(f"/toolsets/{toolset}/tools/{tool}/call", json=body)


async def test_call_has_the_presets(api, desk):
    agent = await api.client()
    found = await call(agent, "find_books", {"q": "tea"})
    assert found.status_code == 200, found.text
    assert found.json()["path"] == "/books?q=tea&limit=5"
    lent = (await call(agent, "library_loan", {"body": {"copy": "c1"}})).json()
    assert lent["path"] == "/loans?branch=north"
    assert orjson.loads(lent["body"]) == {"copy": "c1", "desk": 3}


@pytest.mark.parametrize(
    ("tool", "arguments", "pointer"),
    [
        ("find_books", {"q": "tea", "limit": 100}, "/limit"),
        ("library_loan", {"body": {"copy": "c", "desk": 4}}, "/body/desk"),
    ],
    ids=["name", "nested"],
)
async def test_preset_argument_from_the_client_is_rejected(api, desk, tool, arguments, pointer):
    rejected = await call(await api.client(), tool, arguments)
    assert rejected.status_code == 422
    assert [error["pointer"] for error in rejected.json()["errors"]] == [pointer]


async def test_preset_argument_in_the_query_is_rejected(api, desk):
    agent = await api.client()
    rejected = await agent.post("/toolsets/desk/tools/find_books/call?q=tea&limit=100")
    assert rejected.status_code == 422
    assert [error["pointer"] for error in rejected.json()["errors"]] == ["#/query/limit"]


async def test_names_that_a_tool_no_longer_has_are_explained(api, desk):
    agent = await api.client()
    renamed = await call(agent, "library.books", {"q": "tea"})
    assert (renamed.status_code, renamed.json()["suggestions"]) == (404, ["find_books"])
    changes = {**DESK["changes"], "library.books": {"name": "look_up"}}
    await desk.put("/toolsets/desk", json={"definition": {**DESK, "changes": changes}})
    former = await call(agent, "find_books", {"q": "tea"})
    assert former.json()["detail"] == "find_books is called look_up in the toolset desk."
    await desk.put("/toolsets/desk", json={"definition": {"tools": ["library.loan"]}})
    removed = await call(agent, "look_up", {"q": "tea"})
    assert removed.json()["detail"] == "look_up was removed from the toolset desk: list its tools again."


async def test_tools_that_are_no_members_are_not_called(api, desk):
    agent = await api.client()
    assert (await call(agent, "weather.now", {})).status_code == 404
    assert (await call(agent, "find_books", {"q": "x"}, toolset="none")).status_code == 404


async def test_same_idempotency_key_gets_the_same_response(api, desk):
    agent = await api.client()
    headers = {"Idempotency-Key": "one"}
    path = "/toolsets/desk/tools/find_books/call"
    first, second = [await agent.post(path, json={"q": "tea"}, headers=headers) for _ in range(2)]
    assert first.content == second.content
    assert second.headers["idempotency-replayed"] == "true"
    other = await agent.post("/tools/library.books/call", json={"q": "tea", "limit": 6}, headers=headers)
    assert other.status_code == 422


async def test_dry_run_shows_the_presets_to_who_may_read_them(api, desk):
    shown = await desk.post("/toolsets/desk/tools/find_books/call?dry_run=true", json={"q": "tea"})
    assert "limit=5" in shown.text


@pytest.mark.parametrize("version", ["0", "1"])
async def test_manual_points_to_the_toolset(api, desk, version):
    agent = await api.client()
    response = await agent.get("/toolsets/desk/utcp", params={"version": version})
    tools = {tool["name"]: tool for tool in response.json()["tools"]}
    assert sorted(tools) == ["find_books", "library_loan"]
    template = tools["find_books"]["tool_provider" if version == "0" else "tool_call_template"]
    assert template["url"] == "https://gateway.example/toolsets/desk/tools/find_books/call"
    inputs = tools["find_books"]["inputs"]["properties"]["body"]
    assert "limit" not in inputs["properties"]
    assert inputs["required"] == ["q"]
    same = await agent.get(
        "/toolsets/desk/utcp",
        params={"version": version},
        headers={"If-None-Match": response.headers["etag"]},
    )
    assert same.status_code == 304


async def test_manual_follows_the_registry_and_the_definition(api, desk):
    agent = await api.client()
    before = await agent.get("/toolsets/desk/utcp")
    await desk.patch("/tools/library.books", json={"description": "Look into the catalogue."})
    after = await agent.get("/toolsets/desk/utcp")
    assert before.headers["etag"] != after.headers["etag"]
    assert "Look into the catalogue." in after.text
    await desk.put("/toolsets/desk", json={"definition": {"tools": ["library.loan"]}})
    assert "find_books" not in (await agent.get("/toolsets/desk/utcp")).text


async def test_manual_is_restricted_by_tag_and_search(api, desk):
    agent = await api.client()
    found = await agent.get("/toolsets/desk/utcp", params={"q": "catalogue"})
    assert [tool["name"] for tool in found.json()["tools"]] == ["find_books"]
    none = await agent.get("/toolsets/desk/utcp", params={"tag": "internal"})
    assert none.json()["tools"] == []


async def test_search_finds_members_only(api, desk):
    agent = await api.client()
    everything = (await agent.get("/toolsets/desk/search")).json()["items"]
    assert [hit["name"] for hit in everything] == ["find_books", "library_loan"]
    assert (await agent.get("/toolsets/desk/search", params={"q": "rain"})).json()["items"] == []
    (hit,) = (await agent.get("/toolsets/desk/search", params={"q": "find_books", "limit": 1})).json()[
        "items"
    ]
    assert hit["call_url"] == "https://gateway.example/toolsets/desk/tools/find_books/call"


async def test_manual_follows_a_restricted_key(api, desk):
    admin = desk
    await admin.put("/toolsets/all", json={"definition": {"providers": ["library", "weather"]}})
    limited = await api.client("tools:read", providers=["weather"])
    found = (await limited.get("/toolsets/all/utcp")).json()["tools"]
    assert [tool["name"] for tool in found] == ["weather_now"]


async def test_manual_is_compressed_for_clients_that_accept_it(api, desk):
    """The header Accept-Encoding decides about the form and its ETag, as for other manuals."""
    agent = await api.client()
    await desk.put("/toolsets/all", json={"definition": {"providers": ["library", "weather"]}})
    plain = await agent.get("/toolsets/all/utcp", headers={"Accept-Encoding": "identity"})
    zipped = await agent.get("/toolsets/all/utcp", headers={"Accept-Encoding": "gzip"})
    assert plain.json() == zipped.json()
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.headers["etag"] != plain.headers["etag"]


async def test_errors_do_not_suggest_presets_and_say_who_can_mend_them(api, desk, library, upstream):
    strict = {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}}}
    strict |= {"additionalProperties": False}
    await api.tool(library, "strict", {"url": f"{upstream}/books"}, inputs=strict)
    changes = {"library.strict": {"presets": {"limit": 5}}}
    body = {"definition": {"tools": ["library.strict"], "changes": changes}}
    await desk.put("/toolsets/desk", json=body)
    agent = await api.client()
    (error,) = (await call(agent, "library_strict", {"limits": 3})).json()["errors"]
    assert (error["pointer"], error["detail"]) == ("/limits", "This property is unknown.")
    assert "nearest" not in error
    (error,) = (await call(agent, "library_strict", {"limit": 3})).json()["errors"]
    assert error["detail"] == "The toolset sets this argument: leave it out."
    changes["library.strict"]["presets"]["limit"] = "many"
    await desk.put("/toolsets/desk", json=body)
    (error,) = (await call(agent, "library_strict", {"q": "x"})).json()["errors"]
    assert error["pointer"] == "/limit"
    assert "whoever manages the toolset" in error["detail"]
    assert "integer" not in str(error)


async def test_manual_of_a_client_that_streams(api, library, upstream):
    """The tools that stream are as in the manual of the registry, but for the address of calls."""
    template = {"url": f"{upstream}/events", "call_template_type": "sse"}
    await api.tool(library, "events", template, inputs={"type": "object", "properties": {}})
    admin = await api.client("admin")
    await admin.put("/toolsets/desk", json={"definition": {"providers": ["library"]}})
    agent = await api.client()

    async def templates(path, **query):
        response = await agent.get(path, params=query)
        assert (response.status_code, response.headers["x-tools-left-out"]) == (200, "0"), response.text
        return {tool["name"]: tool["tool_call_template"] for tool in response.json()["tools"]}

    streaming = {"protocol": "http,streamable_http"}
    for query, kind in (({}, "http"), ({"protocol": "http"}, "http"), (streaming, "streamable_http")):
        found = await templates("/toolsets/desk/utcp", **query)
        whole = await templates("/utcp", provider="library", **query)
        assert found.keys() == whole.keys()
        assert found["library_events"]["call_template_type"] == kind
        for name, one in found.items():
            url = one["url"].replace("/toolsets/desk/", "/")
            assert one | {"url": url} == whole[name]
    etags = {
        (await agent.get("/toolsets/desk/utcp", params=query)).headers["etag"] for query in ({}, streaming)
    }
    assert len(etags) == 2
    assert (await agent.get("/toolsets/desk/utcp", params={"protocol": "soap"})).status_code == 422
