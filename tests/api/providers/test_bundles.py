"""Documents of several files, from an archive or from a URL, and overlays that stay with their provider."""

import orjson
import pytest
import yaml
from aiohttp import web

from app.formats.archive import pack_files

from .documents import manual, openapi, tool


def files(url):
    root = {**openapi(url, paths=()), "security": []}
    root["paths"] = {"/pets": {"$ref": "paths/pets.yaml"}, "/lost": {"$ref": "paths/lost.yaml"}}
    pets = {"post": {"operationId": "addPet", "responses": {},
                     "requestBody": {"content": {"application/json": {"schema": {"$ref": "../pet.yaml#/Pet"}}}}}}  # fmt: skip
    lost = {"get": {"operationId": "lose", "parameters": [{"$ref": "gone.yaml"}], "responses": {}}}
    pet = {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}
    return {"openapi.json": orjson.dumps(root), "paths/pets.yaml": yaml.safe_dump(pets).encode(),
            "paths/lost.yaml": yaml.safe_dump(lost).encode(), "pet.yaml": yaml.safe_dump(pet).encode()}  # fmt: skip


OVERLAY = {
    "overlay": "1.0.0",
    "info": {"title": "Ours", "version": "1"},
    "actions": [{"target": "$.paths.*[?@.operationId]", "update": {"summary": "From the overlay"}}],
}


@pytest.mark.parametrize("send", ["raw", "multipart"])
async def test_a_zip_archive_is_a_document(admin, upstream, send):
    archive = pack_files(files(upstream.url))
    if send == "raw":
        made = await admin.post(
            "/providers?name=pets", content=archive, headers={"Content-Type": "application/zip"}
        )
    else:
        made = await admin.post("/providers?name=pets", files={"file": ("pets.zip", archive)}, data={"root": "openapi.json"})  # fmt: skip
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["report"]["counts"] == {"operations": 2, "accepted": 2, "renamed": 0, "skipped": 0}
    assert (body["kind"], body["source"]["root"]) == (
        "openapi",
        "openapi.json" if send == "multipart" else None,
    )
    called = await admin.post("/tools/pets.addPet/call", json={"body": {"name": "Rex"}})
    assert called.status_code == 200, called.text
    assert (await admin.post("/tools/pets.addPet/call", json={"body": {}})).status_code == 422
    again = await admin.post("/providers/pets/refresh")
    assert again.status_code == 200, again.text
    assert again.json()["difference"]["unchanged"] == ["POST /pets", "GET /lost"]


async def test_an_archive_is_restored_from_an_export(admin, upstream):
    archive = pack_files({**files(upstream.url), "other.json": orjson.dumps(openapi(upstream.url))})
    made = await admin.post("/providers?name=pets", files={"file": ("p.zip", archive), "overlay": orjson.dumps(OVERLAY)},
                            data={"root": "openapi.json"})  # fmt: skip
    assert made.status_code == 201, made.text
    export = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/pets")).status_code == 204
    brought = await admin.post("/import", json=export)
    assert brought.json()["counts"]["registered"] == 1, brought.text
    found = (await admin.get("/tools/pets.addPet")).json()
    assert found["description"] == "From the overlay"
    assert (await admin.get("/providers/pets")).json()["source"]["root"] == "openapi.json"


