"""The schemas that functions get: from types, defaults, annotations and docstrings."""

import dataclasses
import datetime as dt
import enum
import json
import uuid
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from utcp_gateway_client.tools import Tool, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Address(BaseModel):
    """Where somebody lives."""

    street: str
    city: str = "Hull"


class Person(BaseModel):
    name: str
    home: Address
    work: Address | None = None


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


def properties(made: Tool[..., Any]) -> dict[str, Any]:
    found: dict[str, Any] = made.argument_schema["properties"]
    return found


def test_types_become_schemas_without_references():
    @tool
    def everything(
        text: str,
        count: int,
        share: float,
        flag: bool,
        colour: Colour,
        point: Point,
        person: Person,
        either: Literal["a", "b"],
        day: dt.date,
        key: uuid.UUID,
        tags: list[str],
        scores: dict[str, int],
        pet: Annotated[Cat | Dog, Field(discriminator="kind")],
        maybe: int | None = None,
    ) -> str:
        return json.dumps([colour.value, point.x, person.home.city, pet.kind, day.year])

    schema = everything.argument_schema
    assert "$ref" not in json.dumps(schema)
    assert "$defs" not in json.dumps(schema)
    assert schema["additionalProperties"] is False
    assert schema["required"] == [name for name in schema["properties"] if name != "maybe"]
    assert schema["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["either"]["enum"] == ["a", "b"]
    assert schema["properties"]["person"]["properties"]["home"]["properties"]["city"]["default"] == "Hull"
    assert schema["properties"]["person"]["properties"]["home"]["description"] == "Where somebody lives."
    assert [each["properties"]["kind"]["const"] for each in schema["properties"]["pet"]["oneOf"]] == [
        "cat",
        "dog",
    ]
    assert "discriminator" not in schema["properties"]["pet"]
    arguments = {
        "text": "a", "count": 1, "share": 0.5, "flag": True, "colour": "blue", "point": {"x": 3}, "either": "b",
        "person": {"name": "Ada", "home": {"street": "1 Quay"}}, "day": "2026-01-02", "tags": [], "scores": {"a": 1},
        "key": "c0ffee00-0000-4000-8000-000000000000", "pet": {"kind": "cat", "name": "Tom"},
    }  # fmt: skip
    assert json.loads(everything.exec(json.dumps(arguments))) == ["blue", 3, "Hull", "cat", 2026]


def test_recursive_model_ends_at_its_second_occurrence():
    @tool
    def count(node: Node) -> int:
        return 1 + sum(count.function(child) for child in node.children)

    node = count.argument_schema
    inner = node["properties"]["children"]["items"]
    assert inner == {"type": "object", "title": "Node", "description": "Has the form of the enclosing Node."}
    assert "$ref" not in json.dumps(node)
    assert count.tool_schema["function"]["strict"] is False
    # The arguments themselves are validated at each depth.
    deep = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    assert count.exec(json.dumps(deep)) == "3"
    deep["children"][0]["children"][0]["name"] = 1
    assert [each.pointer for each in count.execute(deep).errors] == ["/children/0/children/0/name"]


def test_fields_in_annotations_keep_description_and_constraints():
    @tool
    def search(
        query: Annotated[str, Field(description="What to look for", min_length=2)],
        limit: Annotated[int, Field(ge=1, le=20)] = 10,
        language: Annotated[str, "Two letters"] = "en",
        offset: int = Field(0, ge=0, description="From where"),
    ) -> str:
        return f"{query} {limit} {language} {offset}"

    assert properties(search) == {
        "query": {"title": "Query", "type": "string", "description": "What to look for", "minLength": 2},
        "limit": {"title": "Limit", "type": "integer", "minimum": 1, "maximum": 20, "default": 10},
        "language": {"title": "Language", "type": "string", "description": "Two letters", "default": "en"},
        "offset": {
            "title": "Offset",
            "type": "integer",
            "description": "From where",
            "minimum": 0,
            "default": 0,
        },
    }
    assert search.exec('{"query": "sea"}') == "sea 10 en 0"
    assert [each.pointer for each in search.execute('{"query": "sea", "limit": 21}').errors] == ["/limit"]


def google(a: int, b: str = "x") -> str:
    """Find a book.

    In the whole catalogue.

    Args:
        a (int): How many,
            at most.
        b: Its author.

    Returns:
        The title.

    Raises:
        KeyError: There is none.
    """
    return b * a


def numpy(a: int, b: str = "x") -> str:
    """Find a book.

    In the whole catalogue.

    Parameters
    ----------
    a : int
        How many,
        at most.
    b : str, optional
        Its author.

    Returns
    -------
    str
        The title.

    Raises
    ------
    KeyError
        There is none.
    """
    return b * a


def restructured(a: int, b: str = "x") -> str:
    """Find a book.

    In the whole catalogue.

    :param a: How many,
        at most.
    :param str b: Its author.
    :returns: The title.
    :raises KeyError: There is none.
    """
    return b * a


@pytest.mark.parametrize("function", [google, numpy, restructured])
def test_docstring_describes_function_and_parameters(function):
    made = Tool(function)
    assert made.description == (
        "Find a book.\n\nIn the whole catalogue.\n\nReturns: The title.\n\nRaises KeyError: There is none."
    )
    assert {name: each["description"] for name, each in properties(made).items()} == {
        "a": "How many,\nat most.",
        "b": "Its author.",
    }


def test_docstring_without_parameters_is_the_description_as_it_stands():
    @tool
    def note(text: str) -> str:
        """Write a note.

        Example: it is short.

        Returns:
            Nothing.
        """
        return text

    assert note.description == "Write a note.\n\nExample: it is short.\n\nReturns:\n    Nothing."


def test_description_in_the_annotation_wins_over_the_docstring():
    @tool
    def double(a: Annotated[int, Field(description="From the field")]) -> int:
        """Double it.

        :param a: From the docstring
        """
        return 2 * a

    assert properties(double)["a"]["description"] == "From the field"


def test_parameters_may_have_names_of_model_members_and_underscores():
    @tool
    def odd(schema: int, model_config: int, _hidden: int, copy: int = 4) -> int:
        return schema + model_config + _hidden + copy

    assert list(properties(odd)) == ["schema", "model_config", "_hidden", "copy"]
    assert odd.exec('{"schema": 1, "model_config": 2, "_hidden": 3}') == "10"


def test_positional_and_keyword_parameters():
    @tool
    def placed(a: int, /, b: int, *, c: int = 3) -> list[int]:
        return [a, b, c]

    assert placed.exec('{"a": 1, "b": 2}') == "[1,2,3]"


def test_one_parameter_that_is_no_model_is_a_property():
    @tool
    def area(point: Point) -> int:
        return point.x * point.y

    assert properties(area)["point"]["required"] == ["x"]
    assert area.exec('{"point": {"x": 2, "y": 3}}') == "6"


def test_unannotated_parameter_takes_any_value():
    @tool
    def echo(value):
        return value

    assert properties(echo) == {"value": {"title": "Value"}}
    assert echo.exec('{"value": [1, {"a": null}]}') == '[1,{"a":null}]'


def test_model_that_allows_other_members_stays_open():
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int = 1

    def take(args: Open) -> dict[str, Any]:
        return args.model_dump()

    # Local annotations are resolved, since this module does not postpone them.
    opened = Tool(take)
    assert opened.argument_schema["additionalProperties"] is True
    assert opened.exec('{"b": 2}') == '{"a":1,"b":2}'
    assert opened.tool_schema["function"]["strict"] is False


def test_model_with_aliases_is_called_by_them():
    class Aliased(BaseModel):
        from_: str = Field(alias="from")

    def take(args: Aliased) -> str:
        return args.from_

    assert Tool(take).exec('{"from": "Hull"}') == "Hull"
    assert [each.pointer for each in Tool(take).execute('{"from_": "Hull"}').errors] == ["/from_", "/from"]


def strict_of(made: Tool[..., Any]) -> Any:
    function = made.tool_schema["function"]
    return function["parameters"] if function["strict"] else None


def test_strict_schema_requires_all_and_null_means_the_default():
    @tool
    def find(query: str, limit: int = 10, colour: Colour = Colour.RED, near: Address | None = None) -> str:
        return f"{query} {limit} {colour.value} {near and near.city}"

    strict = strict_of(find)
    assert strict["required"] == ["query", "limit", "colour", "near"]
    assert strict["properties"]["limit"] == {
        "title": "Limit",
        "anyOf": [{"type": "integer"}, {"type": "null"}],
    }
    place = strict["properties"]["near"]["anyOf"][0]
    assert place["additionalProperties"] is False
    assert place["required"] == ["street", "city"]
    assert "default" not in json.dumps(strict)
    # The bare schema says it as it is.
    assert find.argument_schema["required"] == ["query"]
    assert properties(find)["limit"] == {"title": "Limit", "type": "integer", "default": 10}
    given = {"query": "sea", "limit": None, "colour": None, "near": {"street": "1 Quay", "city": None}}
    assert find.exec(json.dumps(given)) == "sea 10 red Hull"
    assert find.exec('{"query": "sea", "near": null}') == "sea 10 red None"
    assert [each.pointer for each in find.execute('{"query": null}').errors] == ["/query"]


def test_strict_is_not_said_where_the_schema_has_no_strict_form():
    def mapping(scores: dict[str, int]) -> None: ...

    def anything(value: Any) -> None: ...

    def length(text: Annotated[str, Field(min_length=2)]) -> None: ...

    def null_is_a_value(limit: int | None = 3) -> None: ...

    def pair(both: tuple[int, str]) -> None: ...

    for function in (mapping, anything, length, null_is_a_value, pair):
        made = Tool(function)
        assert made.tool_schema["function"]["strict"] is False
        assert made.tool_schema["function"]["parameters"] == made.argument_schema


def test_null_that_is_a_value_is_given_to_the_function():
    @tool
    def limited(limit: int | None = 3) -> str:
        return repr(limit)

    assert limited.exec('{"limit": null}') == "None"
    assert limited.exec("{}") == "3"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (list[Address], {"type": "array"}),
        (None, {"type": "null"}),
        (bytes, None),
        (Any, None),
    ],
)
def test_output_schema_is_that_of_the_return_annotation(annotation, expected):
    def give():
        return None

    give.__annotations__["return"] = annotation
    schema = Tool(give).output_schema
    assert (schema or {}).get("type") == (expected or {}).get("type")
    assert "$ref" not in json.dumps(schema)


