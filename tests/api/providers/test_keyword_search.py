"""Tools are found by their keywords, and by words of the language of their provider."""

from .documents import manual, openapi, tool


async def found_by(client, q, **query):
    response = await client.get("/tools/search", params={"q": q, **query})
    assert response.status_code == 200, response.text
    return [hit["name"] for hit in response.json()["items"]]


async def registered(admin, source, name="pets", **more):
    made = await admin.post("/providers", json={"name": name, "source": source, **more})
    assert made.status_code == 201, made.text


async def test_a_keyword_of_the_document_finds_its_tool(admin, upstream):
    document = openapi(upstream.url, paths=("/a", "/b"))
    document["paths"]["/a"]["get"]["x-keywords"] = ["voucher", "gift cards"]
    upstream.pages["/openapi.json"] = document
    await registered(admin, {"url": f"{upstream.url}/openapi.json"})
    assert await found_by(admin, "redeem a voucher") == ["pets.listA"]
    assert await found_by(admin, "gift card") == ["pets.listA"]
    document["paths"]["/a"]["get"]["x-keywords"] = ["rebate"]
    document["paths"]["/b"]["get"]["x-keywords"] = ["voucher"]
    assert (await admin.post("/providers/pets/refresh")).status_code == 200
    assert await found_by(admin, "voucher") == ["pets.listB"]


async def test_a_keyword_of_an_overlay_finds_its_tool(admin, upstream):
    action = {"target": "$.paths['/b'].get", "update": {"x-keywords": ["voucher"]}}
    overlay = {"overlay": "1.0.0", "info": {"title": "W", "version": "1"}, "actions": [action]}
    await registered(admin, {"document": openapi(upstream.url, paths=("/a", "/b")), "overlay": overlay})
    assert await found_by(admin, "voucher") == ["pets.listB"]


async def test_a_keyword_of_an_operator_finds_its_tool_in_place_of_the_source(admin, upstream):
    echo = {**tool("echo", f"{upstream.url}/e"), "x-keywords": ["parrot"]}
    await registered(admin, {"manual": manual(echo, tool("other", f"{upstream.url}/o"))}, name="m")
    assert await found_by(admin, "parrot") == ["m.echo"]
    await admin.patch("/tools/m.echo", json={"keywords": ["budgerigar"]})
    assert await found_by(admin, "budgerigar") == ["m.echo"]
    assert await found_by(admin, "parrot") == []
    await admin.patch("/tools/m.echo", json={"keywords": None})
    assert await found_by(admin, "parrot") == ["m.echo"]


async def test_a_keyword_finds_a_custom_tool(admin, upstream):
    template = {"url": f"{upstream.url}/h"}
    body = {"provider": "own", "name": "list", "call_template": template, "keywords": ["inventory"]}
    assert (await admin.post("/tools", json=body)).status_code == 201
    assert await found_by(admin, "inventory") == ["own.list"]


async def test_a_change_of_the_language_alone_is_indexed(admin, upstream):
    listed = {**tool("list", f"{upstream.url}/e"), "description": "Zeigt die Buchungen nach Tagen."}
    await registered(admin, {"manual": manual(listed)}, name="m")
    assert await found_by(admin, "Tag") == []
    assert (await admin.patch("/providers/m", json={"language": "de-AT"})).status_code == 200
    assert await found_by(admin, "Tag") == ["m.list"]
    assert (await admin.patch("/providers/m", json={"language": None})).status_code == 200
    assert await found_by(admin, "Tag") == []


async def test_a_change_of_the_provider_without_its_texts_indexes_nothing(admin, upstream, gateway_app):
    await registered(admin, {"document": openapi(upstream.url, paths=("/a", "/b"))})
    before = gateway_app.services.search.documents_indexed
    changed = {"description": "x", "tags": ["t"], "limits": {"total": 5}}
    assert (await admin.patch("/providers/pets", json=changed)).status_code == 200
    assert gateway_app.services.search.documents_indexed == before
    assert (await admin.patch("/providers/pets", json={"language": "de"})).status_code == 200
    assert gateway_app.services.search.documents_indexed == before + 2
