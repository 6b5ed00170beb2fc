"""What a tool costs a model: the tokens of its definition, and the size of its responses."""

from collections.abc import Mapping
from typing import Any

from app.openapi.assess import token_cost


def tool_cost(
    name: str, description: str, inputs: Mapping[str, Any], *, average_response_size: int | None
) -> dict[str, int | None]:
    """Return the estimated tokens of a definition (its JSON in bytes / 4), as the report of an import has
    them, and the bytes of a response on average as the source states them (None: it does not).
    """
    return {
        "tokens": token_cost(name, description, dict(inputs)),
        "average_response_size": average_response_size,
    }
