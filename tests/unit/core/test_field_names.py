"""Unknown members of bodies get the name of the field that was probably meant."""

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from app.core.field_names import describe_unknown_member
from tests.harness.cases import for_each


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Cat(Strict):
    kind: Literal["cat"]
    lives: int = 9


class Dog(Strict):
    kind: Literal["dog"]
    breed: str = ""


class Owner(Strict):
    email: str = Field("", alias="e-mail")
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    by_name: dict[str, Dog] = {}
    friend: "Owner | None" = None


@for_each(
    ("value", "suggestion"),
    [
        ({"email_": ""}, "Did you mean `e-mail`?"),
        ({"pets": [{"kind": "cat", "live": 1}]}, "Did you mean `lives`?"),
        ({"pets": [{"kind": "dog", "bread": 1}]}, "Did you mean `breed`?"),
        ({"pets": [{"kind": "dog", "lives": 1}]}, ""),
        ({"by_name": {"rex": {"kind": "dog", "bred": ""}}}, "Did you mean `breed`?"),
        ({"friend": {"friend": {"frend": None}}}, "Did you mean `friend`?"),
        ({"colour": "red"}, ""),
    ],
)
def test_the_fields_of_the_model_at_the_place_are_compared(value, suggestion):
    with pytest.raises(ValidationError) as raised:
        TypeAdapter(Owner).validate_python(value)
    location = raised.value.errors()[0]["loc"]
    assert describe_unknown_member(Owner, location) == f"This member is unknown. {suggestion}".rstrip()


def test_a_body_of_no_known_type_has_no_suggestion():
    assert describe_unknown_member(None, ("x",)) == "This member is unknown."
    assert describe_unknown_member(dict, ("a", 0, "x")) == "This member is unknown."
