"""How ready tools are for a model."""

from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from app.formats.dialects.cost import estimate_tokens
from app.openapi.assessment.assess import assess
from tests.harness.cases import for_each


@dataclass(frozen=True)
class Tool:
    name: str = "findBooks"
    description: str = "Finds books by words of their title."
    inputs: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    outputs: dict[str, Any] = field(default_factory=dict)
    deprecated: bool = False

    @property
    def source_key(self) -> str:
        return f"GET /{self.name}"


def rules(*tools: Tool) -> list[list[str]]:
    return [[finding.rule for finding in one.findings] for one in assess(tools).values()]


def takes(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def described(count: int) -> dict[str, Any]:
    return {f"p{n}": {"type": "string", "description": "d"} for n in range(count)}


def test_a_good_tool_has_no_findings() -> None:
    assert rules(Tool()) == [[]]


@for_each(("tool", "rule"), [
    (Tool(description=""), "no-description"),
    (Tool(description="GET /findBooks"), "no-description"),
    (Tool(description="Find"), "short-description"),
    (Tool(deprecated=True), "deprecated"),
    (Tool(inputs=takes(**described(21))), "many-inputs"),
    (Tool(inputs=takes(body={"$ref": "#/$defs/B"}) | {"$defs": {"B": takes(**described(21))}}), "many-inputs"),
    (Tool(inputs=takes(a={"description": "d", "items": {"enum": [*range(100)]}})), "long-enum"),
    (Tool(inputs=takes(a={}, b={}, c={})), "undescribed-inputs"),
    (Tool(description="word " * 20_000), "large"),
])  # fmt: skip
def test_each_flaw_is_found_alone(tool: Tool, rule: str) -> None:
    assert rules(tool) == [[rule]]
    [assessment] = assess([tool]).values()
    assert all(finding.detail and finding.suggestion for finding in assessment.findings)


@pytest.mark.parametrize("tool", [
    Tool(inputs=takes(**described(20))),
    Tool(inputs=takes(a={"description": "d", "enum": [*range(99)]})),
    Tool(inputs=takes(a={}, b={})),
    Tool(description="Find old books"),
])  # fmt: skip
def test_what_is_just_good_enough_is_no_finding(tool: Tool) -> None:
    assert rules(tool) == [[]]


@pytest.mark.parametrize("other", ["find_books", "FindBook", "findBoks", "findBooks2"])
def test_names_that_are_easily_confused_are_found(other: str) -> None:
    assert rules(Tool(), Tool(name=other, description="Something else")) == [["similar-name"]] * 2


@pytest.mark.parametrize("other", ["findAuthors", "addBooks", "findBooksByAuthor"])
def test_names_that_differ_in_a_word_are_not(other: str) -> None:
    assert rules(Tool(), Tool(name=other, description="Something else")) == [[], []]


def test_the_same_description_tells_nothing_apart() -> None:
    assert rules(Tool(), Tool(name="addBooks")) == [["same-description"]] * 2


def test_a_long_list_of_names_is_compared_soon() -> None:
    tools = [
        Tool(name=f"operation_{chr(97 + n % 26)}{n * 7919}", description=f"Does {n}") for n in range(20_000)
    ]
    assert len(assess(tools)) == 20_000


def test_the_cost_is_the_bytes_by_four() -> None:
    inputs = takes(**described(3))
    seen = {"name": "n", "description": "d", "inputs": inputs}
    assert estimate_tokens("n", "d", inputs) == -(-len(orjson.dumps(seen)) // 4)
