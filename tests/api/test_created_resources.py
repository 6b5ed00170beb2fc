"""`Location` of every operation that creates something, and the bodies of variables."""

from urllib.parse import quote

import pytest

from app.core.settings import Settings
from app.security.vault import KeyRing
from tests.api.test_http_methods import MANUAL
from tests.harness.application import Application, run_application
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT
from tests.stored import clear

TEMPLATE = {"call_template_type": "http", "url": "http://127.0.0.1:9/pets", "http_method": "GET"}
SECURED = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "https://pets.example.com"}],
    "components": {"securitySchemes": {"own": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "security": [{"own": []}],
                "responses": {"200": {"description": "Pets"}},
            }
        }
    },
}
MANY = {"name": "later", "source": {"manual": MANUAL}}
# Nobody listens there: the test ends with an error.
MODEL = {"model": "m", "dialect": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}
AGENT_TEST = {"input": "Hello", "models": [MODEL]}
EXPORT = {"format": "utcp-gateway/1", "providers": []}
RING = KeyRing.generate("test")
# For each operation that creates something: method, path, body, and what `Location` begins with.
CREATING = {
    ("registerProvider", "201"): ("POST", "/providers", {"name": "shop", "source": {"manual": MANUAL}}, "/providers/shop"),
    ("registerProvider", "202"): ("POST", "/providers", MANY, "/imports/"),
    ("previewProvider", "202"): ("POST", "/providers/preview", MANY, "/imports/"),
    ("importProviders", "202"): ("POST", "/import", EXPORT, "/imports/"),
    ("previewRefresh", "202"): ("POST", "/providers/stored/refresh/preview", None, "/imports/"),
    ("refreshProvider", "202"): ("POST", "/providers/stored/refresh", None, "/imports/"),
    ("createTool", "201"): (
        "POST", "/tools", {"provider": "custom", "name": "echo", "call_template": TEMPLATE}, "/tools/custom.echo",
    ),
    ("createToolset", "201"): ("POST", "/toolsets", {"name": "desk", "definition": {}}, "/toolsets/desk"),
    ("putToolset", "201"): ("PUT", "/toolsets/shelf", {"definition": {}}, "/toolsets/shelf"),
    ("createSynonyms", "201"): ("POST", "/search/synonyms", {"terms": ["voucher", "coupon"]}, "/search/synonyms/"),
    ("createPin", "201"): ("POST", "/search/pins", {"query": "pets", "tools": ["stored.listPets"]}, "/search/pins/"),
    ("createRecording", "201"): ("POST", "/recordings", {"name": "tape"}, "/recordings/tape"),
    ("putRecording", "201"): ("PUT", "/recordings/other", {}, "/recordings/other"),
    ("enablePlugin", "201"): ("PUT", "/plugins/github", {"credentials": {"token": "t" * 20}}, "/plugins/github"),
    ("runAgentTest", "202"): ("POST", "/agent-tests", AGENT_TEST, "/agent-tests/"),
    ("callToolsetTool", "202"): ("POST", "/toolsets/all/tools/stored.listPets/call", {}, "/approvals/"),
    ("callTool", "202"): ("POST", "/tools/stored.listPets/call", {}, "/approvals/"),
    ("rotateKey", "201"): ("POST", "/keys/{key_id}/rotate", None, "/keys/"),
    ("createSession", "201"): ("POST", "/session", None, "/session"),
    ("createKey", "201"): ("POST", "/keys", {"name": "agent", "scopes": ["tools:read"]}, "/keys/"),
    ("putCredential", "201"): (
        "PUT", "/providers/secured/credentials/own", {"kind": "api_key", "value": "t" * 20},
        "/providers/secured/credentials/own",
    ),
    ("putVariable", "201"): ("PUT", "/variables/REGION", {"value": "eu"}, "/variables/REGION"),
    ("putProviderVariable", "201"): (
        "PUT", "/providers/stored/variables/REGION", {"value": "eu"}, "/providers/stored/variables/REGION",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
async def served(applications):
    return await applications.get()


@pytest.fixture
async def admin(served: Application):
    await clear(served.services.database)
    client = await served.client("admin")
    made = await client.post("/providers", json={"name": "stored", "source": {"manual": MANUAL}})
    assert made.status_code == 201, made.text
    made = await client.post("/providers", json={"name": "secured", "source": {"document": SECURED}})
    assert made.status_code == 201, made.text
    made = await client.put("/toolsets/all", json={"definition": {"providers": ["stored"]}})
    assert made.status_code in (200, 201), made.text
    yield client
    await served.close_clients()


def documented_responses():
    return {
        (operation["operationId"], status): response
        for item in CONTRACT["paths"].values()
        for operation in item.values()
        for status, response in operation["responses"].items()
        if status in {"201", "202"}
    }


def test_every_201_and_202_of_the_contract_has_a_location_and_is_sent_below():
    assert documented_responses().keys() == CREATING.keys()
    for response in documented_responses().values():
        assert response["headers"]["Location"]["required"] is True


@for_each(("operation", "status"), CREATING)
async def test_a_creating_operation_names_the_path_of_what_it_has_created(operation, status, admin):
    method, path, body, location = CREATING[operation, status]
    if operation == "rotateKey":
        old = await admin.post("/keys", json={"name": "old", "scopes": ["tools:read"]})
        path = path.replace("{key_id}", old.json()["id"])
    if operation in ("callTool", "callToolsetTool"):
        changed = await admin.patch("/tools/stored.listPets", json={"requires_approval": True})
        assert changed.status_code == 200, changed.text
    headers = {"Prefer": "respond-async"} if status == "202" else {}
    response = await admin.request(method, path, json=body, headers=headers)
    assert response.status_code == int(status), response.text
    found = response.headers["location"]
    assert found == location or (location.endswith("/") and found.startswith(location) and found != location)
    is_readable = "get" in CONTRACT["paths"].get(path_template(found), {})
    assert (await admin.get(found)).status_code == (200 if is_readable else 405)


def path_template(path: str) -> str:
    """The template of the contract that a path fits."""
    segments = path.split("/")
    return next(
        template
        for template in CONTRACT["paths"]
        if len(template.split("/")) == len(segments)
        and all(
            one.startswith("{") or one == segment
            for one, segment in zip(template.split("/"), segments, strict=True)
        )
    )


async def test_a_replayed_response_has_the_location_of_the_first(admin):
    headers = {"Idempotency-Key": '"one-key"'}
    body = {"name": "agent", "scopes": ["tools:read"]}
    first = await admin.post("/keys", json=body, headers=headers)
    replayed = await admin.post("/keys", json=body, headers=headers)
    assert replayed.headers["idempotency-replayed"] == "true"
    assert replayed.headers["location"] == first.headers["location"] == f"/keys/{first.json()['id']}"


@pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")
async def test_a_location_begins_with_the_root_path(database_url, redis_url):
    settings = Settings(
        _env_file=None, database_url=database_url, redis_url=redis_url, sealing_keys=RING,
        log_level="error", root_path="/gateway",
    )  # fmt: skip
    async with run_application(settings) as application:
        await clear(application.services.database)
        client = await application.client("admin")
        made = await client.put("/variables/REGION", json={"value": "eu"})
        assert made.headers["location"] == "/gateway/variables/REGION"


SECRET = "süß\n-----BEGIN KEY-----"
PATHS = ["/variables/TOKEN", "/providers/stored/variables/TOKEN"]


@pytest.mark.parametrize("path", PATHS)
async def test_a_variable_is_set_by_its_value_as_text_and_is_secret(path, admin):
    text = {"Content-Type": "text/plain; charset=utf-8"}
    made = await admin.put(path, content=SECRET.encode(), headers=text)
    assert made.status_code == 201, made.text
    assert (made.json()["secret"], made.json()["value"]) == (True, None)
    replaced = await admin.put(path, content=b"other", headers=text)
    assert (replaced.status_code, replaced.json()["version"]) == (200, 2)
    assert "location" not in replaced.headers
    events = (await admin.get("/events", params={"object_type": "variable"})).text
    assert "BEGIN KEY" not in events


@pytest.mark.parametrize("path", PATHS)
async def test_the_value_of_a_text_is_the_whole_body(path, admin, served):
    await admin.put(path, content=SECRET.encode(), headers={"Content-Type": "text/plain"})
    await admin.put(path + "_2", json={"value": SECRET, "secret": False})
    listed = {one["name"]: one for one in (await admin.get(path.rpartition("/")[0])).json()["items"]}
    assert listed["TOKEN_2"]["value"] == SECRET
    assert listed["TOKEN"]["value"] is None


@for_each(
    ("body", "status"), [(b"********", 422), (b"a\x00b", 422), (b"x" * 65_537, 422), (b"\xff\xfe", 400)]
)
@for_each("path", PATHS)
async def test_a_text_that_is_no_value_is_rejected_and_not_repeated(path, body, status, admin):
    response = await admin.put(path, content=body, headers={"Content-Type": "text/plain"})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    if status == 422:
        assert [error["pointer"] for error in response.json()["errors"]] == [""]
    assert "xxxx" not in response.text
    assert (await admin.get(path.rpartition("/")[0])).json()["items"] == []


@pytest.mark.parametrize("path", PATHS)
async def test_wrong_json_of_a_variable_is_rejected_with_a_pointer(path, admin):
    for body, pointer in (
        ({"valeu": "x"}, "/valeu"),
        ({"value": 1}, "/value"),
        ({"value": "x", "secret": 1}, "/secret"),
    ):
        response = await admin.put(path, json=body)
        assert response.status_code == 422, response.text
        assert pointer in [error["pointer"] for error in response.json()["errors"]]
    assert (await admin.put(path, json=[])).status_code == 422
    assert (
        await admin.put(path, content=b"{", headers={"Content-Type": "application/json"})
    ).status_code == 400
    assert (
        await admin.put(path, content=b"x", headers={"Content-Type": "application/xml"})
    ).status_code == 415


async def test_variables_are_imported_from_json_or_from_a_file(admin):
    body = {"variables": {"REGION": {"value": "eu", "secret": False}, "TOKEN": {"value": "hidden"}}}
    response = await admin.post("/variables/import", json=body)
    assert response.json() == {"stored": ["REGION", "TOKEN"], "created": ["REGION", "TOKEN"]}
    text = await admin.post(
        "/variables/import", content=b"TOKEN=other\n", headers={"Content-Type": "text/plain"}
    )
    assert text.json() == {"stored": ["TOKEN"], "created": []}
    listed = {one["name"]: one["value"] for one in (await admin.get("/variables")).json()["items"]}
    assert listed == {"REGION": "eu", "TOKEN": None}


@for_each(
    ("body", "pointer"),
    [
        ({}, "/variables"),
        ({"variables": {}}, "/variables"),
        ({"variables": {"A": "x"}}, "/variables/A"),
        ({"variables": {"A": {"value": "***"}}}, "/variables/A/value"),
        ({"variables": {"A": {"value": "x"}}, "more": 1}, "/more"),
        ({"variables": {"A": {"value": "good"}, "B": {}}}, "/variables/B/value"),
    ],
)
async def test_an_import_of_variables_that_is_not_valid_stores_nothing(body, pointer, admin):
    response = await admin.post("/variables/import", json=body)
    assert response.status_code == 422, response.text
    assert pointer in [error["pointer"] for error in response.json()["errors"]]
    assert (await admin.get("/variables")).json()["items"] == []


async def test_a_limited_key_sets_no_shared_variable_by_text(served, admin):
    client = await served.client("credentials:write", providers=["stored"])
    text = {"Content-Type": "text/plain"}
    assert (await client.put("/variables/TOKEN", content=b"x", headers=text)).status_code == 403
    assert (
        await client.post("/variables/import", json={"variables": {"A": {"value": "x"}}})
    ).status_code == 403
    assert (
        await client.put("/providers/stored/variables/TOKEN", content=b"x", headers=text)
    ).status_code == 201
    reader = await served.client("providers:read")
    assert (await reader.put(f"/variables/{quote('TOKEN')}", content=b"x", headers=text)).status_code == 403
