"""Providers are changed, refreshed and deleted; variables are set, listed and reported where missing."""

import asyncio

import pytest
from sqlalchemy import text

from .documents import manual, openapi, tool


async def registered(admin, upstream, **more):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
    made = await admin.post(
        "/providers", json={"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}, **more}
    )
    assert made.status_code == 201, made.text
    return made


def changed(response):
    difference = response.json()["difference"]
    return {what: difference[what] for what in ("added", "changed", "unchanged", "removed")}


async def test_a_refresh_returns_the_difference_and_retains_names_and_overrides(admin, upstream):
    await registered(admin, upstream)
    await admin.patch("/tools/pets.listA", json={"description": "mine", "tags": ["my"], "enabled": False})
    document = openapi(upstream.url, paths=("/a", "/c"))
    document["paths"]["/a"]["get"]["operationId"] = "renamedUpstream"
    document["paths"]["/a"]["get"]["summary"] = "New words"
    upstream.pages["/openapi.json"] = document
    response = await admin.post("/providers/pets/refresh")
    assert response.status_code == 200, response.text
    assert changed(response) == {
        "added": ["GET /c"],
        "changed": ["GET /a"],
        "unchanged": [],
        "removed": ["GET /b"],
    }
    stored = (await admin.get("/tools/pets.listA")).json()
    assert (stored["description"], stored["tags"], stored["enabled"]) == ("mine", ["my"], False)
    assert (await admin.get("/tools/pets.listB")).status_code == 404
    assert (await admin.get("/tools/pets.listC")).status_code == 200
    again = changed(await admin.post("/providers/pets/refresh"))
    assert again == {"added": [], "changed": [], "unchanged": ["GET /a", "GET /c"], "removed": []}


async def test_a_preview_of_a_refresh_returns_the_difference_and_changes_nothing(admin, upstream):
    made = await registered(admin, upstream)
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/c"))
    response = await admin.post("/providers/pets/refresh/preview")
    assert response.status_code == 200, response.text
    preview = response.json()
    expected = {"added": ["GET /c"], "changed": [], "unchanged": ["GET /a"], "removed": ["GET /b"]}
    assert changed(response) == expected
    assert (preview["name"], preview["exists"]) == ("pets", True)
    assert {one["name"] for one in preview["tools"]} == {"pets.listA", "pets.listC"}
    assert (await admin.get("/providers/pets")).json()["version"] == made.json()["version"]
    assert (await admin.get("/tools/pets.listB")).status_code == 200
    assert changed(await admin.post("/providers/pets/refresh")) == expected


async def test_a_preview_of_a_refresh_names_what_would_wait_for_approval(admin, upstream):
    await registered(admin, upstream)
    upstream.pages["/openapi.json"] = openapi("https://elsewhere.example.com", paths=("/a", "/b"))
    preview = (await admin.post("/providers/pets/refresh/preview")).json()
    assert preview["difference"]["pending_approval"] == ["GET /a", "GET /b"]
    assert (await admin.get("/providers/pets")).json()["pending"] is None


async def test_a_refresh_of_an_uploaded_document_reads_its_stored_bytes(admin, upstream):
    secret = tool("echo", f"{upstream.url}/e", headers={"X-S": "hidden-one"})
    assert (await admin.post("/providers?name=m", json=manual(secret))).status_code == 201
    response = await admin.post("/providers/m/refresh")
    assert response.status_code == 200, response.text
    assert response.json()["difference"]["unchanged"] == ["echo"]
    assert len(response.json()["credentials"]) == 1
    assert (await admin.post("/tools/m.echo/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-S"] == "hidden-one"


async def test_a_report_marks_tools_with_another_name_as_renamed(admin, upstream):
    """The first name of a tool stays, whatever the source calls it later."""

    def outcomes(response):
        operations = response.json()["report"]["operations"]
        return {one["source_key"]: (one["outcome"], one["name"]) for one in operations}

    pages = [tool(name, f"{upstream.url}/e") for name in ("a.b", "a_b", "ov.c", "plain")]
    upstream.pages["/utcp"] = manual(*pages)
    made = await admin.post("/providers", json={"name": "ov", "source": {"url": f"{upstream.url}/utcp"}})
    assert made.status_code == 201, made.text
    first = outcomes(made)
    assert first["a.b"] == ("renamed", "ov.a_b")
    assert first["a_b"][0] == "renamed"
    assert first["ov.c"] == ("accepted", "ov.c")
    upstream.pages["/utcp"] = manual(*pages[1:])
    again = await admin.post("/providers/ov/refresh")
    assert again.json()["report"]["counts"]["renamed"] == 1
    assert outcomes(again) == {key: first[key] for key in ("a_b", "ov.c", "plain")}
    await admin.post(
        "/tools", json={"provider": "ov", "name": "x", "call_template": {"url": f"{upstream.url}/x"}}
    )
    export = (await admin.get("/export")).json()
    await admin.delete("/providers/ov")
    back = (await admin.post("/import", json=export)).json()["entries"][0]["report"]
    assert {one["outcome"] for one in back["operations"]} == {"accepted"}
    assert back["counts"] == {"operations": 4, "accepted": 4, "renamed": 0, "skipped": 0}


async def test_an_override_is_restored_with_its_tool(admin, upstream):
    await registered(admin, upstream)
    changed = {"enabled": False, "tags": ["mine"], "annotations": {"open_world": False}}
    assert (await admin.patch("/tools/pets.listA", json=changed)).status_code == 200
    for _ in range(2):
        upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/b",))
        assert (await admin.post("/providers/pets/refresh")).json()["difference"]["removed"] == ["GET /a"]
        export = (await admin.get("/export")).json()
        assert export["providers"][0]["overrides"] == {
            "GET /a": {
                **changed,
                "description": None,
                "requires_approval": None,
                "publish_output_schema": None,
                "response_options": None,
                "keywords": None,
            }
        }
        upstream.pages["/openapi.json"] = openapi(upstream.url, paths=("/a", "/b"))
        assert (await admin.post("/providers/pets/refresh")).json()["difference"]["added"] == ["GET /a"]
        found = (await admin.get("/tools/pets.listA")).json()
        assert (found["enabled"], found["tags"]) == (False, ["mine"])
        assert found["annotations"]["open_world"] is False
    await admin.delete("/providers/pets")
    assert (await admin.post("/import", json=export)).status_code == 200
    assert (await admin.post("/providers/pets/refresh")).status_code == 200
    assert (await admin.get("/tools/pets.listA")).json()["enabled"] is False


async def test_a_refresh_reports_header_inputs_that_the_source_no_longer_has(admin, upstream):
    def notes(response):
        (operation,) = response.json()["report"]["operations"]
        return [note for note in operation["notes"] if "Mcp-Param" in note]

    page = tool("one", f"{upstream.url}/one")
    upstream.pages["/utcp"] = manual(page)
    source = {"url": f"{upstream.url}/utcp"}
    assert (await admin.post("/providers", json={"name": "m", "source": source})).status_code == 201
    given = {"annotations": {"header_inputs": {"q": "Query"}}}
    assert (await admin.patch("/tools/m.one", json=given)).status_code == 200
    other = {"type": "object", "properties": {"text": {"type": "string"}}}
    upstream.pages["/utcp"] = manual({**page, "inputs": other})
    (note,) = notes(await admin.post("/providers/m/refresh"))
    assert "q (Mcp-Param-Query)" in note
    provider = (await admin.get("/providers/m")).json()
    assert note in provider["report"]["operations"][0]["notes"]
    assert "x-mcp-header" not in (await admin.get("/tools/export?format=mcp")).text
    # The annotation stays, and has its effect again once the input is back.
    upstream.pages["/utcp"] = manual(page)
    assert notes(await admin.post("/providers/m/refresh")) == []
    assert '"x-mcp-header":"Query"' in (await admin.get("/tools/export?format=mcp")).text


async def test_an_export_of_the_registry_has_the_header_inputs(admin, upstream):
    upstream.pages["/utcp"] = manual(tool("one", f"{upstream.url}/one"))
    source = {"url": f"{upstream.url}/utcp"}
    assert (await admin.post("/providers", json={"name": "m", "source": source})).status_code == 201
    given = {"annotations": {"header_inputs": {"q": "Query"}}}
    assert (await admin.patch("/tools/m.one", json=given)).status_code == 200
    export = (await admin.get("/export")).json()
    assert export["providers"][0]["overrides"]["one"]["annotations"] == given["annotations"]
    await admin.delete("/providers/m")
    assert (await admin.post("/import", json=export)).status_code == 200
    assert '"x-mcp-header":"Query"' in (await admin.get("/tools/export?format=mcp")).text


@pytest.mark.parametrize("key", ["${AKEY}", "literal"])
async def test_a_refresh_retains_auth_tools_that_a_tool_of_the_manual_has_too(admin, upstream, key):
    await admin.put("/variables/m_AKEY", json={"value": "literal"})
    auth = {"auth_type": "api_key", "api_key": key, "var_name": "X-Key"}
    one = tool("one", f"{upstream.url}/one", auth={**auth, "api_key": "${m_AKEY}"} if "$" in key else auth)
    upstream.pages["/utcp"] = manual(one, tool("two", f"{upstream.url}/two"))
    source = {"url": f"{upstream.url}/utcp", "auth_tools": auth}
    made = await admin.post("/providers", json={"name": "m", "source": source})
    assert made.status_code == 201, made.text
    for _ in range(3):
        for name in ("one", "two"):
            assert (await admin.post(f"/tools/m.{name}/call", json={})).status_code == 200
            assert upstream.seen[-1][2]["X-Key"] == "literal"
        again = await admin.post("/providers/m/refresh")
        assert again.status_code == 200, again.text
        assert again.json()["difference"]["changed"] == []


async def test_a_failing_refresh_changes_nothing(admin, upstream):
    await registered(admin, upstream)
    upstream.pages["/openapi.json"] = {"nothing": True}
    assert (await admin.post("/providers/pets/refresh")).status_code == 422
    assert (await admin.get("/providers/pets")).json()["tool_count"] == 2
    assert (await admin.get("/providers/pets")).json()["version"] == 1


async def test_a_patch_changes_what_it_names(admin, upstream):
    made = await registered(admin, upstream)
    stale = await admin.patch("/providers/pets", json={"description": "x"}, headers={"If-Match": '"9"'})
    assert stale.status_code == 412
    changed = await admin.patch("/providers/pets", headers={"If-Match": made.headers["etag"]}, json={
        "description": "x", "tags": ["b", "a"], "enabled": False, "limits": {"total": 5, "connect": 1},
        "options": {"proxy_url": "http://u:hidden-pw@127.0.0.1:9"}})  # fmt: skip
    assert changed.status_code == 200, changed.text
    body = changed.json()
    assert (body["description"], body["tags"], body["enabled"], body["version"]) == (
        "x",
        ["b", "a"],
        False,
        2,
    )
    assert body["limits"] == {"total": 5.0, "connect": 1.0}
    assert "hidden-pw" not in changed.text
    taken_back = await admin.patch(
        "/providers/pets", json={"limits": {"total": None}, "options": {"proxy_url": None}}
    )
    assert taken_back.json()["limits"] == {"connect": 1.0}
    assert (await admin.patch("/providers/pets", json={"name": "other"})).status_code == 422


async def test_a_deleted_provider_leaves_only_its_records(admin, upstream, gateway_app):
    await registered(admin, upstream, credentials={"key": {"kind": "api_key", "value": "v"}},
                     variables={"A": {"value": "x"}})  # fmt: skip
    await admin.patch("/tools/pets.listA", json={"description": "mine"})
    assert (await admin.delete("/providers/pets", headers={"If-Match": '"5"'})).status_code == 412
    assert (await admin.delete("/providers/pets")).status_code == 204
    assert (await admin.get("/providers/pets")).status_code == 404
    async with gateway_app.services.database.read_session() as session:
        for table in ("providers", "sources", "revisions", "tools", "overrides", "credentials", "variables"):
            count = (await session.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one()
            assert (table, count) == (table, 0)
    events = (await admin.get("/events?object_type=provider")).json()["items"]
    assert [one["action"] for one in events[:2]] == ["deleted", "created"]


async def test_a_registration_with_an_unset_variable_is_rejected_and_names_it(admin, upstream):
    one = tool("echo", "https://${HOST}/e", auth={"auth_type": "api_key", "api_key": "Bearer $TOKEN"},
               headers={"X-A": "${HEADER}"})  # fmt: skip
    rejected = await admin.post("/providers?name=m", json=manual(one))
    assert rejected.status_code == 422
    body = rejected.json()
    assert body["type"].endswith("unset-variable")
    assert {error["pointer"] for error in body["errors"]} >= {"/tools/0/tool_call_template/url"}
    assert (await admin.get("/providers")).json()["items"] == []


async def test_variables_are_looked_up_at_the_provider_the_tenant_and_the_environment(
    admin, upstream, monkeypatch
):
    monkeypatch.setenv("GATEWAY_TEST_REGION", "eu")
    await admin.put("/variables/BASE", json={"value": upstream.url, "secret": False})
    await admin.put("/variables/TOKEN", json={"value": "tenant-token"})
    one = tool("echo", "${BASE}/e/${GATEWAY_TEST_REGION}", auth={"auth_type": "api_key", "api_key": "Bearer $my_gw_KEY",
               "var_name": "Authorization"}, headers={"X-T": "${TOKEN}"})  # fmt: skip
    one["tool_call_template"]["auth"]["api_key"] = "Bearer $my__gw_KEY"
    body = {"name": "my_gw", "source": {"manual": manual(one)}, "variables": {"KEY": {"value": "own-key"}}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [upstream.url]
    assert (await admin.post("/tools/my_gw.echo/call", json={})).status_code == 200
    _, path, headers, _ = upstream.seen[-1]
    assert path == "/e/eu"
    assert (headers["Authorization"], headers["X-T"]) == ("Bearer own-key", "tenant-token")
    await admin.put("/providers/my_gw/variables/TOKEN", json={"value": "provider-token"})
    await admin.post("/tools/my_gw.echo/call", json={})
    assert upstream.seen[-1][2]["X-T"] == "provider-token"
    await admin.delete("/providers/my_gw/variables/TOKEN")
    await admin.delete("/variables/TOKEN")
    missing = await admin.post("/tools/my_gw.echo/call", json={})
    assert missing.status_code == 422, missing.text
    assert missing.json()["variables"] == ["TOKEN"]


async def test_a_fetched_manual_never_reaches_a_variable_of_the_tenant(admin, upstream):
    await admin.put("/variables/KEY", json={"value": "tenant-secret"})
    auth = {"auth_type": "api_key", "api_key": "$KEY", "var_name": "X-Auth"}
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/echo", auth=auth))
    template = {"name": "gw", "call_template_type": "http", "url": f"{upstream.url}/utcp"}
    rejected = await admin.post("/providers", json=template)
    assert (rejected.status_code, rejected.json()["variables"]) == (422, ["KEY"])
    body = {"name": "gw", "source": {"call_template": template}, "variables": {"KEY": {"value": "own"}}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert (await admin.post("/tools/gw.echo/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["X-Auth"] == "own"
    rejected = await admin.delete("/providers/gw/variables/KEY")
    assert rejected.status_code == 409, rejected.text
    assert not [one for one in upstream.seen if "tenant-secret" in str(one)]


async def test_a_secret_variable_is_allowed_in_no_public_field(admin, upstream):
    await admin.put("/variables/HIDDEN", json={"value": "x"})
    rejected = await admin.post("/providers?name=m", json=manual(tool("echo", "https://${HIDDEN}.example/e")))
    assert rejected.status_code == 422, rejected.text
    assert rejected.json()["errors"][0]["pointer"] == "/tools/0/tool_call_template/url"


async def test_variables_are_write_only_and_come_from_a_dotenv_file(admin):
    made = await admin.put("/variables/OPEN", json={"value": "seen", "secret": False})
    assert (made.status_code, made.json()["value"]) == (201, "seen")
    assert (await admin.put("/variables/OPEN", json={"value": "hidden-now"})).json()["value"] is None
    stored = await admin.post(
        "/variables/import", content="# c\nexport A='x y'\nOPEN=2\n", headers={"Content-Type": "text/plain"}
    )
    assert stored.status_code == 200, stored.text
    assert stored.json() == {"stored": ["A", "OPEN"], "created": ["A"]}
    listed = await admin.get("/variables?limit=1")
    assert [one["name"] for one in listed.json()["items"]] == ["A"]
    rest = await admin.get(f"/variables?limit=1&cursor={listed.json()['next_cursor']}")
    assert [one["name"] for one in rest.json()["items"]] == ["OPEN"]
    assert (await admin.get("/variables?cursor=%25")).status_code == 422
    broken = await admin.post(
        "/variables/import", content="no assignment here", headers={"Content-Type": "text/plain"}
    )
    assert broken.status_code == 422
    assert (await admin.put("/variables/A", json={"value": "***"})).status_code == 422
    assert (await admin.put("/variables/A-B", json={"value": "x"})).status_code == 422


async def test_no_connection_is_held_while_the_upstream_is_awaited(admin, upstream, gateway_app):
    gate = asyncio.Event()

    async def slow():
        await gate.wait()
        from aiohttp import web

        return web.json_response(openapi(upstream.url))

    upstream.pages["/openapi.json"] = slow
    registrations = [
        asyncio.create_task(
            admin.post(
                "/providers", json={"name": f"p{n}", "source": {"url": f"{upstream.url}/openapi.json"}}
            )
        )
        for n in range(20)
    ]
    async with asyncio.timeout(20):
        while len(upstream.seen) < 20:  # noqa: ASYNC110 - the upstream's counter has no event.
            await asyncio.sleep(0.01)
    assert gateway_app.services.database.engine.pool.checkedout() == 0
    gate.set()
    assert {(await one).status_code for one in registrations} == {201}


async def test_pages_continue_where_the_last_one_ended(admin, upstream):
    for name in ("b", "A", "c", "B"):
        assert (await admin.post(f"/providers?name={name}", json=openapi(upstream.url))).status_code == 201
    seen, cursor = [], None
    while True:
        page = (
            await admin.get("/providers", params={"limit": 1, **({"cursor": cursor} if cursor else {})})
        ).json()
        seen += [one["name"] for one in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == ["A", "B", "b", "c"]
