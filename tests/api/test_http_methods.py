"""HEAD of every GET of the contract, and the methods that a resource supports."""

import asyncio
import re
from urllib.parse import urlsplit

import pytest

from app.calls.results.budget import Rest
from app.core.uuid7 import uuid7
from app.security.principal import Principal
from app.storage.models import TENANT, CallRecord, now
from tests.harness.application import Application
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT

GETS = sorted(path for path, item in CONTRACT["paths"].items() if "get" in item)
PAGES = ["/", "/docs", "/openapi.json"]
STREAMS = {"/calls/stream", "/changes/stream"}
QUERIES = {"/explain": "?tool=shop.listPets"}
CALL_ID = uuid7()
MANUAL = {
    "utcp_version": "1.0.1",
    "tools": [
        {
            "name": "listPets",
            "inputs": {"type": "object", "properties": {}},
            "tool_call_template": {
                "call_template_type": "http",
                "url": "http://127.0.0.1:9/pets",
                "http_method": "GET",
            },
        }
    ],
}


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get(allow_networks=())


@pytest.fixture(scope="module")
async def admin(application: Application):
    return await application.client("admin")


@pytest.fixture(scope="module")
async def parameters(application: Application, admin):
    """Values of the path parameters, all of which name something that exists."""
    made = await admin.post("/providers", json={"name": "shop", "source": {"manual": MANUAL}})
    assert made.status_code == 201, made.text
    accepted = await admin.post(
        "/providers",
        json={"name": "later", "source": {"manual": MANUAL}},
        headers={"Prefer": "respond-async"},
    )
    made = await admin.post("/toolsets", json={"name": "shop", "definition": {"providers": ["shop"]}})
    assert made.status_code == 201, made.text
    interaction = {
        "tool": "shop.listPets", "arguments": {}, "definition": "0" * 64,
        "recorded_at": "0001-01-01T00:00:00+14:00",
        "response": {"status": 200, "events": [{"data": "an event without a kind"}]},
    }  # fmt: skip
    made = await admin.put("/recordings/shop", json={"interactions": [interaction]})
    assert made.status_code == 201, made.text
    recorded = (await admin.get("/recordings/shop/interactions")).json()["items"][0]["id"]
    model = {"model": "m", "dialect": "openai-chat", "base_url": "http://127.0.0.1:9/v1"}
    tested = await admin.post("/agent-tests", json={"input": "Hello", "models": [model]})
    assert tested.status_code == 200, tested.text
    synonyms = await admin.post("/search/synonyms", json={"terms": ["voucher", "coupon"]})
    pin = await admin.post("/search/pins", json={"query": "pets", "tools": ["shop.listPets"]})
    key = (await admin.post("/keys", json={"name": "agent", "scopes": ["tools:read"]})).json()
    assert (await admin.patch("/tools/shop.listPets", json={"requires_approval": True})).status_code == 200
    waiting = await admin.post("/tools/shop.listPets/call", json={})
    assert waiting.status_code == 202, waiting.text
    requirements = await admin.get("/approval-requirements")
    approver = await application.client("admin")
    # Its upstream does not exist: the result is a problem.
    decided = await approver.post(f"{waiting.headers['location']}/approve")
    assert decided.json()["state"] == "failed", decided.text
    pending = await admin.post("/tools/shop.listPets/call", json={})
    assert pending.status_code == 202, pending.text
    async with application.services.database.transaction() as session:
        session.add(
            CallRecord(
                id=CALL_ID, at=now(), key_id=key["id"], provider="shop", tool="shop.listPets",
                outcome="ok", status=200, duration_ms=1.0,
            )
        )  # fmt: skip
    me = (await admin.get("/me")).json()["id"]
    handle = await application.services.continuations.store(
        Rest("items", b"[1, 2]"),
        tool="shop.listPets",
        principal=Principal(me, "admin", TENANT, frozenset({"admin"})),
    )
    return {
        "handle": handle,
        "name": "shop",
        "tool": "shop.listPets",
        "call_id": str(CALL_ID),
        "import_id": accepted.headers["location"].rpartition("/")[2],
        "key_id": key["id"],
        "id": waiting.headers["location"].rpartition("/")[2],
        "pending": pending.headers["location"].rpartition("/")[2],
        "interaction": recorded,
        "synonyms": synonyms.json()["id"],
        "pin": pin.json()["id"],
        "requirement": requirements.json()["items"][0]["id"],
        "agent_test": tested.json()["id"],
        "slug": "not-found",
        "scope": "tools:call",
    }


