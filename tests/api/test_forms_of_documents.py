"""XML, files and checked responses through a running gateway, read back by parsers that are not ours."""

import base64
import time
from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import Any
from xml.etree import ElementTree as ET

import httpx2
import pytest

from tests.harness.capture import Capture, capture
from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway

PNG = b"\x89PNG\r\n\x1a\n\x00--x"
B64 = base64.b64encode(PNG).decode()
SECRET = "k-5f1c9e0c7a"
PET = {
    "type": "object",
    "required": ["id"],
    "xml": {"name": "pet", "namespace": "urn:pets"},
    "properties": {
        "id": {"type": "integer", "xml": {"attribute": True}},
        "name": {"type": "string"},
        "price": {"type": "number"},
        "tags": {
            "type": "array",
            "xml": {"wrapped": True},
            "items": {"type": "string", "xml": {"name": "tag"}},
        },
    },
}
FORM = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "picture": {"type": "string", "format": "binary"},
        "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
    },
}


def document(url: str) -> dict[str, Any]:
    """An API with XML in both directions, files, and a response in JSON."""
    pet = {"schema": {"$ref": "#/components/schemas/Pet"}}
    form = {"schema": FORM, "encoding": {"picture": {"contentType": "image/png, image/jpeg"}}}

    def operation(name: str, body: Any, response: Any) -> dict[str, Any]:
        made = {"operationId": name, "responses": {"200": {"description": "ok", "content": response}}}
        return made if body is None else {**made, "requestBody": {"content": body, "required": True}}

    return {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            "/pet": {"put": operation("putPet", {"application/xml": pet}, {"application/xml": pet})},
            "/files": {"post": operation("postFiles", {"multipart/form-data": form}, {})},
            "/json": {"get": operation("getPet", None, {"application/json": pet})},
        },
        "components": {"schemas": {"Pet": PET}},
    }


@pytest.fixture(scope="module")
def site() -> Iterator[Capture]:
    with capture() as running:
        yield running


@pytest.fixture(scope="module")
def client(gateway: RunningGateway, site: Capture) -> Iterator[httpx2.Client]:
    with gateway.client() as client:
        body = {"name": "forms", "source": {"document": document(site.url)}}
        registered = client.post("/providers", json=body)
        assert registered.status_code == 201, registered.text
        yield client


@pytest.fixture(autouse=True)
def fresh(site: Capture) -> None:
    site.status, site.media_type, site.content = 200, "application/json", b"{}"
    site.requests.clear()


def call(client: httpx2.Client, name: str, arguments: Any = None, **headers: str) -> httpx2.Response:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    return client.post(f"/tools/forms.{name}/call", json=arguments or {}, headers=named)


