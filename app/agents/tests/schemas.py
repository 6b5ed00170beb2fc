"""Response models of `/agent-tests`."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from app.agents.tests.results import TestResult
from app.agents.tests.runs import StoredTest


class AgentTestProgress(BaseModel):
    """How many conversations with models have ended."""

    done: int
    total: int = Field(description="Cases by models by repetitions.")


class AgentTestSummary(BaseModel):
    """Counts of the results."""

    results: int = Field(description="Cases by models.")
    passed: int
    failed: int = Field(description="Results with an assertion that does not hold.")
    errors: int = Field(description="Results of which the model or its API has failed.")
    calls: int = Field(description="Calls of tools, of the shown repetitions.")
    input_tokens: int
    output_tokens: int
    cost: float | None = Field(None, description="By the prices of the request; absent without prices.")
    currency: str | None = None


class AgentTestRun(BaseModel):
    """A test that runs or has run. The members of `results` have names in camel case."""

    id: UUID
    name: str = Field(description="The name of the test; empty where it has none.")
    state: Literal["running", "done", "failed", "cancelled"] = Field(
        description="`done`, whatever the results are; `failed` where the gateway has; `cancelled`: the "
        "results are those of what had ended."
    )
    passed: bool | None = Field(
        None, description="Whether all results have passed; absent unless the state is `done`."
    )
    progress: AgentTestProgress
    summary: AgentTestSummary | None = None
    warnings: list[str] = Field(
        default_factory=list, description="Plugins, toolsets and tools that were skipped."
    )
    results: list[TestResult] | None = Field(
        None, description="Of each case with each model; absent while it runs."
    )
    problem: dict[str, Any] | None = Field(
        None, description="Why it failed, or why the gateway has cancelled it (RFC 9457)."
    )
    created_at: datetime
    finished_at: datetime | None = None

    @classmethod
    def of(cls, stored: StoredTest) -> "AgentTestRun":
        """Return the view of a stored test."""
        row = stored.row
        found = None if stored.results is None else [TestResult.model_validate(one) for one in stored.results]
        warnings = dict.fromkeys(one for result in found or () for one in result.warnings)
        return cls(
            id=row.id,
            name=row.name,
            state=_state(row.state),
            passed=all(one.passed for one in found) if found is not None and row.state == "done" else None,
            progress=AgentTestProgress(done=row.done, total=row.total),
            summary=None if found is None else _summary(found),
            warnings=list(warnings),
            results=found,
            problem=row.problem,
            created_at=row.created_at,
            finished_at=row.finished_at,
        )


def _state(text: str) -> Literal["running", "done", "failed", "cancelled"]:
    match text:
        case "done" | "failed" | "cancelled":
            return text
    return "running"


def _summary(results: list[TestResult]) -> AgentTestSummary:
    usages = [one.usage for one in results if one.usage is not None]
    costs = [usage.cost for usage in usages if usage.cost is not None]
    passed = sum(one.passed for one in results)
    errors = sum(not one.passed and one.error is not None for one in results)
    return AgentTestSummary(
        results=len(results),
        passed=passed,
        failed=len(results) - passed - errors,
        errors=errors,
        calls=sum(len(one.calls) for one in results),
        input_tokens=sum(usage.input_tokens for usage in usages),
        output_tokens=sum(usage.output_tokens for usage in usages),
        cost=round(sum(costs), 6) if costs else None,
        currency=next((usage.currency for usage in usages if usage.currency is not None), None),
    )
