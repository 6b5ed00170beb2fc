"""POST /providers/{name}/check and GET /provider-health: real upstreams, certificates and credentials."""

import asyncio
import contextlib
import ssl
import tempfile

import pytest
from aiohttp import web

from tests.harness.beside import web_server
from tests.harness.certificates import certificate

from .conftest import served
from .documents import openapi

SECRET = "s3cret-of-the-check"


def document(origin, *, scheme=None, token_url=None):
    """An API with one GET operation without parameters, and one POST."""
    found = openapi(origin, paths=("/a",))
    found["paths"]["/b"] = {"post": {"operationId": "makeB", "responses": {"200": {"description": "OK"}}}}
    schemes = {
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "oauth": {
            "type": "oauth2",
            "flows": {"clientCredentials": {"tokenUrl": token_url or origin, "scopes": {}}},
        },
    }
    found["security"] = []
    if scheme is not None:
        found["components"] = {**found.get("components", {}), "securitySchemes": {scheme: schemes[scheme]}}
        found["security"] = [{scheme: []}]
    for item in found["paths"].values():
        for operation in item.values():
            operation.pop("security", None)
    return found


async def register(admin, upstream, source):
    upstream.pages["/openapi.json"] = source
    body = {"name": "pets", "source": {"url": f"{upstream.url}/openapi.json"}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    upstream.seen.clear()


async def check(client, status=200, **body):
    response = await client.post("/providers/pets/check", json=body)
    assert response.status_code == status, response.text
    assert SECRET not in response.text
    return response.json()


async def health(client, **query):
    response = await client.get("/provider-health", params=query)
    assert response.status_code == 200, response.text
    return response.json()["items"]


def steps(origin):
    return [(step["step"], step["status"]) for step in origin["steps"]]


async def with_key(admin, upstream):
    await register(admin, upstream, document(upstream.url, scheme="key"))
    stored = await admin.put("/providers/pets/credentials/key", json={"kind": "api_key", "value": SECRET})
    assert stored.status_code == 201, stored.text
    upstream.guard = lambda request: request.headers.get("X-Key") == SECRET
    upstream.seen.clear()


@contextlib.asynccontextmanager
async def tls_upstream(**options):
    """An HTTPS server with a certificate of a test CA; yields its URL and the CA's certificate."""
    authority = certificate("127.0.0.2")
    pem, key, *_ = certificate("127.0.0.1", issuer=authority, **options)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(pem + key)
        file.flush()
        context.load_cert_chain(file.name)
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", _json)
    async with web_server(application, tls=context) as url:
        yield url, authority[0]


async def _json(_):
    return web.json_response({"ok": True})


async def test_an_origin_that_responds_is_ok(admin, upstream):
    await register(admin, upstream, document(upstream.url))
    result = await check(admin)
    (origin,) = result["origins"]
    assert (result["status"], origin["status"], origin["http_status"]) == ("ok", "ok", 200)
    assert steps(origin) == [("resolution", "ok"), ("connection", "ok"), ("http", "ok")]
    assert origin["certificate"] is None
    assert [(method, path) for method, path, *_ in upstream.seen] == [("HEAD", "/")]
    assert (await admin.get("/events?object_type=provider&q=checked")).json()["items"][0]["detail"] == {
        "status": "ok",
        "probed": False,
    }


async def test_an_origin_that_refuses_connections_has_failed(admin, upstream):
    await register(admin, upstream, document("http://127.0.0.1:9"))
    result = await check(admin)
    (origin,) = result["origins"]
    assert steps(origin) == [("resolution", "ok"), ("connection", "failed")]
    assert (result["status"], origin["steps"][1]["problem"]) == ("failed", "upstream-unreachable")
    assert result["hints"][0].startswith("http://127.0.0.1:9: ")
    (item,) = await health(admin, state="failed")
    assert (item["name"], item["last_check"]["status"]) == ("pets", "failed")


async def test_origins_that_the_address_guard_blocks_are_not_connected_to(admin, upstream):
    await register(admin, upstream, document("http://10.255.255.1"))
    (origin,) = (await check(admin))["origins"]
    assert [one["problem"] for one in origin["steps"]] == ["blocked-address"]


async def test_no_credential_is_sent_unless_a_probe_is_requested(admin, upstream):
    await with_key(admin, upstream)
    result = await check(admin)
    assert [(one["slot"], one["status"]) for one in result["credentials"]] == [("key", "not_checked")]
    assert all("X-Key" not in headers for _, _, headers, _ in upstream.seen)


async def test_a_probe_calls_a_safe_operation_without_arguments(admin, upstream):
    await with_key(admin, upstream)
    result = await check(admin, probe=True)
    (credential,) = result["credentials"]
    assert (credential["status"], credential["tool"], result["probed"]) == ("accepted", "pets.listA", True)
    assert [(method, path) for method, path, *_ in upstream.seen] == [("HEAD", "/"), ("GET", "/a")]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_credential_that_the_upstream_rejects_has_failed(admin, upstream, status):
    await with_key(admin, upstream)
    upstream.guard = None

    async def rejects():
        return web.json_response({"key": SECRET}, status=status)

    upstream.pages["/a"] = rejects
    result = await check(admin, probe=True)
    (credential,) = result["credentials"]
    assert (credential["status"], credential["upstream_status"], result["status"]) == (
        "rejected", status, "failed",
    )  # fmt: skip
    assert "PUT /providers/pets/credentials/key" in result["hints"][0]


async def test_an_upstream_failure_says_nothing_of_the_credential(admin, upstream):
    await with_key(admin, upstream)
    upstream.guard = None

    async def fails():
        return web.json_response({}, status=500)

    upstream.pages["/a"] = fails
    (credential,) = (await check(admin, probe=True))["credentials"]
    assert (credential["status"], credential["upstream_status"]) == ("unknown", 500)


async def test_a_missing_credential_degrades_the_provider(admin, upstream):
    await register(admin, upstream, document(upstream.url, scheme="key"))
    result = await check(admin, probe=True)
    (credential,) = result["credentials"]
    assert (credential["slot"], credential["status"], result["status"]) == ("key", "missing", "degraded")


async def test_a_credential_is_not_sent_to_an_origin_that_it_is_not_allowed_for(admin, upstream, elsewhere):
    await with_key(admin, upstream)
    body = {"kind": "api_key", "value": SECRET, "allowed_origins": [elsewhere.url]}
    stored = await admin.put("/providers/pets/credentials/key", json=body)
    assert stored.status_code == 200, stored.text
    (credential,) = (await check(admin, probe=True))["credentials"]
    assert (credential["status"], credential["problem"]) == ("failed", "credential-not-allowed")
    assert all("X-Key" not in headers for _, _, headers, _ in [*upstream.seen, *elsewhere.seen])


@pytest.mark.parametrize("issued", [True, False])
async def test_a_token_is_requested_for_an_oauth2_credential(admin, upstream, issued):
    async def token():
        if issued:
            return web.json_response({"access_token": "t-1", "token_type": "bearer", "expires_in": 60})
        return web.json_response({"error": "invalid_client"}, status=401)

    upstream.pages["/token"] = token
    upstream.pages["/openapi.json"] = document(
        upstream.url, scheme="oauth", token_url=f"{upstream.url}/token"
    )
    credential = {"kind": "oauth2", "client_id": "me", "client_secret": SECRET}
    body = {
        "name": "pets",
        "source": {"url": f"{upstream.url}/openapi.json"},
        "credentials": {"oauth": {**credential, "token_url": f"{upstream.url}/token"}},
    }
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    result = await check(admin)
    (found,) = result["credentials"]
    if issued:
        assert (found["status"], found["problem"]) == ("token_obtained", None)
    else:
        assert (found["status"], found["problem"]) == ("failed", "token-request-failed")
    assert "t-1" not in str(result)


async def test_a_chosen_tool_must_be_safe_and_of_the_provider(admin, upstream):
    await with_key(admin, upstream)
    assert (await check(admin, tool="pets.listA"))["credentials"][0]["status"] == "accepted"
    for name in ("pets.makeB", "pets.none", "other.tool"):
        problem = await check(admin, status=422, tool=name)
        assert problem["errors"][0]["pointer"] == "/tool"
    assert [method for method, *_ in upstream.seen if method == "POST"] == []


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/tools/pets.listA", {"requires_approval": True}),
        ("/tools/pets.listA", {"enabled": False}),
        ("/providers/pets", {"enabled": False}),
    ],
)
async def test_a_tool_that_a_call_would_not_reach_is_not_called_by_a_check(admin, upstream, path, change):
    await with_key(admin, upstream)
    changed = await admin.patch(path, json=change)
    assert changed.status_code == 200, changed.text
    problem = await check(admin, status=422, tool="pets.listA")
    assert problem["errors"][0]["pointer"] == "/tool"
    result = await check(admin, probe=True)
    assert result["credentials"][0]["status"] == "not_checked"
    assert [method for method, *_ in upstream.seen if method != "HEAD"] == []