def filled(path: str, parameters: dict[str, str]) -> str:
    names = {"/tools/": "shop.listPets", "/plugins/": "github"}
    name = next((one for begin, one in names.items() if path.startswith(begin)), parameters["name"])
    path += QUERIES.get(path, "")
    path = path.replace("/interactions/{id}", "/interactions/{interaction}")
    path = path.replace("/search/synonyms/{id}", "/search/synonyms/{synonyms}")
    path = path.replace("/search/pins/{id}", "/search/pins/{pin}")
    path = path.replace("/approvals/{id}/request", "/approvals/{pending}/request")
    path = path.replace("/approval-requirements/{id}", "/approval-requirements/{requirement}")
    path = path.replace("/agent-tests/{id}", "/agent-tests/{agent_test}")
    return re.sub(r"\{(\w+)\}", lambda match: {**parameters, "name": name}[match[1]], path)


def headers_of(response) -> dict[str, str]:
    """The headers, without those that differ from response to response."""
    return {name: value for name, value in response.headers.items() if name != "date"}


@for_each("path", [*PAGES, *(path for path in GETS if path not in STREAMS)])
async def test_head_has_the_status_and_headers_of_get_and_no_body(path, admin, parameters):
    url = filled(path, parameters)
    got = await admin.get(url)
    assert got.status_code in ({404} if path.endswith(("/bodies", "/envelope")) else {200, 307}), got.text
    head = await admin.head(url)
    assert (head.status_code, head.content) == (got.status_code, b"")
    expected = headers_of(got)
    # No body is sent in chunks; the length of metrics and of measured times changes with each request.
    is_measured = path in ("/metrics", "/support-bundle", "/health/details")
    ignored = {"transfer-encoding", *(["content-length"] if is_measured else [])}
    if path == "/support-bundle":
        # The name of the file has the second.
        ignored.add("content-disposition")
    assert headers_of(head).items() >= {name: expected[name] for name in expected.keys() - ignored}.items()


@pytest.mark.parametrize("path", sorted(STREAMS))
async def test_head_of_a_stream_ends_at_once(path, application: Application, admin):
    head = await admin.head(path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in head.headers
    assert len(application.services.streams) == 0


@for_each("path", GETS)
async def test_head_needs_the_key_that_get_needs(path, application: Application, parameters):
    client = await application.client("tools:call")
    url = filled(path, parameters)
    for headers in ({}, {"Authorization": ""}):
        async with client.stream("GET", url, headers=headers) as got:
            status = got.status_code
        assert (await client.head(url, headers=headers)).status_code == status


async def test_a_connection_is_used_again_after_head(application: Application, admin):
    address = urlsplit(application.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    key = admin.headers["authorization"]
    for method, path in (
        ("HEAD", "/problems"),
        ("HEAD", "/calls/stream"),
        ("HEAD", "/nowhere"),
        ("GET", "/health/live"),
    ):
        writer.write(f"{method} {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: {key}\r\n\r\n".encode())
    found = []
    for _ in range(4):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        found.append(int(head.split(" ", 2)[1]))
    length = int(re.search(r"content-length: (\d+)", head)[1])
    assert found == [200, 200, 404, 200]
    assert (await reader.readexactly(length)).startswith(b"{")
    writer.close()


async def test_head_counts_as_head_in_the_metrics(admin):
    assert (await admin.head("/problems/not-found")).status_code == 200
    text = (await admin.get("/metrics")).text
    assert re.search(r'utcp_gateway_requests_total\{[^}]*method="HEAD"[^}]*route="/problems/\{slug\}"', text)


async def test_a_method_that_a_resource_does_not_support_is_rejected_with_those_that_it_does(admin):
    methods = {
        path: {method.upper() for method in item if method in {"get", "post", "put", "patch", "delete"}}
        for path, item in CONTRACT["paths"].items()
    }
    for path, supported in methods.items():
        url = re.sub(r"\{\w+\}", "anything", path)
        # A literal path, such as /variables/import, is a value of the parameter of another one, too.
        routed = {
            method
            for other, its in methods.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", other), url)
            for method in its
        }
        unsupported = next(
            method for method in ("PATCH", "PUT", "DELETE", "POST", "GET") if method not in routed
        )
        response = await admin.request(unsupported, url)
        assert response.status_code == 405, (unsupported, path)
        allowed = set(response.headers["allow"].split(", "))
        assert allowed >= supported, path
        assert ("HEAD" in allowed) == ("GET" in allowed), path


async def test_head_where_there_is_no_get_is_rejected(admin):
    response = await admin.head("/tools/shop.listPets/call")
    assert (response.status_code, response.headers["allow"], response.content) == (405, "POST", b"")