async def test_files_that_a_document_at_a_url_refers_to_are_fetched(admin, upstream):
    upstream.pages |= {f"/docs/{name}": orjson.loads(body) if name.endswith("json") else body
                       for name, body in files(upstream.url).items()}  # fmt: skip

    async def not_found():
        return web.Response(status=404)

    upstream.pages["/docs/paths/gone.yaml"] = not_found
    source = {"url": f"{upstream.url}/docs/openapi.json", "headers": {"X-Docs": "secret"}}
    alone = await admin.post(
        "/providers", json={"name": "alone", "source": {**source, "follow_references": False}}
    )
    assert alone.status_code == 422
    assert "/paths/~1pets/$ref" in {one["pointer"] for one in alone.json()["errors"]}, alone.text
    upstream.seen.clear()
    upstream.guard = lambda request: request.headers.get("X-Docs") == "secret"
    unasked = await admin.post("/providers", json={"name": "pets", "source": source})
    assert unasked.status_code == 422
    assert any("`source.follow_references` is true" in one["detail"] for one in unasked.json()["errors"])
    assert [path for _, path, *_ in upstream.seen] == ["/docs/openapi.json"]
    source["follow_references"] = True
    upstream.seen.clear()
    made = await admin.post("/providers", json={"name": "pets", "source": source})
    assert made.status_code == 201, made.text
    body = made.json()
    assert body["report"]["counts"] == {"operations": 2, "accepted": 2, "renamed": 0, "skipped": 0}
    assert body["source"]["follow_references"] is True
    assert any("gone.yaml" in one["detail"] for one in body["report"]["warnings"])
    assert [path for _, path, _, _ in upstream.seen] == [
        "/docs/openapi.json", "/docs/paths/pets.yaml", "/docs/paths/lost.yaml", "/docs/pet.yaml", "/docs/paths/gone.yaml",
    ]  # fmt: skip
    upstream.pages["/docs/pet.yaml"] = b"Pet: {type: object, properties: {kind: {type: string}}}"
    again = await admin.post("/providers/pets/refresh")
    assert again.json()["difference"]["changed"] == ["POST /pets"], again.text
    assert again.json()["source"]["root"] == "docs/openapi.json"
    export = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/pets")).status_code == 204
    brought = (await admin.post("/import", json=export)).json()["entries"][-1]
    assert brought["report"]["counts"]["accepted"] == 2, brought
    assert (await admin.get("/providers/pets")).json()["source"]["follow_references"] is True


async def test_files_of_another_origin_are_not_fetched(admin, upstream, elsewhere):
    document = openapi(upstream.url)
    document["paths"]["/far"] = {"$ref": f"{elsewhere.url}/far.yaml"}
    upstream.pages["/openapi.json"] = document
    source = {"url": f"{upstream.url}/openapi.json"}
    made = await admin.post("/providers", json={"name": "pets", "source": source})
    assert made.status_code == 201, made.text
    assert made.json()["report"]["counts"]["operations"] == 1
    assert elsewhere.seen == []


async def test_files_that_are_too_large_together_are_rejected(admin, upstream):
    document = openapi(upstream.url)
    document["paths"] = {f"/{n}": {"$ref": f"{n}.json"} for n in range(5)}
    upstream.pages["/openapi.json"] = document
    upstream.pages |= {f"/{n}.json": {"get": {"description": "x" * (1 << 19)}} for n in range(5)}
    source = {"url": f"{upstream.url}/openapi.json"}
    made = await admin.post("/providers", json={"name": "pets", "source": source})
    assert made.status_code == 413, made.text
    assert f"more than {2 << 20} bytes" in made.json()["detail"]
    assert "follow_references" in made.json()["hint"]
    document["paths"] = {f"/{n}": {"$ref": f"{n}.json"} for n in range(501)}
    many = await admin.post("/providers", json={"name": "pets", "source": source})
    assert many.status_code == 413, many.text
    assert "more than 500" in many.json()["detail"]


