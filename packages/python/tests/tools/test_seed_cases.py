"""The five test cases of the article that functions as tools come from: schema building, Tool and ToolCollection."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from utcp_gateway_client.tools import Tool, ToolCollection


@dataclass
class GetWeather(BaseModel):
    location: str = Field(description="City and country e.g. San Jose, USA")


def get_weather(args: GetWeather) -> float:
    """
    Get current temperature for a given location.
    """
    return "10"  # type: ignore[return-value]


def get_cookie():
    return "all out!"


def double_me(a: int):
    """
    Doubles the value of the supplied number
    """
    return str(2 * a)


@dataclass
class SetTemperature(BaseModel):
    temp: float = Field(description="The temperature value in Fahrenheit to set the thermostat to")


class Thermostat:
    """The thermostat of the article, which keeps what it is set to."""

    def __init__(self) -> None:
        self.set_to: list[float] = []

    def tools(self) -> ToolCollection:
        def set_thermostat_temperature(args: SetTemperature) -> str:
            """
            Sets the current temperature for a given location."
            """
            self.set_to.append(args.temp)
            return ""

        def get_thermostat_temperature() -> str:
            """
            Returns the current temperature setting of the thermostat."
            """
            return "60"

        return ToolCollection([set_thermostat_temperature, get_thermostat_temperature])


CASES = [
    (get_weather, '{"location":"Paris, France"}', "10"),
    (get_cookie, "", "all out!"),
    (double_me, '{"a" : 2}', "4"),
]


@pytest.mark.parametrize(("function", "arguments", "expected"), CASES)
def test_function_returns_its_text_through_tool_and_collection(function, arguments, expected):
    tool = Tool(function)
    assert tool.exec(arguments) == expected
    assert ToolCollection([function]).exec_tool(function.__name__, arguments) == expected
    assert ToolCollection([tool]).get_tool_names() == [function.__name__]


def test_schema_of_get_weather_is_the_printed_one():
    printed = json.loads("""{
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get current temperature for a given location.",
            "strict": true,
            "parameters": {
                "properties": {
                    "location": {
                        "description": "City and country e.g. San Jose, USA",
                        "title": "Location",
                        "type": "string"
                    }
                },
                "required": ["location"],
                "title": "GetWeather",
                "type": "object",
                "additionalProperties": false
            }
        }
    }""")
    tool = Tool(get_weather)
    assert tool.tool_schema == printed
    assert tool.argument_schema == printed["function"]["parameters"]
    assert ToolCollection([get_weather]).get_schemas() == [printed]


def test_schema_without_parameters_and_docstring():
    tool = Tool(get_cookie)
    assert tool.deserialize is None
    assert tool.tool_schema == {
        "type": "function",
        "function": {
            "name": "get_cookie",
            "description": "function get_cookie",
            "strict": True,
            "parameters": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        },
    }


def test_schema_of_plain_parameters():
    function = Tool(double_me).tool_schema["function"]
    assert function["description"] == "Doubles the value of the supplied number"
    assert function["parameters"] == {
        "type": "object",
        "title": "double_me",
        "properties": {"a": {"title": "A", "type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }


def run_turns(tools: ToolCollection, turns: list[list[tuple[str, str]]]) -> list[dict[str, Any]]:
    """Return the `tool` messages for the calls that a scripted model makes turn by turn, as the article's loop does."""
    messages = []
    for turn in turns:
        for number, (name, arguments) in enumerate(turn):
            content = tools.exec_tool(name, arguments)
            assert isinstance(content, str)
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": content})
    return messages


def test_loop_of_the_weather_has_one_call():
    tools = ToolCollection([get_weather])
    messages = run_turns(tools, [[("get_weather", '{"location":"San Jose, USA"}')], []])
    assert [message["content"] for message in messages] == ["10"]


def test_loop_of_the_thermostat_chains_two_calls():
    thermostat = Thermostat()
    turns = [[("get_thermostat_temperature", "{}")], [("set_thermostat_temperature", '{"temp": 70}')], []]
    messages = run_turns(thermostat.tools(), turns)
    assert [message["content"] for message in messages] == ["60", ""]
    assert thermostat.set_to == [70.0]
