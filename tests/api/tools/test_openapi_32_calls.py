"""Calls of a running gateway to tools of OpenAPI 3.2 documents, and numbers that keep their digits."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.capture import Capture, capture
from tests.harness.gateway import RunningGateway

DIGITS = "0.12345678901234567890123"
NUMBER: dict[str, Any] = {"type": "number", "minimum": 0}


@pytest.fixture(scope="module")
def site() -> Iterator[Capture]:
    with capture() as running:
        yield running


@pytest.fixture(scope="module")
def provider(gateway: RunningGateway, site: Capture) -> str:
    body = {"content": {"application/json": {"schema": {"type": "object", "properties": {"n": NUMBER}}}}}
    lines = {"content": {"application/jsonl": {"itemSchema": {"type": "object"}}}}
    form = {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}, "name": "all"}
    item = {
        "post": {
            "operationId": "add",
            "parameters": [{"name": "q", "in": "query", "schema": NUMBER}],
            "requestBody": body,
        },
        "query": {"operationId": "find", "requestBody": body},
        "get": {"operationId": "list", "parameters": [{"in": "querystring", **form}]},
        "additionalOperations": {"COPY": {"operationId": "copy", "requestBody": lines}},
    }
    servers = [{"url": site.url}]
    info = {"license": {"name": "MIT"}}
    document = {"openapi": "3.2.0", "info": info, "servers": servers, "paths": {"/a": item}}
    with gateway.client() as client:
        response = client.post("/providers", json={"name": "v32", "source": {"document": document}})
    assert response.status_code == 201, response.text
    [unread] = response.json()["report"]["unread"]
    assert (unread["object"], unread["field"], unread["count"], unread["pointer"]) == (
        "Info Object",
        "license",
        1,
        "/info/license",
    )
    return "v32"


def test_manuals_are_served_without_methods_that_no_client_has(
    gateway: RunningGateway, provider: str
) -> None:
    with gateway.client() as client:
        names = {tool["name"] for tool in client.get("/utcp").json()["tools"]}
        assert {f"{provider}_find", f"{provider}_copy"} <= names
        direct = client.get("/utcp?mode=direct")
        assert direct.status_code == 200
        methods = {tool["tool_call_template"].get("http_method", "GET") for tool in direct.json()["tools"]}
    assert methods <= {"GET", "POST", "PUT", "DELETE", "PATCH"}


def test_methods_and_bodies_arrive(gateway: RunningGateway, site: Capture, provider: str) -> None:
    with gateway.client() as client:
        assert client.post(f"/tools/{provider}.find/call", json={"body": {"n": 1}}).status_code == 200
        found = site.only()
        assert (found.method, found.target, found.body) == ("QUERY", "/a", b'{"n":1}')
        assert client.post(f"/tools/{provider}.copy/call", json={"body": [{"a": 1}, {}]}).status_code == 200
        copied = site.only()
        assert (copied.method, copied.body) == ("COPY", b'{"a":1}\n{}\n')
        response = client.post(f"/tools/{provider}.list/call", json={"all": {"a": "b c", "d": [1, 2]}})
        assert response.status_code == 200
        assert site.only().target == "/a?a=b+c&d=1&d=2"


def test_numbers_arrive_with_their_digits(gateway: RunningGateway, site: Capture, provider: str) -> None:
    headers = {"Content-Type": "application/json"}
    with gateway.client() as client:
        content = f'{{"q": {DIGITS}, "body": {{"n": {DIGITS}}}}}'
        response = client.post(f"/tools/{provider}.add/call", content=content, headers=headers)
        assert response.status_code == 200, response.text
        sent = site.only()
        assert (sent.target, sent.body) == (f"/a?q={DIGITS}", f'{{"n":{DIGITS}}}'.encode())
        # As the text of a query string, too.
        content = f'{{"body": {{"n": {DIGITS}}}}}'
        url = f"/tools/{provider}.add/call?q={DIGITS}"
        assert client.post(url, content=content, headers=headers).status_code == 200
        assert site.only().target == f"/a?q={DIGITS}"
        dry = client.post(f"{url}&dry_run=true", content=content, headers=headers)
        assert f'"n":{DIGITS}' in dry.text
        # A decimal is validated as the number that it is.
        response = client.post(f"/tools/{provider}.add/call", content=f'{{"q": -{DIGITS}}}', headers=headers)
        assert response.status_code == 422
        assert [error["pointer"] for error in response.json()["errors"]] == ["/q"]


def test_a_magnitude_that_no_double_has_is_rejected(gateway: RunningGateway, provider: str) -> None:
    with gateway.client() as client:
        content = '{"body": {"n": 1e400}}'
        response = client.post(
            f"/tools/{provider}.add/call", content=content, headers={"Content-Type": "application/json"}
        )
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == ["/body/n"]
