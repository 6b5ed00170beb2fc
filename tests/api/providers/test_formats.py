"""Postman collections and Google Discovery documents become providers; other kinds are named."""

import orjson
import pytest
import yaml

from tests.harness.cases import for_each

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"


def collection(**variables):
    return {
        "info": {"name": "Shop", "schema": SCHEMA},
        "variable": [{"key": key, "value": value} for key, value in variables.items()],
        "auth": {"type": "apikey", "apikey": [{"key": "key", "value": "X-Key"}, {"key": "value", "value": "s3cret"}]},
        "item": [{"name": "Pets", "item": [{"name": "Get pet", "request": {
            "method": "GET", "url": {"raw": "{{baseUrl}}/pets/:id?full=true", "host": ["{{baseUrl}}"],
                                     "path": ["pets", ":id"], "query": [{"key": "full", "value": "true"}]}}}]}],
    }  # fmt: skip


def discovery(url):
    return {
        "kind": "discovery#restDescription", "discoveryVersion": "v1", "name": "books", "version": "v1",
        "title": "Books", "rootUrl": f"{url}/", "servicePath": "v1/", "schemas": {},
        "resources": {"books": {"methods": {"get": {"id": "books.books.get", "path": "books/{id}", "httpMethod": "GET",
            "parameters": {"id": {"type": "string", "location": "path", "required": True}}}}}},
    }  # fmt: skip


@pytest.mark.parametrize("send", ["raw", "yaml", "multipart", "document", "text", "url"])
async def test_a_postman_collection_is_registered_called_and_refreshed(admin, upstream, send):
    document = collection(baseUrl=upstream.url)
    if send == "raw":
        made = await admin.post("/providers?name=shop", json=document)
    elif send == "yaml":
        made = await admin.post("/providers?name=shop", content=yaml.safe_dump(document), headers={"Content-Type": "application/yaml"})  # fmt: skip
    elif send == "multipart":
        made = await admin.post("/providers?name=shop", files={"file": ("c.json", orjson.dumps(document))})
    elif send == "url":
        upstream.pages["/c.json"] = document
        made = await admin.post("/providers", json={"name": "shop", "url": f"{upstream.url}/c.json"})
    else:
        given = document if send == "document" else orjson.dumps(document).decode()
        made = await admin.post("/providers", json={"name": "shop", "source": {"document": given}})
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["kind"], body["title"]) == ("openapi", "Shop")
    assert body["report"]["operations"][0]["pointer"] == "/item/0/item/0"
    assert "s3cret" not in made.text
    key = {"kind": "api_key", "value": "mine-and-mine-only", "location": "header", "name": "X-Key"}
    stored = await admin.put("/providers/shop/credentials/apikey", json=key)
    assert stored.status_code in (200, 201), stored.text
    called = await admin.post("/tools/shop.get_pet/call", json={"id": 7, "full": True})
    assert called.status_code == 200, called.text
    method, path, headers, _ = upstream.seen[-1]
    assert (method, path, headers["X-Key"]) == ("GET", "/pets/7?full=true", "mine-and-mine-only")
    again = await admin.post("/providers/shop/refresh")
    assert again.json()["difference"]["unchanged"] == ["GET /pets/{id}"], again.text


async def test_a_collection_without_its_base_url_says_which_variable_it_needs(admin, upstream):
    document = {"name": "shop", "source": {"document": collection()}}
    rejected = await admin.post("/providers", json=document)
    assert rejected.status_code == 422
    assert rejected.json()["errors"][0]["pointer"] == "/options/server_variables/baseUrl"
    options = {"server_variables": {"baseUrl": upstream.url}}
    made = await admin.post("/providers", json={**document, "options": options})
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [upstream.url]


@pytest.mark.parametrize("send", ["raw", "url"])
async def test_a_discovery_document_is_registered_and_called(admin, upstream, send):
    document = discovery(upstream.url)
    if send == "raw":
        made = await admin.post("/providers?name=books", json=document)
    else:
        upstream.pages["/rest"] = document
        made = await admin.post("/providers", json={"name": "books", "url": f"{upstream.url}/rest"})
    assert made.status_code == 201, made.text
    assert made.json()["report"]["operations"][0]["pointer"] == "/resources/books/methods/get"
    called = await admin.post("/tools/books.books_get/call", json={"id": "a b"})
    assert called.status_code == 200, called.text
    assert upstream.seen[-1][1] == "/v1/books/a%20b"


OTHERS = {
    "AsyncAPI": b'{"asyncapi": "2.6.0", "channels": {}}',
    "RAML": b"#%RAML 1.0\ntitle: Books\n",
    "WSDL": b'<definitions xmlns="http://schemas.xmlsoap.org/wsdl/"/>',
    "WADL": b'<application xmlns="http://wadl.dev.java.net/2009/02"/>',
    "API Blueprint": b"FORMAT: 1A\n# Books\n",
    "HAR": b'{"log": {"version": "1.2", "entries": []}}',
}


@for_each("name", OTHERS)
@for_each("send", ["raw", "multipart", "document", "url"])
async def test_other_kinds_are_named_in_the_error(admin, upstream, name, send):
    content = OTHERS[name]
    if send == "raw":
        rejected = await admin.post(
            "/providers?name=x", content=content, headers={"Content-Type": "application/yaml"}
        )
    elif send == "multipart":
        rejected = await admin.post("/providers?name=x", files={"file": ("x", content)})
    elif send == "url":
        upstream.pages["/x"] = content
        rejected = await admin.post("/providers", json={"name": "x", "url": f"{upstream.url}/x"})
    else:
        rejected = await admin.post(
            "/providers", json={"name": "x", "source": {"document": content.decode()}}
        )
    assert rejected.status_code == 422, rejected.text
    assert name in rejected.json()["detail"]
