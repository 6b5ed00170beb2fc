"""Every response in the contract has an example, which its schema allows."""

import functools

import jsonschema_rs
import orjson
import pytest

from app.core import errors
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT

BODIES = [
    pytest.param(operation, status, media_type, media, id=f"{operation['operationId']}-{status}-{media_type}")
    for item in CONTRACT["paths"].values()
    for operation in item.values()
    for status, response in operation["responses"].items()
    for media_type, media in response.get("content", {}).items()
    # An upstream's response of any other media type.
    if media_type != "*/*"
]
REQUESTS = [
    pytest.param(media, id=f"{operation['operationId']}-{media_type}")
    for item in CONTRACT["paths"].values()
    for operation in item.values()
    for media_type, media in operation.get("requestBody", {}).get("content", {}).items()
    if "example" in media or "examples" in media
]
JSON_REQUESTS = sum(
    "application/json" in operation.get("requestBody", {}).get("content", {})
    for item in CONTRACT["paths"].values()
    for operation in item.values()
)


def examples_of(media):
    """Return the values of the examples of a Media Type Object."""
    examples = [media["example"]] if "example" in media else []
    for example in media.get("examples", {}).values():
        name = example.get("$ref", "").rpartition("/")[2]
        examples.append((CONTRACT["components"]["examples"][name] if name else example)["value"])
    return examples


@functools.cache
def build_validator(schema):
    whole = {**orjson.loads(schema), "components": CONTRACT["components"]}
    return jsonschema_rs.Draft202012Validator(whole)


def schema_errors(schema, example):
    validator = build_validator(orjson.dumps(schema))
    return [error.message for error in validator.iter_errors(example)]


@for_each(("operation", "status", "media_type", "media"), BODIES)
def test_body_of_a_response_has_examples_that_its_schema_allows(operation, status, media_type, media):
    examples = examples_of(media)
    assert examples
    assert [schema_errors(media["schema"], example) for example in examples] == [[] for _ in examples]


@for_each("media", REQUESTS)
def test_examples_of_a_request_are_allowed_by_its_schema(media):
    examples = examples_of(media)
    assert [schema_errors(media["schema"], example) for example in examples] == [[] for _ in examples]


def test_every_json_request_has_an_example():
    assert sum(param.id.endswith("-application/json") for param in REQUESTS) == JSON_REQUESTS


def test_problem_examples_have_the_status_of_their_response():
    differing = [
        (operation["operationId"], status, example["status"])
        for operation, status, media_type, media in (param.values for param in BODIES)
        if media_type == "application/problem+json" and status != "default"
        for example in examples_of(media)
        if str(example["status"]) != status
    ]
    assert differing == []


def test_named_examples_are_those_of_slugs():
    slugs = {kind.slug for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "slug")}
    named = CONTRACT["components"]["examples"]
    assert set(named) <= slugs
    assert all(example["value"]["type"].endswith(f":{slug}") for slug, example in named.items())
    # An unexpected error, a method that no operation has, a request to a WebSocket without an upgrade, and
    # rejections by the HTTP server have no operation that documents them.
    assert slugs - set(named) == {
        "internal-error", "method-not-allowed", "upgrade-required", "uri-too-long", "request-timeout",
        "request-header-fields-too-large", "too-many-requests", "not-implemented", "http-version-not-supported",
    }  # fmt: skip
