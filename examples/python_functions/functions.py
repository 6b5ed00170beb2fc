"""Functions as tools: their schemas and results without a model, and a model that calls them.

functions.py [PROMPT]
"""

import json
import os
import sys
from typing import Any

from pydantic import BaseModel, Field
from utcp_gateway_client.loop import run_sync
from utcp_gateway_client.tools import ToolCollection

MODEL = os.environ.get("MODEL", "gpt-5")
thermostat = {"temperature": 60.0}


class GetWeather(BaseModel):
    location: str = Field(description="City and country e.g. San Jose, USA")


def get_weather(args: GetWeather) -> int:
    """Get current temperature for a given location."""
    return 10


def get_cookie():  # type: ignore[no-untyped-def]  # noqa: ANN201 - annotations are not required
    return "all out!"


def double_me(a: int) -> int:
    """Double a number."""
    return 2 * a


class SetTemperature(BaseModel):
    temp: float = Field(description="The temperature in Fahrenheit to set the thermostat to")


def get_thermostat_temperature() -> str:
    """Return the temperature that the thermostat is set to."""
    return f"{thermostat['temperature']:g}"


def set_thermostat_temperature(args: SetTemperature) -> str:
    """Set the temperature of the thermostat."""
    thermostat["temperature"] = args.temp
    return ""


tools = ToolCollection(
    [get_weather, get_cookie, double_me, get_thermostat_temperature, set_thermostat_temperature]
)


def call(name: str, arguments: str) -> None:
    """Call a function by the JSON text that a model writes."""
    print(f"{name}: {tools.exec_tool(name, arguments)}")


def chat(prompt: str) -> None:
    """Let a model answer a prompt; print the results of its calls and its text."""
    result = run_sync(prompt, model=MODEL, tools=tools, system="You answer by the supplied tools.")
    for each in result.calls:
        print(f"{each.call.name}: {each.preview}".rstrip())
    print(result.text)


def main(arguments: list[str]) -> None:
    """Answer the prompt; without one, show a schema and three results."""
    if arguments:
        chat(arguments[0])
        return
    schema: dict[str, Any] = tools.get_schemas()[0]
    print(json.dumps(schema, indent=2))
    call("get_weather", '{"location":"Paris, France"}')
    call("get_cookie", "")
    call("double_me", '{"a" : 2}')


if __name__ == "__main__":
    main(sys.argv[1:])