async def tls_provider(admin, url, authority):
    template = {"call_template_type": "http", "http_method": "GET", "url": f"{url}/a"}
    made = await admin.post("/tools", json={"provider": "pets", "name": "a", "call_template": template})
    assert made.status_code == 201, made.text
    if authority is not None:
        changed = await admin.patch("/providers/pets", json={"options": {"ca_bundle": authority}})
        assert changed.status_code == 200, changed.text


async def test_the_certificate_of_an_origin_is_reported(admin):
    async with tls_upstream(days=300) as (url, authority):
        await tls_provider(admin, url, authority)
        result = await check(admin)
    (origin,) = result["origins"]
    assert steps(origin) == [
        ("resolution", "ok"), ("connection", "ok"), ("tls", "ok"), ("http", "ok"),
    ]  # fmt: skip
    found = origin["certificate"]
    assert (found["subject"], found["issuer"]) == ("CN=127.0.0.1", "CN=127.0.0.2")
    assert (found["days_left"], found["trusted"], result["status"]) == (299, True, "ok")
    (item,) = await health(admin)
    assert item["certificate_expires_at"] == found["valid_until"]


async def test_a_certificate_that_expires_soon_degrades_the_provider(admin):
    async with tls_upstream(days=3) as (url, authority):
        await tls_provider(admin, url, authority)
        result = await check(admin)
    assert (result["status"], result["origins"][0]["status"]) == ("degraded", "ok")
    assert "expires on" in result["hints"][0]
    assert [item["state"] for item in await health(admin)] == ["degraded"]


