"""Every field of every object of each version is read, or the report says that it has no effect, and where.

"Read" is shown by its effect: the tools or the credential slots differ from those of the same document without it.
"""

import copy
from itertools import pairwise
from typing import Any

import orjson
import pytest

from app.core.errors import InvalidDocument
from app.openapi import Conversion
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each
from tests.unit.openapi.specification_fields import (
    OBJECTS_2,
    OBJECTS_3,
    OPERATION,
    Json,
    Sample,
    SpecificationObject,
)

VERSIONS = {"2.0": "2.0", "3.0": "3.0.4", "3.1": "3.1.2", "3.2": "3.2.0"}
CASES = [
    (version, name, field)
    for version in VERSIONS
    for name, one in (OBJECTS_2 if version == "2.0" else OBJECTS_3).items()
    for field in one.of(version)
]


def tokens_of(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def place(document: Json, pointer: str, value: Any) -> None:
    """Put a value into a document, with the objects and lists that lead there; objects are merged."""
    tokens = tokens_of(pointer)
    node: Any = document
    for token, following in pairwise(tokens):
        if isinstance(node, list):
            node = node[int(token)]
        else:
            node = node.setdefault(token, [{}] if following == "0" else {})
    if isinstance(node, list):
        node[int(tokens[-1])] = {**node[int(tokens[-1])], **value}
    elif isinstance(value, dict) and isinstance(node.get(tokens[-1]), dict):
        node[tokens[-1]] = {**node[tokens[-1]], **value}
    else:
        node[tokens[-1]] = value


def document_of(version: str, at: str, node: Json, around: Json) -> Json:
    """A document of a version with an object at a pointer."""
    head: Json = {"openapi": VERSIONS[version], "servers": [{"url": "https://api.example.com"}]}
    if version == "2.0":
        head = {"swagger": "2.0", "host": "api.example.com", "schemes": ["https"]}
    whole: Json = {**head, "info": {}, "paths": {"/a": {"post": dict(OPERATION)}}}
    if not at:
        whole = copy.deepcopy(node)
        if whole.get("openapi"):
            whole["openapi"] = VERSIONS[version]
    for pointer, value in around.items():
        place(whole, pointer, copy.deepcopy(value))
    if at:
        parent, _, last = at.rpartition("/")
        if last == "0" or at in ("/paths/~1a", "/paths/~1a/post"):
            place(whole, parent, whole_of(whole, parent, tokens_of(at)[-1], node))
        else:
            place(whole, at, copy.deepcopy(node))
    return whole


def whole_of(document: Json, parent: str, key: str, node: Json) -> Any:
    """The container of an object, with the object in place of what it has there; in a list as the only item."""
    found: Any = document
    for token in tokens_of(parent):
        found = found.get(token, {}) if isinstance(found, dict) else found[int(token)]
    if key == "0":
        beside = found[0] if isinstance(found, list) and found else {}
        return [{**beside, **copy.deepcopy(node)}]
    beside = found[key] if key == "post" else {}
    return {**found, key: {**beside, **copy.deepcopy(node)}}


def converted(document: Json) -> Conversion | None:
    try:
        return convert(orjson.dumps(document))
    except InvalidDocument:
        return None


def without_report(conversion: Conversion | None) -> Json | None:
    """What becomes of a document, and the servers of the report, of which a registrar chooses one."""
    if conversion is None:
        return None
    whole = conversion.to_json()
    return {**whole, "report": whole["report"].get("servers")}


def both(one: SpecificationObject, version: str, field: str) -> tuple[Json, Json, str]:
    """The document without a field, the one with it, and the pointer of the field."""
    given = one.of(version)[field]
    sample = given if isinstance(given, Sample) else Sample(given)
    at = one.at if sample.at is None else sample.at
    base = one.base if sample.base is None else sample.base
    around = {**(one.around if sample.at is None else {}), **sample.around}
    absent = {key: value for key, value in base.items() if key != field}
    escaped = field.replace("~", "~0").replace("/", "~1")
    pair = [document_of(version, at, node, around) for node in (absent, {**base, field: sample.value})]
    return pair[0], pair[1], f"{at}/{escaped}"


@for_each(("version", "name", "field"), CASES, ids=lambda value: value)
def test_a_field_has_an_effect_or_is_reported(version: str, name: str, field: str) -> None:
    one = (OBJECTS_2 if version == "2.0" else OBJECTS_3)[name]
    absent, present, pointer = both(one, version, field)
    before, after = converted(absent), converted(present)
    assert after is not None
    reported = {each.pointer for each in after.report.unread} | {
        each.pointer for each in after.report.warnings
    }
    has_effect = without_report(before) != without_report(after)
    inside = any(each == pointer or each.startswith(f"{pointer}/") for each in reported)
    assert has_effect or inside, sorted(reported)
    unread = {each.pointer for each in after.report.unread}
    assert not (has_effect and pointer in unread), "it has an effect, and the report says that it has none"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_field_that_no_specification_has_is_reported(version: str) -> None:
    objects = OBJECTS_2 if version == "2.0" else OBJECTS_3
    for name, one in objects.items():
        if name in ("Responses", "Items", "XML", "Components", "Discriminator") or not one.of(version):
            continue
        at, node = one.at, {**one.base, "unknownField": 1, "x-extension": 1}
        found = converted(document_of(version, at, node, one.around))
        assert found is not None
        pointers = [each.pointer for each in found.report.unread]
        assert f"{at}/unknownField" in pointers, name
        assert f"{at}/x-extension" not in pointers


def test_the_same_field_is_reported_once_with_its_number() -> None:
    paths = {f"/{n}": {"get": {"externalDocs": {"url": "https://docs.example.com"}}} for n in range(3)}
    document = {"openapi": "3.1.0", "info": {}, "servers": [{"url": "https://a.example.com"}], "paths": paths}
    found = converted(document)
    assert found is not None
    [unread] = found.report.unread
    assert unread.to_json() == {
        "object": "Operation Object",
        "field": "externalDocs",
        "count": 3,
        "pointer": "/paths/~10/get/externalDocs",
        "reason": "documentation for people, for which tools have no place",
    }
