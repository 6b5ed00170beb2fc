"""POST /providers accepts every form, detects which it is, and responds with a report."""

import asyncio
from random import Random
from string import ascii_letters

import orjson
import pytest
import yaml

from tests.harness.cases import for_each

from .documents import manual, manual_v0, openapi, tool


async def tools_of(admin, provider):
    return [one["name"] for one in (await admin.get(f"/tools?provider={provider}&limit=200")).json()["items"]]


async def test_an_openapi_url_becomes_tools(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    made = await admin.post("/providers", json={"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"},
                                                "tags": ["mine"], "description": "Pets"})  # fmt: skip
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["name"], body["kind"], body["title"]) == ("pets", "openapi", "Pets")
    assert body["report"]["counts"] == {"operations": 1, "accepted": 1, "renamed": 0, "skipped": 0}
    assert body["missing_slots"] == ["key"]
    assert body["report"]["operations"][0]["security"] == [["key"]]
    assert body["origins"] == [upstream.url]
    assert body["source"]["url"] == f"{upstream.url}/openapi.json"
    assert made.headers["etag"] == '"1"'
    assert await tools_of(admin, "pets") == ["pets.listPets"]
    found = (await admin.get("/providers/pets")).json()
    assert found["tool_count"] == 1
    assert found["report"]["operations"][0]["name"] == "pets.listPets"
    assert [one["name"] for one in (await admin.get("/providers")).json()["items"]] == ["pets"]


async def test_a_registered_tool_is_called_with_its_credential(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"},
            "credentials": {"key": {"kind": "api_key", "value": "s3cret-value"}}}  # fmt: skip
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["missing_slots"] == []
    assert made.json()["credentials"][0]["allowed_origins"] == [upstream.url]
    response = await admin.post("/tools/pets.listPets/call", json={})
    assert response.status_code == 200, response.text
    assert upstream.seen[-1][2]["X-Key"] == "s3cret-value"
    assert "s3cret-value" not in made.text


