"""Collections of tools: registration, filters, other names, mappers, calls."""

import pytest

from utcp_gateway_client.tools import Tool, ToolCollection, tool


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def multiply(a: int, b: int) -> int:
    return a * b


@pytest.fixture
def tools() -> ToolCollection:
    return ToolCollection([add, Tool(multiply, tags=["costly"])])


def test_functions_and_tools_are_registered_in_order(tools):
    assert tools.get_tool_names() == ["add", "multiply"]
    assert len(tools) == 2
    assert "add" in tools
    assert tools["add"].function is add
    assert ToolCollection().get_schemas() == []


def test_registered_name_is_replaced_with_a_warning(tools, caplog):
    @tool(name="add")
    def other(a: int) -> int:
        return a

    assert tools.register_tool(other) is other
    assert tools["add"] is other
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "The tool add is registered already; it is replaced.")
    ]


def test_unknown_name_is_a_key_error(tools):
    with pytest.raises(KeyError, match="not registered"):
        tools.exec_tool("divide", "{}")


def test_what_is_no_function_is_not_registered(tools):
    with pytest.raises(TypeError):
        tools.register_tool(len)


async def test_calls_by_name(tools):
    assert tools.exec_tool("add", '{"a": 1, "b": 2}') == "3"
    assert tools.execute("add", {"a": 1}).errors[0].pointer == "/b"
    assert (await tools.execute_async("multiply", {"a": 2, "b": 3})).text == "6"


def test_filters_by_name_and_by_rule_leave_the_original(tools):
    assert tools.filter(["add", "absent"]).get_tool_names() == ["add"]
    assert tools.filter(lambda each: "costly" in each.tags).get_tool_names() == ["multiply"]
    assert len(tools) == 2


def test_renamed_tools_are_called_by_their_new_names(tools):
    renamed = tools.rename({"add": "sum_up", "multiply": "times"})
    assert renamed.exec_tool("sum_up", '{"a": 1, "b": 2}') == "3"
    assert [schema["function"]["name"] for schema in renamed.get_schemas()] == ["sum_up", "times"]
    assert [schema["function"]["description"] for schema in renamed.get_schemas()] == [
        "Add two numbers.",
        "function times",
    ]
    assert tools.get_tool_names() == ["add", "multiply"]


def test_names_can_be_exchanged(tools):
    exchanged = tools.rename({"add": "multiply", "multiply": "add"})
    assert exchanged.exec_tool("add", '{"a": 2, "b": 3}') == "6"


def test_rename_of_unknown_tools_and_to_taken_names_fails(tools):
    with pytest.raises(KeyError, match="not registered"):
        tools.rename({"divide": "x"})
    with pytest.raises(ValueError, match="same name"):
        tools.rename({"add": "multiply"})


def test_schemas_are_mapped_for_other_providers(tools):
    def anthropic(schema):
        function = schema["function"]
        return {
            "name": function["name"],
            "description": function["description"],
            "input_schema": function["parameters"],
        }

    mapped = tools.get_schemas(anthropic)
    assert [list(each) for each in mapped] == [["name", "description", "input_schema"]] * 2
    assert mapped[0]["input_schema"]["required"] == ["a", "b"]