def test_output_schema_of_no_annotation_is_empty():
    def give():
        return None

    assert Tool(give).output_schema == {}


def method() -> Any:
    class Bound:
        def run(self) -> None: ...

    return Bound().run


def variadic(*values: int) -> None: ...


def keywords(**values: int) -> None: ...


def unknown(value: "Nowhere") -> None: ...  # type: ignore[name-defined] # noqa: F821


def no_schema(value: type(json)) -> None: ...  # type: ignore[valid-type]


def generator() -> Any:
    yield 1


@pytest.mark.parametrize("wrong", [len, str, 3, None, "name", method(), Tool(google)])
def test_what_is_no_plain_function_is_a_type_error(wrong):
    with pytest.raises(TypeError, match="not a plain function"):
        Tool(wrong)


@pytest.mark.parametrize("wrong", [variadic, keywords, unknown, no_schema, generator])
def test_function_whose_arguments_have_no_schema_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=f"{wrong.__name__} cannot be a tool"):
        Tool(wrong)


@pytest.mark.parametrize("name", ["agent.ping", "", "a b", "größe", "x" * 65, "<lambda>"])
def test_name_that_model_providers_reject_is_a_value_error(name):
    with pytest.raises(ValueError, match="is no name of a tool"):
        Tool(google, name=name)


def test_name_and_description_are_overridden():
    @tool(name="find-book", description="Find it.", tags=["books"])
    def find() -> str:
        """Find."""
        return "found"

    assert (find.name, find.description, find.tags) == ("find-book", "Find it.", ("books",))
    assert find.tool_schema["function"]["name"] == "find-book"
    assert find() == "found"
