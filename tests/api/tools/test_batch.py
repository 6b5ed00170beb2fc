"""POST /tools:batch: many tools in one transaction, by the rules of PATCH /tools/{name}."""

import asyncio

import pytest
from sqlalchemy import text

from app.storage.models import Revision
from tests.harness.cases import for_each


@pytest.fixture
async def tools(api):
    books = await api.provider("library", tags=["public"])
    for name in ("a", "b", "c"):
        await api.tool(books, name, {"url": "https://x.example/a"}, description=f"Tool {name}.", tags=["own"])
    weather = await api.provider("weather", tags=["internal"])
    async with api.services.database.transaction() as session:
        revision = Revision(provider_id=weather.id)
        session.add(revision)
    for name in ("now", "later"):
        await api.tool(
            weather, name, {"url": "https://x.example/w"}, revision_id=revision.id, tags=["sky", "public"]
        )


async def batch(client, *operations, status=200, **members):
    response = await client.post("/tools:batch", json={"operations": list(operations), **members})
    assert response.status_code == status, response.text
    return response.json()


def outcomes(result):
    return {item["name"]: (item["outcome"], item["status"]) for item in result["items"]}


async def versions(client):
    return {tool["name"]: tool["version"] for tool in (await client.get("/tools")).json()["items"]}


async def test_tools_of_a_name_an_alias_and_a_filter_are_changed(api, tools):
    client = await api.client("admin")
    result = await batch(
        client,
        {"tool": "library.a", "patch": {"description": "One."}},
        {"tool": "library_b", "patch": {"enabled": False}},
        {"filter": {"provider": "weather"}, "patch": {"enabled": False}},
    )
    assert outcomes(result) == dict.fromkeys(
        ["library.a", "library.b", "weather.later", "weather.now"], ("changed", 200)
    )
    assert result["counts"] == {"changed": 4, "unchanged": 0, "failed": 0, "rolled_back": 0}
    assert (result["applied"], result["dry_run"]) == (True, False)
    found = {tool["name"]: tool for tool in (await client.get("/tools")).json()["items"]}
    assert found["library.a"]["description"] == "One."
    assert [name for name, tool in found.items() if tool["enabled"]] == ["library.a", "library.c"]
    assert [item["version"] for item in result["items"]] == [2, 2, 2, 2]


async def test_a_repeated_batch_changes_nothing(api, tools):
    client = await api.client("admin")
    operation = {"filter": {"tag": "own"}, "patch": {"enabled": False, "description": None, "tags": ["x"]}}
    assert (await batch(client, operation))["counts"]["changed"] == 3
    before = await versions(client)
    again = await batch(client, {**operation, "filter": {"provider": "library"}})
    assert outcomes(again) == dict.fromkeys(["library.a", "library.b", "library.c"], ("unchanged", 200))
    assert await versions(client) == before


async def test_each_change_has_an_event_and_the_feed_moves_once_per_provider(api, tools):
    client = await api.client("admin")
    position = api.services.feed.position
    await batch(client, {"filter": {"state": "enabled"}, "patch": {"description": "Same."}})
    assert api.services.feed.position == position + 2
    async with api.services.database.read_session() as session:
        rows = (await session.execute(text("SELECT object_name FROM events WHERE action = 'updated'"))).all()
    assert sorted(row[0] for row in rows) == [
        "library.a", "library.b", "library.c", "weather.later", "weather.now",
    ]  # fmt: skip


async def test_calls_of_tools_that_a_batch_disables_are_rejected(api, tools):
    client = await api.client("admin")
    assert (await client.post("/tools/library.a/call?dry_run=true", json={})).status_code == 200
    await batch(client, {"filter": {"provider": "library"}, "patch": {"enabled": False}})
    rejected = await client.post("/tools/library.a/call?dry_run=true", json={})
    assert rejected.status_code == 404
    assert rejected.json()["detail"] == "The tool library.a is disabled."


async def test_failed_changes_leave_the_others_in_place(api, tools):
    client = await api.client("admin")
    result = await batch(
        client,
        {"tool": "library.a", "patch": {"enabled": False}},
        {"tool": "library.none", "patch": {"enabled": False}},
        {"tool": "library.b", "patch": {"enabled": False}, "if_match": '"7"'},
        status=207,
    )
    assert outcomes(result) == {
        "library.a": ("changed", 200),
        "library.none": ("failed", 404),
        "library.b": ("failed", 412),
    }
    problems = [item["problem"] and item["problem"]["type"].rpartition(":")[2] for item in result["items"]]
    assert problems == [None, "not-found", "precondition-failed"]
    assert all(item["problem"]["hint"] for item in result["items"][1:])


async def test_an_atomic_batch_with_a_failure_changes_nothing(api, tools):
    client = await api.client("admin")
    before = await versions(client)
    result = await batch(
        client,
        {"filter": {"provider": "library"}, "patch": {"enabled": False}},
        {"tool": "weather.none", "patch": {"enabled": False}},
        atomic=True,
        status=207,
    )
    assert result["applied"] is False
    assert result["counts"] == {"changed": 0, "unchanged": 0, "failed": 1, "rolled_back": 3}
    assert outcomes(result)["library.a"] == ("rolled_back", 424)
    assert await versions(client) == before


