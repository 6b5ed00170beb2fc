"""Sources that nobody can call: pages, documents without servers or tools, and blocked destinations."""

import orjson
import pytest
from aiohttp import web

from .conftest import served
from .documents import manual, openapi

DOCS = b"<!doctype html><html><div id='swagger-ui'></div><script>SwaggerUIBundle({url: '/openapi.json'})</script>"


def errors_of(response):
    return {one["pointer"]: one for one in response.json()["errors"]}


def without_server(**changed):
    document = openapi("https://unused.example")
    document.pop("servers")
    return {**document, **changed}


async def test_name_and_url_are_enough(admin, upstream):
    upstream.pages["/openapi.json"] = openapi(upstream.url)
    made = await admin.post("/providers", json={"name": "pets", "url": f"{upstream.url}/openapi.json"})
    assert made.status_code == 201, made.text
    assert made.json()["source"]["url"] == f"{upstream.url}/openapi.json"
    again = await admin.post("/providers/pets/refresh")
    assert again.status_code == 200, again.text


async def test_url_form_in_a_list_with_other_members(admin, upstream):
    upstream.pages["/utcp"] = manual()
    entry = {"name": "later", "url": f"{upstream.url}/utcp", "options": {"allow_empty": True}, "tags": ["x"]}
    made = await admin.post("/providers", json=[entry, {"url": f"{upstream.url}/utcp"}])
    assert made.status_code == 207, made.text
    first, second = made.json()["entries"]
    assert (first["outcome"], second["outcome"]) == ("registered", "failed")
    assert (await admin.get("/providers/later")).json()["tags"] == ["x"]


@pytest.mark.parametrize("form", ["url", "source"])
async def test_page_of_an_api_is_rejected_with_the_url_of_its_document(admin, upstream, form):
    upstream.pages["/docs"] = lambda: page(DOCS)
    url = f"{upstream.url}/docs"
    body = {"name": "pets", **({"url": url} if form == "url" else {"source": {"url": url}})}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 422, made.text
    at = "/url" if form == "url" else "/source/url"
    assert errors_of(made)[at]["expected"] == [f"{upstream.url}/openapi.json"]
    assert f"{upstream.url}/openapi.json" in made.json()["detail"]


async def page(body, media_type="text/html"):
    return web.Response(body=body, content_type=media_type)


async def test_page_whose_script_names_the_document(admin, upstream):
    upstream.pages["/docs"] = lambda: page(b"<html><script src='swagger-initializer.js'></script>")
    upstream.pages["/swagger-initializer.js"] = lambda: page(b"url: '/api.json'", "text/javascript")
    made = await admin.post("/providers", json={"name": "pets", "url": f"{upstream.url}/docs"})
    assert errors_of(made)["/url"]["expected"] == [f"{upstream.url}/api.json"]


async def test_page_that_names_nothing(admin, upstream):
    upstream.pages["/"] = lambda: page(b"<html><body>It works!</body></html>")
    made = await admin.post("/providers", json={"name": "pets", "url": f"{upstream.url}/"})
    assert made.status_code == 422
    assert "HTML page" in made.json()["detail"]


@pytest.mark.parametrize("path", ["/providers", "/providers/preview"])
async def test_document_without_a_server_is_rejected_with_the_option(admin, path):
    body = {"name": "pets", "source": {"document": without_server()}}
    made = await admin.post(path, json=body)
    assert made.status_code == 422, made.text
    assert set(errors_of(made)) == {"/options/base_url", "/options/allow_empty"}
    assert (await admin.get("/providers/pets")).status_code == 404


@pytest.mark.parametrize("option", [{"base_url": "https://pets.example"}, {"allow_empty": True}])
async def test_document_without_a_server_is_registered_with_an_option(admin, option):
    body = {"name": "pets", "source": {"document": without_server()}, "options": option}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["tool_count"] == (0 if "allow_empty" in option else 1)
    assert made.json()["options"] == option


async def test_relative_server_of_a_fetched_document_is_that_of_its_url(admin, upstream):
    upstream.pages["/openapi.json"] = without_server()
    made = await admin.post("/providers", json={"name": "pets", "url": f"{upstream.url}/openapi.json"})
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [upstream.url]


