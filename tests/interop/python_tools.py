"""Run by the interpreter that has utcp_gateway_client: serves functions as tools over HTTP, and prints the URL.

The argument is the bearer token that clients must send; "" for none.
"""

import enum
import sys
from typing import Annotated

import uvicorn
from pydantic import BaseModel, Field
from utcp_gateway_client.serving import serve
from utcp_gateway_client.tools import ToolError, tool


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Forecast(BaseModel):
    city: str
    temperature: float
    unit: Unit


class Place(BaseModel):
    city: str
    country: str | None = None


@tool(tags=["weather"])
def get_forecast(
    place: Place,
    days: Annotated[int, Field(ge=1, le=7)] = 1,
    unit: Unit = Unit.CELSIUS,
) -> list[Forecast]:
    """Get the weather forecast of a book catalogue's city.

    Args:
        place: Where
        days: How many days
    """
    return [Forecast(city=place.city, temperature=10 + day, unit=unit) for day in range(days)]


async def double_me(a: int) -> int:
    """Double a number."""
    return 2 * a


def get_cookie() -> str:
    return "all out!"


def get_picture() -> bytes:
    return b"\x89PNG\x00\xff"


def reserve() -> str:
    """Reserve a table."""
    raise ToolError("The restaurant is closed.")


if __name__ == "__main__":
    app = serve([get_forecast, double_me, get_cookie, get_picture, reserve], token=sys.argv[1] or None)
    config = uvicorn.Config(app, port=0, log_level="warning")
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    # Before anybody knows the address: connections wait until the server takes them.
    socket.listen()
    print(f"http://127.0.0.1:{socket.getsockname()[1]}", flush=True)
    server.run(sockets=[socket])