async def test_following_is_the_default_of_openapi_documents_at_a_url_only(admin, upstream):
    upstream.pages |= {
        "/openapi.json": openapi(upstream.url),
        "/utcp": manual(tool("a", f"{upstream.url}/a")),
    }
    for name, source, follows in (
        ("url", {"url": f"{upstream.url}/openapi.json"}, True),
        ("headers", {"url": f"{upstream.url}/openapi.json", "headers": {"X-Docs": "secret"}}, False),
        ("off", {"url": f"{upstream.url}/openapi.json", "follow_references": False}, False),
        ("manual", {"url": f"{upstream.url}/utcp"}, False),
        ("document", {"document": openapi(upstream.url)}, False),
    ):
        made = await admin.post("/providers", json={"name": name, "source": source})
        assert made.status_code == 201, made.text
        assert made.json()["source"]["follow_references"] is follows, name
        again = await admin.post(f"/providers/{name}/refresh")
        assert again.json()["source"]["follow_references"] is follows, name
    upstream.pages["/openapi.json"]["components"] = {"schemas": {"Pet": {"$ref": "pet.json"}}}
    bound = {"url": f"{upstream.url}/openapi.json", "headers": {"X-Docs": "secret"}}
    upstream.seen.clear()
    made = await admin.post("/providers", json={"name": "bound", "source": bound})
    warnings = [one["detail"] for one in made.json()["report"]["warnings"]]
    assert any("pet.json" in text and "`source.follow_references` is true" in text for text in warnings)
    assert [path for _, path, *_ in upstream.seen] == ["/openapi.json"]
    explicit = {"url": f"{upstream.url}/utcp", "follow_references": True}
    assert (await admin.post("/providers", json={"name": "p", "source": explicit})).status_code == 422
    rooted = {"url": f"{upstream.url}/openapi.json", "root": "a.json"}
    assert (await admin.post("/providers", json={"name": "p", "source": rooted})).status_code == 422


@pytest.mark.parametrize("send", ["canonical", "text", "multipart", "file"])
async def test_an_overlay_stays_with_its_provider(admin, upstream, send):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    url = f"{upstream.url}/openapi.json"
    document = orjson.dumps(openapi(upstream.url))
    if send == "canonical":
        made = await admin.post(
            "/providers", json={"name": "pets", "source": {"url": url, "overlay": OVERLAY}}
        )
    elif send == "text":
        source = {"document": document.decode(), "overlay": yaml.safe_dump(OVERLAY)}
        made = await admin.post("/providers", json={"name": "pets", "source": source})
    elif send == "multipart":
        made = await admin.post("/providers?name=pets", files={"file": document}, data={"overlay": yaml.safe_dump(OVERLAY)})  # fmt: skip
    else:
        overlay = ("o.yaml", yaml.safe_dump(OVERLAY))
        made = await admin.post("/providers?name=pets", files={"file": document, "overlay": overlay})
    assert made.status_code == 201, made.text
    assert len(made.json()["source"]["overlay_sha256"]) == 64
    assert (await admin.get("/tools/pets.listPets")).json()["description"] == "From the overlay"
    again = await admin.post("/providers/pets/refresh")
    assert again.json()["difference"]["unchanged"] == ["GET /pets"], again.text
    assert (await admin.get("/tools/pets.listPets")).json()["description"] == "From the overlay"


async def test_an_unusable_bundle_is_rejected_with_its_location(admin, upstream):
    document = openapi(upstream.url)
    broken = await admin.post(
        "/providers", json={"name": "p", "source": {"document": document, "overlay": {"overlay": "1.0.0"}}}
    )
    assert broken.status_code == 422
    assert broken.json()["errors"][0]["pointer"] == "/overlay/actions"
    for source in (
        {"manual": manual(tool("a", f"{upstream.url}/a")), "overlay": OVERLAY},
        {"document": document, "follow_references": True},
        {"document": document, "root": "a.yaml"},
    ):
        assert (await admin.post("/providers", json={"name": "p", "source": source})).status_code == 422
    upstream.pages["/utcp"] = manual(tool("a", f"{upstream.url}/a"))
    rejected = await admin.post(
        "/providers", json={"name": "p", "source": {"url": f"{upstream.url}/utcp", "overlay": OVERLAY}}
    )
    assert rejected.status_code == 422, rejected.text
    hostile = pack_files({"a/openapi.json": orjson.dumps(document)}).replace(b"a/openapi", b"../penapi")
    rejected = await admin.post(
        "/providers?name=p", content=hostile, headers={"Content-Type": "application/zip"}
    )
    assert rejected.status_code == 422, rejected.text
    assert "not allowed" in rejected.json()["detail"]
