"""The last stage, for tools of any source: the tokens that a tool costs, its slimmed form, and its lint
findings.

Tools of manuals and custom tools are judged in the same way.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import orjson

from app.openapi.lint import LintableTool, Linter, LintFinding
from app.openapi.model import Conversion, Json
from app.openapi.slim import SlimmedTool, Slimmer

BYTES_PER_TOKEN = 4
"""Decision 13 explains why this is used instead of a tokeniser."""


class JudgeableTool(LintableTool, Protocol):
    """The parts of a tool that are judged; `LintableTool` has the others."""

    @property
    def outputs(self) -> Json: ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """A tool's slimmed form (`shown`, None where a model sees the tool unchanged), estimated tokens and
    findings.
    """

    shown: SlimmedTool | None
    tokens: int
    findings: tuple[LintFinding, ...]

    def as_json(self) -> Json:
        """Return the members that are added to the operation's verdict in the report."""
        return {
            "tokens": self.tokens,
            "slimmed": list(self.shown.steps) if self.shown else [],
            "lint": [finding.as_json() for finding in self.findings],
        }


def judge(tools: Sequence[JudgeableTool]) -> dict[str, Judgement]:
    """Judge tools; return the judgements by source key. Names and descriptions are compared with each
    other.
    """
    slimmer, linter = Slimmer(), Linter(tools)
    made: dict[str, Judgement] = {}
    for tool in tools:
        shown = slimmer.slim(
            name=tool.name, description=tool.description, inputs=tool.inputs, outputs=tool.outputs
        )
        seen = (shown.description, shown.inputs) if shown else (tool.description, tool.inputs)
        made[tool.source_key] = Judgement(shown, token_cost(tool.name, *seen), linter.findings(tool, shown))
    return made


def token_cost(name: str, description: str, inputs: Json) -> int:
    """Return an estimate of the tokens that a model reads for a tool: bytes of its JSON / 4, rounded up."""
    seen = {"name": name, "description": description, "inputs": inputs}
    return math.ceil(len(orjson.dumps(seen)) / BYTES_PER_TOKEN)


def judged(conversion: Conversion) -> Conversion:
    """Return the conversion with its tools slimmed and its report completed by judgements."""
    made = judge(conversion.tools)
    tools = tuple(
        tool if (shown := made[tool.source_key].shown) is None else replace(tool, shown=shown.to_json())
        for tool in conversion.tools
    )
    return replace(conversion, tools=tools, report=judged_report(conversion.report, made))


def judged_report(report: Json, made: Mapping[str, Judgement]) -> Json:
    """Return the report with each operation's judgement added to its verdict, and with the tokens of all
    tools.
    """
    operations: Iterable[Any] = (
        {**one, **made[one["source_key"]].as_json()}
        if one["verdict"] != "skipped" and one["source_key"] in made
        else one
        for one in report["operations"]
    )
    tokens = sum(one.tokens for one in made.values())
    return {**report, "operations": list(operations), "tokens": tokens}