async def test_an_expired_certificate_is_read_and_not_trusted(admin):
    async with tls_upstream(days=-2) as (url, authority):
        await tls_provider(admin, url, authority)
        result = await check(admin)
    (origin,) = result["origins"]
    assert origin["steps"][-1]["detail"] == "The certificate has expired."
    assert (origin["certificate"]["days_left"], origin["certificate"]["trusted"]) == (-3, False)
    assert origin["http_status"] is None
    assert result["status"] == "failed"


async def test_a_certificate_of_an_unknown_authority_is_named(admin):
    async with tls_upstream(days=30) as (url, _):
        await tls_provider(admin, url, None)
        (origin,) = (await check(admin))["origins"]
    assert "not trusted" in origin["steps"][-1]["detail"]
    assert origin["certificate"]["issuer"] == "CN=127.0.0.2"


async def test_programs_are_not_checkable(servers, upstream):
    template = {"call_template_type": "text", "content": "hello"}
    async with served(servers) as application:
        client = await application.client("admin")
        made = await client.post("/tools", json={"provider": "pets", "name": "a", "call_template": template})
        assert made.status_code == 201, made.text
        result = await check(client)
    assert {one["status"] for one in result["origins"]} <= {"not_checkable"}
    assert result["status"] == "ok"


async def test_a_graphql_upstream_is_asked_for_its_type_name(admin, upstream):
    asked = []

    async def graphql():
        asked.append(upstream.seen[-1][3])
        return web.json_response({"data": {"__typename": "Query"}})

    upstream.pages["/graphql"] = graphql
    template = {
        "call_template_type": "graphql", "url": f"{upstream.url}/graphql",
        "query": "query now { now }", "operation_name": "now",
    }  # fmt: skip
    made = await admin.post("/tools", json={"provider": "pets", "name": "now", "call_template": template})
    assert made.status_code == 201, made.text
    result = await check(admin, probe=True)
    (protocol,) = result["protocols"]
    assert (protocol["protocol"], protocol["status"]) == ("graphql", "ok")
    assert [b"__typename" in body for body in asked] == [True]


