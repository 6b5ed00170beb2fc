"""Multipart bodies whose parts have no names, read by the parser of the standard library."""

from email import message_from_bytes
from email.message import Message
from typing import Any

import orjson
import pytest

from app.core.errors import InvalidArguments
from app.openapi.conversion.convert import convert
from app.protocols.requests.plan_compiler import compile_plan

PNG = "iVBORw0KGgo="


def sent(content: dict[str, Any], value: Any) -> Message:
    """The body of an operation with this Media Type Object under its media type."""
    operation = {"requestBody": {"content": content}}
    document = {
        "openapi": "3.2.0",
        "info": {},
        "servers": [{"url": "https://api.example.com"}],
        "paths": {"/a": {"post": operation}},
    }
    [tool] = convert(orjson.dumps(document)).tools
    prepared = compile_plan(tool.call_template).prepare({"body": value})
    [(name, media)] = prepared.headers
    return message_from_bytes(f"{name}: {media}\r\n\r\n".encode() + (prepared.body or b""))


def parts(message: Message) -> list[tuple[str, Any]]:
    listed = message.get_payload()
    assert isinstance(listed, list)
    return [
        (
            one.get_content_type() if "Content-Type" in one else "",
            parts(one) if one.is_multipart() else one.get_payload(decode=True),
        )
        for one in listed
    ]


def test_a_document_and_an_image() -> None:
    # OAS 3.2.0, Example: Ordered, Unnamed Multipart.
    schema = {"type": "array", "prefixItems": [{"type": "object"}, {}]}
    content = {"multipart/mixed": {"schema": schema, "prefixEncoding": [{}, {"contentType": "image/png"}]}}
    message = sent(content, [{"author": "A"}, PNG])
    assert message.get_content_type() == "multipart/mixed"
    assert parts(message) == [
        ("application/json", b'{"author":"A"}'),
        ("image/png", b"\x89PNG\r\n\x1a\n"),
    ]
    [first, _] = message.get_payload()
    assert "Content-Disposition" not in first


def test_the_other_parts_have_the_encoding_of_items() -> None:
    content = {"multipart/mixed": {"itemSchema": {}, "itemEncoding": {"contentType": "image/png"}}}
    named = {"data": PNG, "filename": "b.png"}
    message = sent(content, [PNG, named])
    assert [kind for kind, _ in parts(message)] == ["image/png", "image/png"]
    assert [one.get_filename() for one in message.get_payload()] == [None, "b.png"]


def test_nested_parts_and_other_parameters_of_the_type() -> None:
    # OAS 3.2.0, Example: Nested multipart/mixed.
    inner = {"type": "array", "prefixItems": [{"type": "object"}, {"type": "string"}, {}]}
    nested = {"contentType": "multipart/mixed", "prefixEncoding": [{}, {}, {"contentType": "image/png"}]}
    media = {
        "schema": {"type": "array", "prefixItems": [{"type": "array"}, inner]},
        "prefixEncoding": [{}, nested],
    }
    message = sent({"multipart/related; type=text/html; boundary=x": media}, [[1, 2], [{"a": 1}, "b", PNG]])
    assert message.get_param("type") == "text/html"
    assert parts(message) == [
        ("application/json", b"[1,2]"),
        (
            "multipart/mixed",
            [("application/json", b'{"a":1}'), ("", b"b"), ("image/png", b"\x89PNG\r\n\x1a\n")],
        ),
    ]


def test_a_part_has_the_headers_that_the_document_gives_it() -> None:
    headers = {"Content-Location": {"required": True, "schema": {"type": "string"}}}
    item = {"contentType": "image/png", "headers": headers}
    content = {"multipart/related": {"itemSchema": {}, "itemEncoding": item}}
    message = sent(content, [{"data": PNG, "headers": {"Content-Location": "https://x.example/a.png"}}])
    [part] = message.get_payload()
    assert part["Content-Location"] == "https://x.example/a.png"
    with pytest.raises(InvalidArguments) as rejected:
        sent(content, [PNG])
    assert [error.pointer for error in rejected.value.errors] == ["/body/0/headers/Content-Location"]


@pytest.mark.parametrize(("value", "pointer"), [({"a": 1}, "/body"), (["no base64!"], "/body/0")])
def test_errors_have_the_place_of_the_part(value: Any, pointer: str) -> None:
    content = {"multipart/mixed": {"itemSchema": {}, "itemEncoding": {"contentType": "image/png"}}}
    with pytest.raises(InvalidArguments) as rejected:
        sent(content, value)
    assert [error.pointer for error in rejected.value.errors] == [pointer]
