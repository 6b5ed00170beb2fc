"""What the documentation gives to copy can be read by the gateway."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.protocols.call_templates import read_template
from app.protocols.registry import PROTOCOLS
from tests.harness.cases import for_each

PAGE = Path(__file__).parents[3] / "docs" / "protocols.md"
BLOCKS = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
KEYS = ("call_template_type", "provider_type")


def documents(block: str) -> list[Any]:
    """The JSON values that stand one after the other in a block."""
    found, rest = [], block.strip()
    while rest:
        value, end = json.JSONDecoder().raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


def templates(value: Any) -> Iterator[dict[str, Any]]:
    """The call templates and providers in a value."""
    if isinstance(value, dict):
        if any(key in value for key in KEYS):
            yield value
            return
        value = list(value.values())
    for member in value if isinstance(value, list) else ():
        yield from templates(member)


@for_each("number", range(len(BLOCKS)))
def test_every_example_is_json_and_every_template_is_valid(number: int) -> None:
    for document in documents(BLOCKS[number]):
        for template in templates(document):
            read_template(template)


def test_every_protocol_has_an_example() -> None:
    found = [one for block in BLOCKS for document in documents(block) for one in templates(document)]
    assert {read_template(one).protocol for one in found} >= set(PROTOCOLS) - {"http"}