async def test_source_without_a_callable_tool_is_rejected_with_reasons(admin):
    document = openapi("ftp://pets.example")
    made = await admin.post("/providers", json={"name": "pets", "source": {"document": document}})
    assert made.status_code == 422, made.text
    problems = errors_of(made)
    assert problems["/options/allow_empty"]["expected"] is True
    assert "ftp" in problems["/servers"]["detail"]
    empty = await admin.post("/providers?name=pets", content=orjson.dumps(manual()))
    assert set(errors_of(empty)) == {"/options/allow_empty"}


async def test_empty_provider_comes_back_with_its_export(admin):
    body = {"name": "pets", "source": {"document": without_server()}, "options": {"allow_empty": True}}
    assert (await admin.post("/providers", json=body)).status_code == 201
    exported = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/pets")).status_code == 204
    assert (await admin.post("/import", json=exported)).status_code == 200
    assert (await admin.get("/providers/pets")).json()["options"] == {"allow_empty": True}


async def test_blocked_destination_is_in_the_response_with_address_and_setting(admin, gateway_app):
    document = openapi("http://10.1.2.3:8080")
    document["paths"]["/other"] = {
        "servers": [{"url": "http://[fd00::7]"}],
        "get": {"operationId": "other", "responses": {"200": {"description": "Other"}}},
    }
    body = {"name": "pets", "source": {"document": document}}
    warnings = {
        (
            "Calls to http://10.1.2.3:8080 are blocked: the network policy of the gateway does not allow 10.1.2.3, "
            "port 8080. Its operator can allow it with ALLOW_NETWORKS=10.1.2.3:8080."
        ),
        (
            "Calls to http://[fd00::7] are blocked: the network policy of the gateway does not allow fd00::7, "
            "port 80. Its operator can allow it with ALLOW_NETWORKS=[fd00::7]:80."
        ),
    }
    for path in ("/providers/preview", "/providers"):
        made = await admin.post(path, json=body)
        assert made.status_code in {200, 201}, made.text
        assert {one["detail"] for one in made.json()["report"]["warnings"]} == warnings
    again = await admin.post("/providers/pets/refresh")
    assert {one["detail"] for one in again.json()["report"]["warnings"]} == warnings
    # A host name in the place of the address would tell a reader where it leads.
    reader = await gateway_app.client("providers:read")
    for client in (admin, reader):
        assert "ALLOW_NETWORKS" not in (await client.get("/providers/pets")).text


async def test_blocked_source_is_named_with_address_and_setting(admin):
    made = await admin.post("/providers", json={"name": "pets", "url": "http://192.168.7.7:81/openapi.json"})
    assert made.status_code == 403, made.text
    assert made.json()["type"].endswith("blocked-address")
    assert "192.168.7.7, port 81" in made.json()["detail"]
    assert "ALLOW_NETWORKS=192.168.7.7:81" in made.json()["detail"]


async def test_blocked_call_names_no_address(admin):
    credential = {"kind": "api_key", "value": "s3cret-value"}
    document = openapi("http://10.1.2.3:8080")
    body = {"name": "pets", "source": {"document": document}, "credentials": {"key": credential}}
    assert (await admin.post("/providers", json=body)).status_code == 201
    called = await admin.post("/tools/pets.listPets/call", json={})
    assert called.status_code == 403
    assert "10.1.2.3" not in called.text


async def test_name_that_leads_into_the_network_is_blocked_with_its_address(servers):
    async with served(servers, allow_networks=()) as running:
        client = await running.client("admin")
        body = {"name": "pets", "source": {"document": openapi("http://localhost:9")}}
        made = await client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        found = [one["detail"] for one in made.json()["report"]["warnings"]]
        assert len(found) == 1
        assert "ALLOW_NETWORKS=127.0.0.1:9" in found[0] or "ALLOW_NETWORKS=[::1]:9" in found[0]


async def test_port_that_is_not_allowed_is_named_with_its_setting(servers):
    async with served(servers, allow_ports=("443",)) as running:
        client = await running.client("admin")
        body = {"name": "pets", "source": {"document": openapi("http://93.184.216.34:8080")}}
        made = await client.post("/providers", json=body)
        found = [one["detail"] for one in made.json()["report"]["warnings"]]
        assert len(found) == 1
        assert "ALLOW_PORTS=8080" in found[0]
