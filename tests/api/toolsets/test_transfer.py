"""Toolsets in the export of all definitions, and their import."""

import pytest

DESK = {
    "providers": ["library"],
    "pinned": ["library.books"],
    "mode": "search",
    "changes": {"library.books": {"name": "find_books", "presets": {"limit": 5}}},
    "result_budget": {"max_bytes": 5000},
}


@pytest.fixture
async def admin(api, library):
    client = await api.client("admin")
    before = DESK | {"changes": {"library.books": {"name": "search_books"}}}
    for body in ({"definition": before}, {"title": "Desk", "description": "Loans.", "definition": DESK}):
        assert (await client.put("/toolsets/desk", json=body)).status_code in (200, 201)
    return client


async def toolsets_of(client):
    document = (await client.get("/export")).json()
    return {"format": document["format"], "providers": [], "toolsets": document.get("toolsets", [])}


async def sent(client, document):
    response = await client.post("/import", json=document)
    assert response.status_code in (200, 207), response.text
    outcomes = [(one["name"], one["outcome"], one["status"]) for one in response.json()["toolsets"]]
    return response.status_code, outcomes


async def test_round_trip_is_complete(admin):
    document = await toolsets_of(admin)
    assert [one["former_names"] for one in document["toolsets"]] == [{"search_books": "library.books"}]
    before = (await admin.get("/toolsets/desk")).json()
    assert await sent(admin, document) == (200, [("desk", "unchanged", 200)])
    assert (await admin.delete("/toolsets/desk")).status_code == 204
    assert await sent(admin, document) == (200, [("desk", "created", 201)])
    assert await toolsets_of(admin) == document
    after = (await admin.get("/toolsets/desk")).json()
    times = ("version", "created_at", "updated_at")
    assert {key: one for key, one in after.items() if key not in times} == {
        key: one for key, one in before.items() if key not in times
    }
    renamed = await admin.post("/toolsets/desk/tools/search_books/call", json={"q": "a"})
    assert renamed.json()["suggestions"] == ["find_books"]


async def test_entries_are_judged_one_by_one(admin):
    document = await toolsets_of(admin)
    (desk,) = document["toolsets"]
    entries = [desk | {"title": "Other"}, {"name": "bad", "definition": {"mode": "none"}}, 5]
    entries += [{"name": "reserved", "definition": {"changes": {"a.b": {"name": "find_tools"}}}}]
    entries += [{"name": "later", "definition": {"tools": ["not.there"]}}]
    response = await admin.post("/import", json=document | {"toolsets": entries})
    found = response.json()["toolsets"]
    assert (response.status_code, [(one["name"], one["outcome"], one["status"]) for one in found]) == (
        207,
        [
            ("desk", "failed", 409),
            ("bad", "failed", 422),
            (None, "failed", 422),
            ("reserved", "failed", 422),
            ("later", "created", 201),
        ],
    )
    assert found[1]["problem"]["errors"][0]["pointer"] == "/toolsets/1/definition/mode"
    assert (await admin.get("/toolsets/desk")).json()["title"] == "Desk"
    wrong = await admin.post("/import", json=document | {"toolsets": {}})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/toolsets")


async def test_restricted_keys_neither_export_nor_import_toolsets(api, admin):
    document = await toolsets_of(admin)
    scopes = ("providers:read", "providers:write")
    limited = await api.client(*scopes, providers=["library"])
    assert "toolsets" not in (await limited.get("/export")).json()
    assert await sent(limited, document) == (207, [("desk", "failed", 403)])
    whole = await api.client(*scopes)
    assert (await toolsets_of(whole))["toolsets"] == document["toolsets"]
