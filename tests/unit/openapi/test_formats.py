"""Documents of other kinds, which are named where they are rejected."""

from typing import Any

import orjson
import pytest

from app.core.errors import InvalidDocument
from app.formats.archive import pack_files
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each

VALUES: dict[str, Any] = {
    "AsyncAPI": {"asyncapi": "2.6.0", "channels": {}},
    "Arazzo": {"arazzo": "1.0.0", "workflows": []},
    "Overlay": {"overlay": "1.0.0", "actions": []},
    "OpenRPC": {"openrpc": "1.2.6", "methods": []},
    "Swagger 1.x": {"swaggerVersion": "1.2", "apis": []},
    "GraphQL": {"data": {"__schema": {}}},
    "Insomnia": {"_type": "export", "__export_format": 4, "resources": []},
    "HAR": {"log": {"version": "1.2", "entries": []}},
    "version 1": {"name": "x", "requests": [], "order": []},
    "environment": {"values": [], "_postman_variable_scope": "environment"},
    "JSON Schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"},
}
TEXTS: dict[str, bytes] = {
    "RAML": b"#%RAML 1.0\ntitle: Books\n/books:\n  get:\n",
    "API Blueprint": b"FORMAT: 1A\nHOST: https://api.example.com\n\n# Books\n",
    "WSDL": b'<?xml version="1.0"?>\n<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/">',
    "WADL": b'<application xmlns="http://wadl.dev.java.net/2009/02"><resources/></application>',
    "OData": b'<edmx:Edmx Version="4.0" xmlns:edmx="http://docs.oasis-open.org/odata/ns/edmx"/>',
    "Protocol Buffers": b'syntax = "proto3";\nservice Books {}\n',
    "GraphQL schema": b"schema { query: Query }\n\ntype Query {\n  books: [Book]\n}\n",
    "AsyncAPI": b"asyncapi: 3.0.0\ninfo: {title: x}\n",
    "Insomnia": b"type: collection.insomnia.rest/5.0\nname: x\n",
}


@for_each("name", VALUES)
def test_a_known_kind_is_named(name: str) -> None:
    with pytest.raises(InvalidDocument, match=name):
        convert(orjson.dumps(VALUES[name]))


@for_each("name", TEXTS)
def test_a_known_kind_of_text_is_named(name: str) -> None:
    with pytest.raises(InvalidDocument, match=name):
        convert(TEXTS[name])


def test_a_document_of_another_kind_in_an_archive_is_converted() -> None:
    document = {"kind": "discovery#restDescription", "rootUrl": "https://a.example/", "name": "a",
                "methods": {"ping": {"id": "a.ping", "path": "ping", "httpMethod": "GET"}}}  # fmt: skip
    archive = pack_files({"docs/a.json": orjson.dumps(document), "readme.txt": b"hello"})
    [made] = convert(archive).tools
    assert made.call_template["url"] == "https://a.example/ping"