async def test_a_dry_run_returns_what_would_change(api, tools):
    client = await api.client("admin")
    before = await versions(client)
    result = await batch(
        client, {"filter": {"provider": "library"}, "patch": {"enabled": False}}, dry_run=True
    )
    assert (result["applied"], result["counts"]["changed"]) == (False, 3)
    assert result["items"][0]["changed"] == ["enabled"]
    assert await versions(client) == before


async def test_operations_on_one_tool_follow_each_other(api, tools):
    client = await api.client("admin")
    result = await batch(
        client,
        {"tool": "library.a", "add_tags": ["new", "own"]},
        {"tool": "library.a", "remove_tags": ["own"]},
        {"tool": "library.a", "patch": {"enabled": True}},
    )
    assert [item["outcome"] for item in result["items"]] == ["changed", "changed", "unchanged"]
    tool = (await client.get("/tools/library.a")).json()
    assert (tool["tags"], tool["version"]) == (["new"], 2)


async def test_tags_of_the_source_become_those_of_a_registrar_only_on_request(api, tools):
    """A key that is restricted to the tag `sky` sees no tool for a tag that its document chose."""
    client = await api.client("admin")
    limited = await api.client("tools:read", tags=["sky"])
    operation = {"tool": "weather.now", "add_tags": ["new"]}
    result = await batch(client, operation, status=207)
    assert outcomes(result) == {"weather.now": ("failed", 409)}
    assert "adopt_source_tags" in result["items"][0]["problem"]["hint"]
    assert await versions(limited) == {}
    await batch(client, {**operation, "adopt_source_tags": True})
    assert await versions(limited) == {"weather.now": 2}
    assert (await client.get("/tools/weather.now")).json()["tags"] == ["sky", "public", "new"]


async def test_a_restricted_key_changes_only_what_it_sees(api, tools):
    client = await api.client("providers:write", "tools:read", providers=["library"])
    result = await batch(
        client,
        {"tool": "weather.now", "patch": {"enabled": False}},
        {"filter": {"tag": "public"}, "patch": {"enabled": False}},
        status=207,
    )
    assert result["items"][0] == {
        **result["items"][0],
        "outcome": "failed",
        "status": 404,
        "version": None,
    }
    assert [item["name"] for item in result["items"][1:]] == ["library.a", "library.b", "library.c"]
    found = (await (await api.client("admin")).get("/tools?provider=weather&enabled=true")).json()
    assert len(found["items"]) == 2


async def test_one_of_concurrent_batches_with_the_same_etags_succeeds(api, tools):
    client = await api.client("admin")
    names = ["library.a", "library.b", "library.c"]

    async def send(number):
        ordered = names if number % 2 else names[::-1]
        operations = [
            {"tool": name, "patch": {"description": str(number)}, "if_match": '"1"'} for name in ordered
        ]
        return (await client.post("/tools:batch", json={"operations": operations, "atomic": True})).json()

    results = await asyncio.gather(*(send(number) for number in range(6)))
    assert sum(result["applied"] for result in results) == 1
    listed = (await client.get("/tools?provider=library")).json()["items"]
    assert len({tool["description"] for tool in listed}) == 1
    assert [tool["version"] for tool in listed] == [2, 2, 2]


async def test_more_tools_than_are_changed_at_once_are_rejected(api, tools):
    client = await api.client("admin")
    patch = {"enabled": False}
    operations = [{"tool": "library.a", "patch": patch}] * 900
    operations += [{"filter": {"provider": "library"}, "patch": patch}] * 34
    response = await client.post("/tools:batch", json={"operations": operations})
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/operations/933"
    assert set((await versions(client)).values()) == {1}


@for_each(
    ("operation", "pointer"),
    [
        ({"patch": {"enabled": True}}, "/operations/0"),
        ({"tool": "a.b", "filter": {"tag": "x"}, "patch": {"enabled": True}}, "/operations/0"),
        ({"tool": "a.b"}, "/operations/0"),
        ({"tool": "a.b", "patch": {}}, "/operations/0"),
        ({"filter": {}, "patch": {"enabled": True}}, "/operations/0/filter"),
        ({"filter": {"tag": "x"}, "patch": {"enabled": True}, "if_match": '"1"'}, "/operations/0"),
        ({"tool": "a.b", "patch": {"tags": []}, "add_tags": ["x"]}, "/operations/0"),
        ({"tool": "a.b", "patch": {"enabled": 1}}, "/operations/0/patch/enabled"),
        ({"tool": "a b", "patch": {"enabled": True}}, "/operations/0/tool"),
        ({"tool": "a.b", "enabled": True}, "/operations/0/enabled"),
    ],
)
async def test_invalid_operations_are_rejected_with_a_pointer(api, operation, pointer):
    client = await api.client("admin")
    response = await client.post("/tools:batch", json={"operations": [operation]})
    assert response.status_code == 422, response.text
    assert pointer in [error["pointer"] for error in response.json()["errors"]]


async def test_the_number_of_filters_is_bounded(api, tools):
    client = await api.client("providers:write")
    operation = {"filter": {"tag": "none"}, "patch": {"enabled": False}}
    assert (await batch(client, *[operation] * 50))["items"] == []
    problem = await batch(
        client, {**operation, "filter": None, "tool": "library.a"}, *[operation] * 51, status=422
    )
    assert [error["pointer"] for error in problem["errors"]] == ["/operations/51/filter"]
    assert (await batch(client, *[operation] * 1_000, status=422))["errors"]
