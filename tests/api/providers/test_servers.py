"""The server that an OpenAPI provider calls: chosen, with values of its variables, and stored for refreshes."""

from urllib.parse import urlsplit

import orjson
import pytest

from tests.harness.cases import for_each

from .documents import openapi

PDF = {"application/pdf": {}}


def templated(**variables):
    document = openapi("http://{host}:{port}/v1")
    document["servers"][0] |= {
        "description": "Production",
        "variables": {"host": {"description": "Of your tenant."}, "port": {"default": "1"}, **variables},
    }
    document["security"] = []
    return document


def values(upstream):
    parts = urlsplit(upstream.url)
    return {"host": parts.hostname, "port": str(parts.port)}


def registration(document, **options):
    return {"name": "pets", "source": {"document": document}, "options": options}


async def test_the_values_of_server_variables_are_stored_and_used(admin, upstream):
    chosen = values(upstream)
    made = await admin.post("/providers", json=registration(templated(), server_variables=chosen))
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [upstream.url]
    assert made.json()["options"]["server_variables"] == chosen
    called = await admin.post("/tools/pets.listPets/call", json={})
    assert called.status_code == 200, called.text
    assert upstream.seen[-1][1] == "/v1/pets"
    again = await admin.post("/providers/pets/refresh")
    assert again.json()["difference"]["unchanged"] == ["GET /pets"], again.text
    export = (await admin.get("/export")).json()
    assert (await admin.delete("/providers/pets")).status_code == 204
    brought = await admin.post("/import", json=export)
    assert brought.json()["entries"][-1]["outcome"] == "registered", brought.text
    assert (await admin.get("/providers/pets")).json()["origins"] == [upstream.url]


async def test_without_a_value_registration_says_which_is_missing(admin):
    rejected = await admin.post("/providers", json=registration(templated()))
    assert rejected.status_code == 422
    [missing] = [
        one for one in rejected.json()["errors"] if one["pointer"].startswith("/options/server_variables")
    ]
    assert missing["pointer"] == "/options/server_variables/host"
    assert "Of your tenant." in missing["detail"]


async def test_a_preview_has_the_servers_and_what_their_variables_can_be(admin):
    document = templated(host={"default": "a.example", "enum": ["a.example", "b.example"]})
    preview = await admin.post("/providers/preview", json=registration(document))
    assert preview.status_code == 200, preview.text
    report = preview.json()["report"]
    [server] = report["servers"]
    assert server["variables"]["host"]["enum"] == ["a.example", "b.example"]
    assert any("`host`" in one["detail"] for one in report["warnings"])


@for_each(
    ("options", "pointer", "meant"),
    [
        ({"server_variables": {"hots": "a"}}, "/options/server_variables/hots", "`host`"),
        ({"server": "Prodution"}, "/options/server", "`Production`"),
        ({"server": 3}, "/options/server", "no server 3"),
    ],
)
@for_each("at", ["", "/1"])
async def test_options_that_fit_no_server_are_rejected_with_their_pointer(admin, options, pointer, meant, at):
    entry = registration(templated(), **options)
    if at:
        other = registration(templated(), server_variables={"host": "127.0.0.1"}) | {"name": "other"}
        response = await admin.post("/providers", json=[other, entry])
        problem = response.json()["entries"][1]["problem"]
    else:
        response = await admin.post("/providers", json=entry)
        assert response.status_code == 422, response.text
        problem = response.json()
    [error] = problem["errors"]
    assert error["pointer"] == at + pointer
    assert meant in error["detail"]
    assert error["expected"]


@pytest.mark.parametrize("options", [{"server_variables": {"host": 7}}, {"server": True}, {"server": -1}])
async def test_options_of_another_type_are_rejected(admin, options):
    rejected = await admin.post("/providers", json=registration(templated(), **options))
    assert rejected.status_code == 422
    assert rejected.json()["errors"][0]["pointer"].startswith(f"/options/{next(iter(options))}")


async def test_another_server_waits_for_approval_once_the_source_is_read_again(admin, upstream, elsewhere):
    document = openapi(upstream.url)
    document["servers"].append({"url": elsewhere.url, "description": "Sandbox"})
    assert (await admin.post("/providers", json=registration(document))).status_code == 201
    changed = await admin.patch("/providers/pets", json={"options": {"server": "Sandbox"}})
    assert changed.status_code == 200, changed.text
    again = await admin.post("/providers/pets/refresh")
    assert again.json()["difference"]["pending_approval"] == ["GET /pets"], again.text


async def test_a_key_without_credentials_write_does_not_move_a_provider_with_secrets(
    admin, gateway_app, upstream
):
    made = await admin.post(
        "/providers", json=registration(openapi(upstream.url), server=0) | {"credentials": {"key": {"kind": "api_key", "value": "s3cret-value"}}}
    )  # fmt: skip
    assert made.status_code == 201, made.text
    writer = await gateway_app.client("providers:read", "providers:write")
    for options in ({"server": upstream.url}, {"server_variables": {"host": "evil.example"}}):
        denied = await writer.patch("/providers/pets", json={"options": options})
        assert denied.status_code == 403, denied.text
        assert denied.json()["errors"][0]["pointer"] == f"/options/{next(iter(options))}"


async def test_multipart_takes_the_options_too(admin, upstream):
    options = orjson.dumps({"server_variables": values(upstream)}).decode()
    files = {"file": ("pets.json", orjson.dumps(templated()))}
    made = await admin.post("/providers?name=pets", files=files, data={"options": options})
    assert made.status_code == 201, made.text
    assert made.json()["origins"] == [upstream.url]


async def test_calls_ask_for_what_the_success_responses_are_declared_as(admin, upstream):
    document = openapi(upstream.url)
    document["security"] = []
    document["paths"]["/pets"]["get"]["responses"]["200"]["content"] = {
        "application/xml": {},
        "application/json": {},
    }
    document["paths"]["/plain"] = {"get": {"operationId": "plain", "responses": {}}}
    assert (await admin.post("/providers", json=registration(document))).status_code == 201
    accept = "application/json, application/xml;q=0.9, */*;q=0.1"
    shown = await admin.post("/tools/pets.listPets/call?dry_run=true", json={})
    assert shown.json()["headers"] == {"Accept": accept}
    await admin.post("/tools/pets.listPets/call", json={})
    assert upstream.seen[-1][2]["Accept"] == accept
    await admin.post("/tools/pets.listPets/call", json={}, headers={"Accept": "text/event-stream"})
    assert upstream.seen[-1][2]["Accept"].startswith("text/event-stream")
    await admin.post("/tools/pets.plain/call", json={})
    assert upstream.seen[-1][2]["Accept"] == "*/*"
    direct = (await admin.get("/utcp?mode=direct")).json()["tools"]
    templates = {tool["name"]: tool["tool_call_template"] for tool in direct}
    assert templates["pets_listPets"]["headers"]["Accept"] == accept
