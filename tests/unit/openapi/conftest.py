"""Small documents, written as Python objects, and what becomes of them."""

from collections.abc import Callable
from typing import Any

import jsonschema_rs
import orjson
import pytest

from app.openapi import Conversion, ConvertedTool, ConvertOptions
from app.openapi.conversion.convert import convert

Paths = dict[str, Any]
Convert = Callable[..., Conversion]
ConvertOne = Callable[..., ConvertedTool]


def document(paths: Any, *, openapi: str = "3.0.3", **rest: Any) -> dict[str, Any]:
    """A document around some paths; Swagger 2.0 if `openapi` says so."""
    head: dict[str, Any] = {"openapi": openapi, "servers": [{"url": "https://api.example.com/v1"}]}
    if openapi == "2.0":
        head = {"swagger": "2.0", "host": "api.example.com", "basePath": "/v1", "schemes": ["https"]}
    return {**head, "info": {"title": "Test", "version": "1"}, "paths": paths, **rest}


@pytest.fixture
def converted() -> Convert:
    """paths -> Conversion."""

    def run(paths: Any, *, options: ConvertOptions | None = None, **rest: Any) -> Conversion:
        return convert(orjson.dumps(document(paths, **rest)), options=options)

    return run


@pytest.fixture
def tool(converted: Convert) -> ConvertOne:
    """operation -> its tool (`GET /x` unless said otherwise)."""

    def run(operation: Any, *, path: str = "/x", method: str = "get", **rest: Any) -> ConvertedTool:
        conversion = converted({path: {method: operation}}, **rest)
        assert len(conversion.tools) == 1, conversion.report.operations
        return conversion.tools[0]

    return run


@pytest.fixture
def body(tool: ConvertOne) -> Callable[..., Any]:
    """A JSON body schema -> its converted form (with `$defs` beside it where there are any)."""

    def run(schema: Any, **rest: Any) -> Any:
        content = {"application/json": {"schema": schema}}
        made = tool({"requestBody": {"content": content}, "responses": {}}, method="post", **rest)
        return made.inputs["properties"]["body"]

    return run


@pytest.fixture
def reason(converted: Convert) -> Callable[..., tuple[str, str]]:
    """operation -> why it was skipped, and where."""

    def run(operation: Any, *, path: str = "/x", method: str = "get", **rest: Any) -> tuple[str, str]:
        conversion = converted({path: {method: operation}}, **rest)
        [skipped] = conversion.report.operations
        assert skipped.outcome == "skipped"
        assert not conversion.tools
        return skipped.reason or "", skipped.pointer

    return run


@pytest.fixture
def accepts() -> Callable[[ConvertedTool, Any], bool]:
    """Whether a tool's inputs take some arguments, according to the validator that calls use."""

    def deny(uri: str) -> Any:
        raise AssertionError(f"a schema wanted to fetch {uri}")

    def run(made: ConvertedTool, arguments: Any) -> bool:
        return jsonschema_rs.validator_for(made.inputs, retriever=deny).is_valid(arguments)

    return run
