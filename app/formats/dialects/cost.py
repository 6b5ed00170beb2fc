"""What a tool costs a model: the tokens of its definition, and the size of its responses."""

import math
from collections.abc import Mapping
from typing import Any

from app.core import exact_json

BYTES_PER_TOKEN = 4
"""Decision 13 explains why this is used instead of a tokeniser."""


def estimate_tokens(name: str, description: str, inputs: dict[str, Any]) -> int:
    """Return an estimate of the tokens that a model reads for a tool: bytes of its JSON / 4, rounded up."""
    seen = {"name": name, "description": description, "inputs": inputs}
    return math.ceil(len(exact_json.dumps(seen)) / BYTES_PER_TOKEN)


def estimate_tool_cost(
    name: str, description: str, inputs: Mapping[str, Any], *, average_response_size: int | None
) -> dict[str, int | None]:
    """Return the estimated tokens of a definition (its JSON in bytes / 4), as the report of an import has
    them, and the bytes of a response on average as the source states them (None: it does not).
    """
    return {
        "tokens": estimate_tokens(name, description, dict(inputs)),
        "average_response_size": average_response_size,
    }
