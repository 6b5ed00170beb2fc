"""The one call that all benchmarks make, so that their figures are for the same work.

Arguments {"id": 42, "q": "sea", "limit": 10} become GET /t<n>/items/42?q=sea&limit=10 with an API key in a
header; the response has some 330 bytes of JSON.
"""

from typing import Any

import orjson

RESPONSE_MARKER = "Iris Murdoch"
"""Contained in every correct response, however it is wrapped."""
KEY_HEADER, KEY = "X-Api-Key", "benchmark-key"
ARGUMENTS: dict[str, Any] = {"id": 42, "q": "sea", "limit": 10}
RESPONSE_BODY = orjson.dumps(
    {
        "id": 42,
        "title": "The Sea, the Sea",
        "authors": [{"name": "Iris Murdoch", "born": 1919}],
        "year": 1978,
        "tags": ["novel", "sea", "theatre", "solitude"],
        "available": True,
        "note": "A retired director moves to a house by the sea and meets what he has left behind. " * 2,
    }
)


def path(number: int) -> str:
    """The upstream's path of the tool with this number."""
    return f"/t{number}/items/{{id}}"


def document(count: int, *, server: str) -> bytes:
    """An OpenAPI 3.1 document of `count` operations at `server`, each with an API key."""
    parameters = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
        {"name": "q", "in": "query", "schema": {"type": "string", "maxLength": 100}},
        {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
    ]
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "Benchmark", "version": "1"},
            "servers": [{"url": server}],
            "components": {
                "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": KEY_HEADER}}
            },
            "security": [{"key": []}],
            "paths": {
                path(number): {
                    "get": {
                        "operationId": f"get{number}",
                        "summary": f"Get an item of collection {number}",
                        "parameters": parameters,
                        "responses": {"200": {"description": "The item"}},
                    }
                }
                for number in range(count)
            },
        }
    )


TOKEN = "benchmark-token"
CLIENT_ID, CLIENT_SECRET = "benchmark", "benchmark-client-secret"


def oauth2_document(*, server: str) -> bytes:
    """One operation like those of `document`, that needs a token of the client credentials grant."""
    raw = orjson.loads(document(1, server=server))
    flow = {"tokenUrl": f"{server}/token", "scopes": {}}
    raw["components"]["securitySchemes"]["key"] = {"type": "oauth2", "flows": {"clientCredentials": flow}}
    return orjson.dumps(raw)


WIDE: dict[str, Any] = {
    **{f"text{number}": "some words of a text" for number in range(5)},
    **{f"code{number}": "AB-1234" for number in range(3)},
    **{f"count{number}": number for number in range(5)},
    **{f"flag{number}": True for number in range(2)},
    **{f"kind{number}": "novel" for number in range(3)},
    "tags": ["novel", "sea", "theatre"],
    "place": {"city": "Dublin", "country": "IE"},
}
"""Arguments of 20 properties."""


def wide_document(*, server: str) -> bytes:
    """One operation with a body of 20 properties, each with a constraint."""
    kinds: dict[str, Any] = {
        "text": {"type": "string", "minLength": 1, "maxLength": 200},
        "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
        "count": {"type": "integer", "minimum": 0, "maximum": 1000},
        "flag": {"type": "boolean"},
        "kind": {"type": "string", "enum": ["novel", "play", "poem"]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 10},
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "country": {"type": "string", "maxLength": 2}},
            "required": ["city"],
        },
    }
    properties = {name: kinds[name.rstrip("0123456789")] for name in WIDE}
    schema = {"type": "object", "properties": properties, "required": list(WIDE)}
    raw = orjson.loads(document(1, server=server))
    content = {"application/json": {"schema": {**schema, "additionalProperties": False}}}
    responses = {"200": {"description": "Kept"}}
    operation = {"operationId": "put", "requestBody": {"required": True, "content": content}}
    raw["paths"] = {"/wide": {"post": {**operation, "responses": responses}}}
    return orjson.dumps(raw)


def manual(*, server: str) -> bytes:
    """The same call as a UTCP 1.x manual, for the client that calls the upstream itself."""
    properties = {"id": {"type": "integer"}, "q": {"type": "string"}, "limit": {"type": "integer"}}
    auth = {"auth_type": "api_key", "api_key": KEY, "var_name": KEY_HEADER, "location": "header"}
    template = {
        "name": "bench",
        "call_template_type": "http",
        "http_method": "GET",
        "url": server + path(0),
        "auth": auth,
    }
    tool = {
        "name": "get",
        "description": "Get an item",
        "inputs": {"type": "object", "properties": properties, "required": ["id"]},
        "tool_call_template": template,
    }
    return orjson.dumps({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]})
