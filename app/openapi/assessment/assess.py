"""Assesses tools of any source for models: the tokens that a tool costs, its slimmed form, and its lint
findings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.formats.dialects.cost import estimate_tokens
from app.openapi.assessment.lint import LintableTool, Linter, LintFinding
from app.openapi.assessment.slim import SlimmedTool, Slimmer
from app.openapi.model import Json


class AssessableTool(LintableTool, Protocol):
    """The parts of a tool that are assessed; `LintableTool` has the others."""

    @property
    def outputs(self) -> Json: ...


@dataclass(frozen=True, slots=True)
class Assessment:
    """A tool's slimmed form (None where a model sees the tool unchanged), estimated tokens, and findings."""

    slimmed: SlimmedTool | None
    tokens: int
    findings: tuple[LintFinding, ...]


def assess(tools: Sequence[AssessableTool]) -> dict[str, Assessment]:
    """Return the assessment of each tool by source key. Names and descriptions of the tools are compared with
    each other.
    """
    slimmer, linter = Slimmer(), Linter(tools)
    assessments: dict[str, Assessment] = {}
    for tool in tools:
        slimmed = slimmer.slim(
            name=tool.name, description=tool.description, inputs=tool.inputs, outputs=tool.outputs
        )
        seen = (slimmed.description, slimmed.inputs) if slimmed else (tool.description, tool.inputs)
        tokens = estimate_tokens(tool.name, *seen)
        assessments[tool.source_key] = Assessment(slimmed, tokens, linter.list_findings(tool, slimmed))
    return assessments
