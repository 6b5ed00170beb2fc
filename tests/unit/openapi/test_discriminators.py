"""A discriminator accepts what an ambiguous `oneOf` rejects, and rejects nothing that it accepts."""

from collections.abc import Callable
from typing import Any

from app.openapi import ConvertedTool
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import ConvertOne

Accepts = Callable[[ConvertedTool, Any], bool]
SCHEMAS: dict[str, Any] = {
    "Cat": {"type": "object", "properties": {"kind": {"type": "string"}, "name": {"type": "string"}}},
    "Dog": {"type": "object", "properties": {"kind": {"type": "string"}, "bark": {"type": "boolean"}}},
}


def operation(**discriminator: Any) -> dict[str, Any]:
    schema = {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in SCHEMAS]}
    if discriminator:
        schema["discriminator"] = {"propertyName": "kind", **discriminator}
    return {"requestBody": {"content": {"application/json": {"schema": schema}}}}


@for_each(
    ("body", "without", "with_one"),
    [
        ({"kind": "Cat", "name": "Tom"}, False, True),
        ({"kind": "puppy"}, False, True),
        ({"kind": "Fish", "name": "Tom"}, False, False),
        ({"name": "Tom"}, False, False),
        ({"kind": "Dog", "bark": "loud"}, True, True),
        ({"kind": "Dog", "bark": "loud", "name": 1}, False, False),
    ],
)
def test_what_the_discriminator_decides(
    tool: ConvertOne, accepts: Accepts, body: Any, without: bool, with_one: bool
) -> None:
    components = {"schemas": SCHEMAS}
    plain = tool(operation(), method="post", components=components)
    decided = tool(operation(mapping={"puppy": "Dog"}), method="post", components=components)
    assert (accepts(plain, {"body": body}), accepts(decided, {"body": body})) == (without, with_one)


def test_the_default_is_for_other_values_and_for_none(tool: ConvertOne, accepts: Accepts) -> None:
    made = tool(
        operation(defaultMapping="Cat"), method="post", components={"schemas": SCHEMAS}, openapi="3.2.0"
    )
    assert accepts(made, {"body": {"name": "Tom"}})
    assert accepts(made, {"body": {"kind": "Fish"}})
    assert not accepts(made, {"body": {"kind": "Fish", "name": 1, "bark": 1}})