@pytest.mark.parametrize("shape", [manual, manual_v0])
async def test_a_utcp_template_is_discovered_with_its_auth_and_headers(admin, upstream, shape):
    upstream.pages["/utcp"] = shape(
        tool("echo", f"{upstream.url}/echo"), tool("other.name", f"{upstream.url}/o")
    )
    upstream.guard = lambda request: (
        request.headers.get("X-Auth") == "abc" and request.headers.get("X-More") == "m"
    )
    made = await admin.post("/providers", json={
        "name": "my.gw", "call_template_type": "http", "url": f"{upstream.url}/utcp",
        "auth": {"auth_type": "api_key", "api_key": "abc", "var_name": "X-Auth"}, "headers": {"X-More": "m"},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    assert made.json()["name"] == "my_gw"
    assert await tools_of(admin, "my_gw") == ["my_gw.echo", "my_gw.other_name"]
    assert {one["slot"] for one in made.json()["credentials"]} == {"discovery", "discovery-static"}
    # The discovery's auth is not inherited by the tools.
    upstream.guard = None
    response = await admin.post("/tools/my_gw.echo/call", json={"q": "x"})
    assert response.status_code == 200, response.text
    assert "X-Auth" not in upstream.seen[-1][2]
    assert "X-More" not in upstream.seen[-1][2]
    upstream.guard = lambda request: request.headers.get("X-Auth") == "abc"
    again = await admin.post("/providers/my_gw/refresh")
    assert again.status_code == 200, again.text


async def test_auth_tools_fills_the_matching_slot_of_an_openapi_document(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    made = await admin.post("/providers", json={
        "name": "pets", "provider_type": "http", "url": f"{upstream.url}/openapi.json",
        "auth_tools": {"auth_type": "api_key", "api_key": "tools-key", "var_name": "x-key"},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    assert (await admin.post("/tools/pets.listPets/call", json={})).status_code == 200
    assert {name.lower(): value for name, value in upstream.seen[-1][2].items()}["x-key"] == "tools-key"


async def test_auth_tools_is_not_sent_to_operations_of_a_document_that_declares_no_security(admin, upstream):
    document = openapi(upstream.url)
    document["components"].pop("securitySchemes")
    document.pop("security", None)
    for path in document["paths"].values():
        for operation in path.values():
            operation.pop("security", None)
    upstream.pages["/openapi.json"] = document
    made = await admin.post("/providers", json={
        "name": "pets", "provider_type": "http", "url": f"{upstream.url}/openapi.json",
        "auth_tools": {"auth_type": "api_key", "api_key": "tools-key", "var_name": "x-key"},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    assert any("auth_tools" in one["detail"] for one in made.json()["report"]["warnings"])
    assert (await admin.post("/tools/pets.listPets/call", json={})).status_code == 200
    assert "tools-key" not in str(upstream.seen[-1])


async def test_auth_tools_serves_the_tools_of_a_manual(admin, upstream):
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/echo"))
    made = await admin.post("/providers?name=m", json={
        "call_template_type": "http", "url": f"{upstream.url}/utcp",
        "auth_tools": {"auth_type": "basic", "username": "u", "password": "p4ssword"},
    })  # fmt: skip
    assert made.status_code == 201, made.text
    assert (await admin.post("/tools/m.echo/call", json={})).status_code == 200
    assert upstream.seen[-1][2]["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("send", ["json", "yaml", "multipart", "document", "text"])
async def test_a_document_may_be_sent_in_any_form(admin, upstream, send):
    document = openapi(upstream.url)
    if send == "json":
        made = await admin.post("/providers?name=pets", json=document)
    elif send == "yaml":
        made = await admin.post("/providers?name=pets", content=yaml.safe_dump(document),
                                headers={"Content-Type": "application/yaml"})  # fmt: skip
    elif send == "multipart":
        made = await admin.post("/providers", files={"file": ("a.yaml", yaml.safe_dump(document))},
                                data={"name": "pets", "tags": '["a"]'})  # fmt: skip
    elif send == "document":
        made = await admin.post("/providers", json={"name": "pets", "source": {"document": document}})
    else:
        made = await admin.post(
            "/providers", json={"name": "pets", "source": {"document": yaml.safe_dump(document)}}
        )
    assert made.status_code == 201, made.text
    assert await tools_of(admin, "pets") == ["pets.listPets"]


async def test_an_uploaded_manual_retains_its_inline_auth_and_one_bad_tool_loses_no_other(admin, upstream):
    good = tool("good", f"{upstream.url}/good?key=query-secret", headers={"X-Static": "static-secret", "Accept": "a/b"},
                auth={"auth_type": "api_key", "api_key": "inline-secret", "var_name": "X-Inline"})  # fmt: skip
    far = tool("far", "http://x.example/")
    far["tool_call_template"] = {"call_template_type": "carrier_pigeon", "host": "x", "port": 1}
    made = await admin.post("/providers?name=m", json=manual(good, far, {"name": "broken"}))
    assert made.status_code == 201, made.text
    report = made.json()["report"]
    assert report["counts"] == {"operations": 3, "accepted": 1, "renamed": 0, "skipped": 2}
    reasons = {one["source_key"]: one.get("reason") for one in report["operations"]}
    assert "protocol is not known" in reasons["far"]
    stored = (await admin.get("/tools/m.good")).json()["call_template"]
    assert stored["headers"] == {"Accept": "a/b"}
    assert stored["url"] == f"{upstream.url}/good"
    assert (await admin.post("/tools/m.good/call", json={"q": "x"})).status_code == 200
    _, path, headers, _ = upstream.seen[-1]
    assert headers["X-Static"] == "static-secret"
    assert headers["X-Inline"] == "inline-secret"
    assert "key=query-secret" in path
    for secret in ("query-secret", "static-secret", "inline-secret"):
        for response in (
            made.text,
            (await admin.get("/providers/m")).text,
            (await admin.get("/export")).text,
        ):
            assert secret not in response


async def test_a_tool_that_the_database_cannot_store_loses_no_other(admin, upstream):
    """Three billion bytes are too many for an int4; a key of 5,000 characters for an index."""
    big = {**tool("big", f"{upstream.url}/b"), "average_response_size": 3_000_000_000}
    made = await admin.post("/providers?name=m", json=manual(big, tool("good", f"{upstream.url}/g")))
    assert made.status_code == 201, made.text
    assert (await admin.get("/tools/m.big")).json()["average_response_size"] == 3_000_000_000
    path = "/" + "".join(Random(1).choices(ascii_letters, k=5_000))
    document = openapi(upstream.url, paths=("/a", "/b", "/c"))
    document["paths"][path] = {"get": {"operationId": "long", "responses": {}}}
    made = await admin.post("/providers?name=o", json=document)
    assert made.status_code == 201, made.text
    assert await tools_of(admin, "o") == ["o.listA", "o.listB", "o.listC"]
    report = made.json()["report"]
    assert (report["counts"]["skipped"], made.json()["tool_count"]) == (1, 3)
    assert "cannot store" in report["operations"][3]["reason"]


async def test_a_list_has_an_outcome_per_entry_and_may_be_repeated(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    upstream.pages["/utcp"] = manual(tool("echo", f"{upstream.url}/echo"))
    entries = [
        {"name": "a", "provider_type": "http", "url": f"{upstream.url}/openapi.json"},
        {"name": "b", "call_template_type": "http", "url": f"{upstream.url}/utcp"},
        {"name": "c", "provider_type": "carrier_pigeon", "host": "x", "port": 1},
        {"name": "d", "provider_type": "http", "url": "ftp://nowhere"},
        {"name": "a", "provider_type": "http", "url": f"{upstream.url}/utcp"},
    ]
    made = await admin.post("/providers", json=entries)
    assert made.status_code == 207, made.text
    body = made.json()
    outcomes = [(one["name"], one["outcome"], one["status"]) for one in body["entries"]]
    assert outcomes == [("a", "registered", 201), ("b", "registered", 201), ("c", "failed", 422),
                        ("d", "failed", 422), ("a", "failed", 409)]  # fmt: skip
    problem = body["entries"][2]["problem"]
    assert problem["detail"] == "The protocol is not known"
    assert problem["errors"][0]["pointer"] == "/2/provider_type"
    requests_before = len(upstream.seen)
    again = await admin.post("/providers", json={"manual_call_templates": entries[:2]})
    assert again.status_code == 200, again.text
    assert [one["outcome"] for one in again.json()["entries"]] == ["unchanged", "unchanged"]
    assert len(upstream.seen) == requests_before


async def test_a_concurrent_double_registration_gives_one_201_and_one_409(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url, paths=tuple(f"/p{n}" for n in range(30)))
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    responses = await asyncio.gather(*(admin.post("/providers", json=body) for _ in range(4)))
    assert sorted(one.status_code for one in responses) == [201, 409, 409, 409]
    assert len(await tools_of(admin, "pets")) == 30


async def test_a_preview_changes_nothing(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    seen = await admin.post("/providers/preview", json=body)
    assert seen.status_code == 200, seen.text
    found = seen.json()
    assert [one["name"] for one in found["tools"]] == ["pets.listPets"]
    assert found["difference"]["added"] == ["GET /pets"]
    assert found["exists"] is False
    assert (await admin.get("/providers")).json()["items"] == []


async def test_an_import_may_run_in_the_background(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}

    async def finished_import():
        started = await admin.post("/providers", json=body, headers={"Prefer": "respond-async"})
        assert started.status_code == 202, started.text
        async with asyncio.timeout(15):
            while True:
                state = (await admin.get(started.headers["location"])).json()
                if state["state"] != "running":
                    return state
                await asyncio.sleep(0.02)

    state = await finished_import()
    assert (state["state"], state["status"]) == ("done", 201)
    assert state["result"]["name"] == "pets"
    state = await finished_import()
    assert (state["state"], state["status"]) == ("failed", 409)
    assert state["result"]["type"].endswith("conflict")


async def test_a_list_that_is_imported_in_the_background_says_how_far_it_is(admin, upstream):
    may_end = asyncio.Event()

    async def slow():
        await may_end.wait()
        return openapi(upstream.url)

    upstream.pages |= {"/fast.json": openapi(upstream.url), "/slow.json": slow}
    body = [
        {"name": name, "call_template_type": "http", "url": f"{upstream.url}/{name}.json"}
        for name in ("fast", "slow")
    ]
    started = await admin.post("/providers", json=body, headers={"Prefer": "respond-async"})
    assert started.status_code == 202, started.text

    async def state_when(condition):
        async with asyncio.timeout(15):
            while True:
                state = (await admin.get(started.headers["location"])).json()
                if condition(state):
                    return state
                await asyncio.sleep(0.05)

    state = await state_when(lambda state: state["progress"] is not None and state["progress"]["done"])
    assert (state["state"], state["progress"]) == ("running", {"done": 1, "total": 2})
    may_end.set()
    state = await state_when(lambda state: state["state"] != "running")
    assert (state["state"], state["progress"], len(state["result"]["entries"])) == ("done", None, 2)


@for_each(
    ("content", "media_type", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"null", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"name":"x"}', "application/json", 422),
        (b'{"name":"x","source":{}}', "application/json", 422),
        (b'{"name":"x y","source":{"url":"https://a.example"}}', "application/json", 422),
        (b'{"source":{"url":"https://a.example"}}', "application/json", 422),
        (b'{"name":"x","source":{"url":"/relative"}}', "application/json", 422),
        (b'{"name":"x","source":{"document":"hello"}}', "application/json", 422),
        (b'{"name":"x","source":{"document":{"openapi":"3.0.0"},"url":"https://a.example"}}', "application/json", 422),
        (b'{"name":"x\\u0000","source":{"url":"https://a.example"}}', "application/json", 422),
        (b"[" * 500 + b"]" * 500, "application/json", 422),
        (b"&a [*a, *a]", "application/yaml", 422),
        (b"x", "image/png", 415),
        (b"x", "multipart/form-data", 400),
        (b"x" * (3 << 20), "application/yaml", 413),
    ],
)  # fmt: skip
async def test_an_unreadable_source_is_rejected_with_its_reason(admin, content, media_type, status):
    made = await admin.post("/providers", content=content, headers={"Content-Type": media_type})
    assert made.status_code == status, made.text
    assert made.headers["content-type"] == "application/problem+json"


async def test_an_unreachable_source_is_a_502_and_a_forbidden_one_a_403(admin, upstream):
    upstream.guard = lambda _: False
    made = await admin.post(
        "/providers", json={"name": "x", "source": {"url": upstream.url + "/openapi.json"}}
    )
    assert (made.status_code, made.json()["upstream_status"]) == (502, 401)
    made = await admin.post("/providers", json={"name": "x", "source": {"url": "http://10.1.2.3/"}})
    assert made.status_code == 403, made.text
    assert (await admin.get("/providers")).json()["items"] == []


async def test_a_custom_tool_makes_its_provider_and_stays_until_it_is_deleted(admin, upstream):
    body = {"provider": "custom", "name": "echo", "description": "d", "tags": ["t"],
            "inputs": {"type": "object", "properties": {"q": {"type": "string"}}},
            "call_template": {"url": f"{upstream.url}/echo",
                              "auth": {"auth_type": "api_key", "api_key": "custom-key", "var_name": "X-H"}}}  # fmt: skip
    made = await admin.post("/tools", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["name"] == "custom.echo"
    assert "custom-key" not in made.text
    assert (await admin.post("/tools/custom.echo/call", json={"q": "1"})).status_code == 200
    assert upstream.seen[-1][2]["X-H"] == "custom-key"
    assert (await admin.post("/tools", json=body)).status_code == 409
    assert (await admin.post("/tools", json={**body, "name": "two"})).status_code == 201
    provider = (await admin.get("/providers/custom")).json()
    assert (provider["kind"], provider["tool_count"], provider["version"]) == ("custom", 2, 2)
    assert len(provider["credentials"]) == 1
    assert (await admin.post("/providers/custom/refresh")).status_code == 409


async def test_an_export_is_imported_again_without_any_secret(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    await admin.post("/providers", json={"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"},
        "credentials": {"key": {"kind": "api_key", "value": "s3cret-value"}}, "tags": ["x"]})  # fmt: skip
    await admin.post(
        "/providers?name=m", json=manual(tool("echo", f"{upstream.url}/e", headers={"X-S": "hidden-one"}))
    )
    await admin.post(
        "/tools", json={"provider": "pets", "name": "custom", "call_template": {"url": f"{upstream.url}/h"}}
    )
    await admin.patch("/tools/pets.listPets", json={"description": "edited"})
    export = (await admin.get("/export")).content
    assert b"s3cret-value" not in export
    assert b"hidden-one" not in export
    before = {name: await tools_of(admin, name) for name in ("pets", "m")}
    for name in ("pets", "m"):
        await admin.delete(f"/providers/{name}")
    back = await admin.post("/import", content=export, headers={"Content-Type": "application/json"})
    assert back.status_code == 200, back.text
    assert {name: await tools_of(admin, name) for name in ("pets", "m")} == before
    assert (await admin.get("/tools/pets.listPets")).json()["description"] == "edited"
    assert (await admin.get("/tools/pets.custom")).json()["custom"] is True
    again = await admin.post("/import", content=export, headers={"Content-Type": "application/json"})
    assert [one["outcome"] for one in again.json()["entries"]] == ["unchanged", "unchanged"]
    first, second = orjson.loads(export), orjson.loads((await admin.get("/export")).content)
    for one, other in zip(first["providers"], second["providers"], strict=True):
        for key in one:
            assert one[key] == other[key], key


async def test_an_import_stores_a_proxy_and_needs_the_scope_for_it(admin, gateway_app, upstream):
    entry = {"name": "m", "tools": [], "options": {"proxy_url": "http://user:hidden-one@127.0.0.1:9"}}
    body = {"format": "utcp-gateway/1", "providers": [entry]}
    writer = await gateway_app.client("providers:read", "providers:write")
    rejected = await writer.post("/import", json=body)
    assert [one["status"] for one in rejected.json()["entries"]] == [403]
    assert (await admin.post("/import", json=body)).status_code == 200
    body = {"provider": "m", "name": "echo", "call_template": {"url": f"{upstream.url}/e"}}
    assert (await admin.post("/tools", json=body)).status_code == 201
    # The proxy is used, and no server listens there.
    assert (await admin.post("/tools/m.echo/call", json={})).status_code == 502
    assert "hidden-one" not in (await admin.get("/export")).text


async def test_an_import_names_the_variables_that_are_missing(admin, upstream):
    one = tool("echo", f"{upstream.url}/${{PV}}")
    body = {
        "name": "m",
        "source": {"manual": manual(one)},
        "variables": {"PV": {"value": "e", "secret": False}},
    }
    assert (await admin.post("/providers", json=body)).status_code == 201
    export = (await admin.get("/export")).json()
    await admin.delete("/providers/m")
    back = (await admin.post("/import", json=export)).json()["entries"][0]["report"]
    assert ["PV" in note for note in back["operations"][0]["notes"]] == [True]
    assert ["PV" in remark["detail"] for remark in back["warnings"]] == [True]
    assert (await admin.post("/tools/m.echo/call", json={})).json()["variables"] == ["PV"]
    await admin.put("/providers/m/variables/PV", json={"value": "e", "secret": False})
    assert (await admin.post("/tools/m.echo/call", json={})).status_code == 200
    await admin.delete("/providers/m")
    await admin.put("/variables/PV", json={"value": "secret"})
    rejected = (await admin.post("/import", json=export)).json()["entries"][0]
    assert rejected["status"] == 422
    assert rejected["problem"]["errors"][0]["pointer"] == "/providers/0/tools/0/call_template/url"


async def test_the_total_timeout_of_a_discovery_includes_fetching_its_token(admin, upstream):
    opened = asyncio.Event()

    async def never():
        await opened.wait()
        return {"access_token": "late", "token_type": "Bearer"}

    upstream.pages = {"/openapi.json": openapi(upstream.url), "/token": never}
    auth = {
        "auth_type": "oauth2",
        "token_url": f"{upstream.url}/token",
        "client_id": "id",
        "client_secret": "of-the-client",
    }
    body = {
        "name": "pets",
        "source": {"url": f"{upstream.url}/openapi.json", "auth": auth},
        "limits": {"total": 2},
    }
    # The token would never come.
    async with asyncio.timeout(15):
        response = await admin.post("/providers", json=body)
    opened.set()
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (504, "upstream-timeout")
    assert [path for _, path, _, _ in upstream.seen] == ["/token"]
