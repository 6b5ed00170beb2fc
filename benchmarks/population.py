"""Many tools that vary as those of real APIs do, for search and manuals."""

import random
from typing import Any

import orjson

from benchmarks.shape import KEY_HEADER

_VERBS = ("list", "get", "create", "update", "delete", "search", "export", "import", "archive", "restore")
_SYLLABLES = ("ba", "co", "di", "fu", "ga", "le", "mi", "no", "pe", "ru", "sa", "te", "vi", "wo", "za", "lu")


def words(count: int = 4_000) -> list[str]:
    """A vocabulary, always the same, the frequent words first."""
    chance = random.Random(1)
    found = {"".join(chance.choices(_SYLLABLES, k=chance.randint(2, 4))) for _ in range(count * 2)}
    return sorted(found)[:count]


def population(count: int, *, server: str, seed: int) -> bytes:
    """An OpenAPI document of `count` operations, the paths of `shape` with texts and a body of their own."""
    chance = random.Random(seed)
    vocabulary = words()
    # Some words occur in every tenth tool, most in few: Zipf's law, as in prose.
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    paths: dict[str, Any] = {}
    for number in range(count):
        picked = chance.choices(vocabulary, weights, k=14)
        summary = f"{chance.choice(_VERBS)} the {picked[0]} {picked[1]} of a {picked[2]}"
        parameters = [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}},
            {"name": "q", "in": "query", "description": picked[3], "schema": {"type": "string"}},
            {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
        ]
        operation = {
            "operationId": f"get{number}",
            "summary": summary,
            "description": " ".join(picked[3:]),
            "parameters": parameters,
            "responses": {"200": {"description": "Found"}},
        }
        paths[f"/t{number}/items/{{id}}"] = {"get": operation}
    scheme = {"type": "apiKey", "in": "header", "name": KEY_HEADER}
    return orjson.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": f"Population {seed}", "version": "1"},
            "servers": [{"url": server}],
            "components": {"securitySchemes": {"key": scheme}},
            "security": [{"key": []}],
            "paths": paths,
        }
    )


def manual(count: int, *, server: str) -> bytes:
    """A UTCP 1.x manual of `count` tools."""
    template = {"name": "m", "call_template_type": "http", "http_method": "GET"}
    properties = {"id": {"type": "integer"}, "q": {"type": "string", "description": "Words to look for"}}
    tools = [
        {
            "name": f"tool{number}",
            "description": f"Reads item collection {number} and returns what was found in it",
            "inputs": {"type": "object", "properties": properties, "required": ["id"]},
            "outputs": {
                "type": "object",
                "properties": {"found": {"type": "array", "items": properties["q"]}},
            },
            "tags": ["items"],
            "tool_call_template": {**template, "url": f"{server}/t{number}/items/{{id}}"},
        }
        for number in range(count)
    ]
    return orjson.dumps({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools})