def outcome(client: httpx2.Client, response: httpx2.Response) -> str:
    """The recorded outcome of a call, once it is stored."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        record = client.get(f"/calls/{response.headers['x-call-id']}")
        if record.status_code == 200 and record.json()["outcome"] != "running":
            return str(record.json()["outcome"])
        time.sleep(0.05)
    raise AssertionError("the call was not recorded")


class TestXml:
    def test_an_object_arrives_as_a_document(self, client: httpx2.Client, site: Capture) -> None:
        value = {"tags": ["a & b", "<c>"], "price": 1.5, "name": "Rex\r\n", "id": 7}
        assert call(client, "putPet", {"body": value}).status_code == 200
        request = site.only()
        assert ("Content-Type", "application/xml") in request.headers
        root = ET.fromstring(request.body)
        ns = "{urn:pets}"
        assert (root.tag, root.attrib) == (f"{ns}pet", {"id": "7"})
        assert [one.tag for one in root] == [f"{ns}name", f"{ns}price", f"{ns}tags"]
        assert [one.text for one in root[2]] == ["a & b", "<c>"]
        assert (root[0].text, root[1].text) == ("Rex\r\n", "1.5")

    def test_a_dry_run_shows_the_document(self, client: httpx2.Client, site: Capture) -> None:
        shown = client.post("/tools/forms.putPet/call?dry_run=true", json={"body": {"id": 1}}).json()
        assert '<pet xmlns="urn:pets" id="1"/>' in str(shown["body"])
        assert site.requests == []

    @for_each(
        ("value", "pointer"),
        [
            ({"id": 1, "name": "a\u0001b"}, "/body/name"),
            ({"id": 1, "tags": ["ok", "\ufffe"]}, "/body/tags/1"),
            ({"id": 1, "no name": 1}, "/body/no name"),
            ({"id": "x"}, "/body/id"),
            ({}, "/body/id"),
        ],
    )
    def test_what_cannot_be_written_has_a_pointer(
        self, client: httpx2.Client, site: Capture, value: Any, pointer: str
    ) -> None:
        response = call(client, "putPet", {"body": value})
        assert response.status_code == 422
        assert pointer in [one["pointer"] for one in response.json()["errors"]]
        assert site.requests == []

    def test_a_response_is_passed_on_or_decoded_by_preference(
        self, client: httpx2.Client, site: Capture
    ) -> None:
        content = b'<pet xmlns="urn:pets" id="7"><price>1.5</price><tags><tag>a</tag></tags></pet>'
        site.media_type, site.content = "application/xml", content
        plain = call(client, "putPet", {"body": {"id": 1}})
        assert (plain.content, plain.headers["content-type"]) == (content, "application/xml")
        assert "preference-applied" not in plain.headers
        decoded = call(client, "putPet", {"body": {"id": 1}}, Prefer="decode-response")
        assert decoded.json() == {"id": 7, "price": 1.5, "tags": ["a"]}
        assert decoded.headers["content-type"] == "application/json"
        assert decoded.headers["preference-applied"] == "decode-response"
        assert "x-response-violations" not in decoded.headers

    @pytest.mark.parametrize(
        "content",
        [b"<pet", b'<!DOCTYPE p [<!ENTITY e SYSTEM "file:///etc/passwd">]><pet>&e;</pet>', b"\x00"],
    )
    def test_a_response_that_is_no_document_is_passed_on(
        self, client: httpx2.Client, site: Capture, content: bytes
    ) -> None:
        site.media_type, site.content = "application/xml", content
        response = call(client, "putPet", {"body": {"id": 1}}, Prefer="decode-response, validate-response")
        assert (response.status_code, response.content) == (200, content)
        assert response.headers["preference-applied"] == "validate-response"
        assert response.headers["x-response-violations"] == 'count=1, at=("#")'
        assert outcome(client, response) == "invalid-response"


class TestFiles:
    def test_have_names_and_types(self, client: httpx2.Client, site: Capture) -> None:
        value = {
            "note": "n",
            "picture": {"data": B64, "filename": "größe.jpg", "content_type": "image/jpeg"},
            "more": [B64, {"text": "a,b\n", "filename": "a.csv", "content_type": "text/csv"}],
        }
        assert call(client, "postFiles", {"body": value}).status_code == 200
        request = site.only()
        head = f"Content-Type: {dict(request.headers)['Content-Type']}\r\n\r\n"
        message = message_from_bytes(head.encode() + request.body, policy=policy.HTTP)
        parts = [
            (
                one.get_param("name", header="content-disposition"),
                one.get_filename(),
                one["content-type"],
                one.get_payload(decode=True),
            )
            for one in message.iter_parts()  # type: ignore[attr-defined]
        ]
        assert parts == [
            ("note", None, None, b"n"),
            ("picture", "größe.jpg", "image/jpeg", PNG),
            ("more", "more", "application/octet-stream", PNG),
            ("more", "a.csv", "text/csv", b"a,b\n"),
        ]

    @pytest.mark.parametrize(
        ("file", "pointer"),
        [
            ({"data": B64, "content_type": "image/gif"}, "/body/picture/content_type"),
            ({"data": "%%"}, "/body/picture/data"),
            ("%%", "/body/picture"),
        ],
    )
    def test_that_cannot_be_sent_have_a_pointer(
        self, client: httpx2.Client, site: Capture, file: Any, pointer: str
    ) -> None:
        response = call(client, "postFiles", {"body": {"picture": file}})
        assert response.status_code == 422
        assert [one["pointer"] for one in response.json()["errors"]] == [pointer]
        assert site.requests == []


class TestValidation:
    def test_of_a_valid_response_counts_none(self, client: httpx2.Client, site: Capture) -> None:
        site.content = b'{"id": 1}'
        response = call(client, "getPet", Prefer="validate-response")
        assert response.headers["x-response-violations"] == "count=0"
        assert response.headers["preference-applied"] == "validate-response"
        assert (response.content, outcome(client, response)) == (b'{"id": 1}', "ok")

    def test_of_another_response_has_pointers_without_values(
        self, client: httpx2.Client, site: Capture
    ) -> None:
        site.content = b'{"tags": ["a", 5], "price": "SECRET-VALUE"}'
        response = call(client, "getPet", Prefer="validate-response")
        assert response.status_code == 200
        header = response.headers["x-response-violations"]
        assert header.startswith("count=3, at=(")
        assert {'"#/id"', '"#/tags/1"', '"#/price"'} == set(header.partition("(")[2].strip(")").split())
        assert "SECRET-VALUE" not in str(response.headers)
        assert outcome(client, response) == "invalid-response"

    def test_shows_the_drift_of_an_upstream_in_the_statistics(
        self, client: httpx2.Client, site: Capture
    ) -> None:
        site.content = b"[]"
        response = call(client, "getPet", Prefer="validate-response")
        outcome(client, response)
        stats = client.get("/stats", params={"group": "tool", "outcome": "invalid-response"}).json()
        [tool] = [one for one in stats["series"] if one["value"] == "forms.getPet"]
        assert tool["totals"]["calls"] >= 1
        assert tool["totals"]["errors"] == 0

    def test_is_an_option_of_the_provider(self, client: httpx2.Client, site: Capture) -> None:
        site.content = b"{}"
        rule = {"validate_outputs": True, "decode": True, "tools": ["forms.getPet"]}
        changed = client.patch("/providers/forms", json={"options": {"responses": rule}})
        assert changed.json()["options"]["responses"] == rule
        assert call(client, "getPet").headers["x-response-violations"] == 'count=1, at=("#/id")'
        assert "x-response-violations" not in call(client, "getPet", Prefer="validate-response=false").headers
        site.media_type, site.content = "application/xml", b"<pet/>"
        assert call(client, "putPet", {"body": {"id": 1}}).content == b"<pet/>"
        reset = client.patch("/providers/forms", json={"options": {"responses": None}})
        assert "responses" not in reset.json()["options"]
        site.media_type, site.content = "application/json", b"{}"
        assert "x-response-violations" not in call(client, "getPet").headers

    def test_under_an_idempotency_key_is_replayed(self, client: httpx2.Client, site: Capture) -> None:
        site.media_type, site.content = "application/xml", b'<pet xmlns="urn:pets"><price>x</price></pet>'
        headers = {"Prefer": "decode-response, validate-response", "Idempotency-Key": "forms-1"}
        first, second = (
            client.post("/tools/forms.putPet/call", json={"body": {"id": 1}}, headers=headers)
            for _ in range(2)
        )
        assert second.headers["idempotency-replayed"] == "true"
        assert first.json() == second.json() == {"price": "x"}
        assert first.headers["x-response-violations"] == second.headers["x-response-violations"]
        assert len(site.requests) == 1
        assert outcome(client, first) == "invalid-response"