async def test_a_probe_needs_the_scope_of_calls(admin, gateway_app, upstream):
    await with_key(admin, upstream)
    writer = await gateway_app.client("providers:write")
    assert (await check(writer))["status"] == "ok"
    for body in ({"probe": True}, {"tool": "pets.listA"}):
        problem = await check(writer, status=403, **body)
        assert problem["missing_scopes"] == ["tools:call"]
    assert all("X-Key" not in headers for _, _, headers, _ in upstream.seen)
    caller = await gateway_app.client("providers:write", "tools:call")
    assert (await check(caller, probe=True))["credentials"][0]["status"] == "accepted"


async def test_checks_are_limited_in_rate(admin, upstream):
    await register(admin, upstream, document(upstream.url))
    responses = await asyncio.gather(*(admin.post("/providers/pets/check") for _ in range(14)))
    assert sorted({response.status_code for response in responses}) == [200, 429]
    rejected = next(response for response in responses if response.status_code == 429)
    assert int(rejected.headers["Retry-After"]) > 0


async def test_a_restricted_key_checks_and_sees_only_its_providers(admin, gateway_app, upstream):
    await register(admin, upstream, document(upstream.url))
    other = await gateway_app.client("providers:write", "providers:read", providers=["others"])
    assert (await other.post("/providers/pets/check")).status_code == 404
    assert await health(other) == []
    reader = await gateway_app.client("providers:read", providers=["pets"])
    assert (await reader.post("/providers/pets/check")).status_code == 403
    assert [item["name"] for item in await health(reader)] == ["pets"]


async def test_health_has_breakers_errors_and_states(servers, upstream):
    async with served(servers, breaker_failures=2, breaker_open_seconds=60) as application:
        client = await application.client("admin")
        for name in ("calm", "closed", "failing", "idle"):
            template = {
                "call_template_type": "http", "http_method": "GET",
                "url": "http://127.0.0.1:9/x" if name == "failing" else f"{upstream.url}/{name}",
            }  # fmt: skip
            body = {"provider": name, "name": "get", "call_template": template}
            assert (await client.post("/tools", json=body)).status_code == 201
        for _ in range(4):
            await client.post("/tools/failing.get/call", json={})
        assert (await client.post("/tools/calm.get/call", json={})).status_code == 200
        await client.patch("/providers/closed", json={"enabled": False})
        rejected = await client.post("/tools/closed.get/call", json={})
        assert (rejected.status_code, rejected.json()["detail"]) == (
            404, "The provider closed is paused: its tools cannot be called.",
        )  # fmt: skip
        assert "PATCH /providers/closed" in rejected.json()["hint"]
        await application.services.call_log.flush()
        items = {item["name"]: item for item in await health(client)}
        assert {name: item["state"] for name, item in items.items()} == {
            "calm": "ok", "closed": "paused", "failing": "failed", "idle": "unknown",
        }  # fmt: skip
        failing = items["failing"]
        assert [(one["origin"], one["state"]) for one in failing["breakers"]] == [
            ("http://127.0.0.1:9", "open")
        ]
        assert failing["breakers"][0]["retry_after"] > 0
        assert (failing["calls"], failing["errors"], failing["failures"]) == (4, 4, 4)
        assert failing["error_rate"] == 1
        assert failing["last_error"]["outcome"] in ("circuit-open", "upstream-unreachable")
        assert items["calm"]["p95_ms"] > 0
        assert items["calm"]["last_error"] is None
        for state in ("ok", "paused", "failed", "unknown"):
            found = await health(client, state=state)
            assert [item["state"] for item in found] == [state]
        assert await health(client, state="pending") == []
        assert [one["name"] for one in await health(client, provider="idle")] == ["idle"]
        assert [one["name"] for one in await health(client, q="AIL")] == ["failing"]
        page = (await client.get("/provider-health?limit=3")).json()
        assert (page["total"], len(page["items"])) == (4, 3)
        rest = (await client.get(f"/provider-health?limit=3&cursor={page['next_cursor']}")).json()
        assert [one["name"] for one in rest["items"]] == ["idle"]
