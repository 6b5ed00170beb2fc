"""The results of agent tests, with the field names of the article that they follow: `testCase`, ..."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from app.agents.tests.assertions import AssertedCall, AssertedRun, check_assertions, score_of
from app.agents.tests.conversation import MadeCall, RunOutcome, Stopped
from app.agents.tests.definition import PlannedCase, TokenPrice
from app.agents.tests.models import ModelTarget
from app.agents.tests.offered_tools import OfferedTools
from app.agents.tool_calls.model import ArgumentError
from app.calls.arguments.masking import masked_arguments
from app.core import exact_json
from app.core.text import preview, remove_unstorable
from app.security.masking import Masker, mask_values

MAX_RESPONSE_BYTES: Final = 100_000
MAX_ARGUMENTS_BYTES: Final = 10_000
MAX_ERROR_BYTES: Final = 1_000
_MILLION: Final = 1_000_000
_DIGITS: Final = 6


class ResultModel(BaseModel):
    """A part of a result; its JSON has names in camel case."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class AssertionResult(ResultModel):
    """Whether an assertion holds."""

    type: str = Field(examples=["contains"])
    passed: bool
    message: str = Field(description="A sentence about what was found.")
    weight: float
    description: str | None = None


class ToolCallRecord(ResultModel):
    """A call that the model has made."""

    iteration: int = Field(description="The request to the model whose response had the call, from 1.")
    name: str = Field(description="The name that the model called.")
    tool: str | None = Field(None, description="The canonical name of the tool; absent where there is none.")
    arguments: Any = Field(
        None, description="The arguments, with secrets masked; a text where they are large or no JSON."
    )
    outcome: Literal["ok", "error", "skipped", "not_made"] = Field(
        description="`skipped`: an identical call of the same response was made in its place; `not_made`: "
        "the response was cut, or the time was over."
    )
    status: int | None = Field(None, description="The status that the call route would have responded with.")
    call_id: str | None = Field(None, description="The record of the call, `GET /calls/{call_id}`.")
    preview: str | None = Field(None, description="The first 500 bytes of the result that the model got.")


class TestUsage(ResultModel):
    """Tokens as the API of the model counts them, and what they cost by the prices of the request."""

    __test__ = False

    input_tokens: int
    output_tokens: int
    cost: float | None = None
    currency: str | None = None


class TestRun(ResultModel):
    """One run of a case with a model."""

    __test__ = False

    passed: bool
    score: float = Field(description="The part of the assertions that hold, by their weights.", ge=0, le=1)
    response: str | None = Field(None, description="The last text of the model.")
    error: str | None = Field(None, description="Why the run failed; assertions were not checked then.")
    duration_ms: int
    tools_used: list[str] | None = Field(None, description="The names that the model called, in their order.")
    assertions_passed: int | None = None
    assertions_total: int | None = None
    assertion_details: list[AssertionResult] | None = None
    calls: list[ToolCallRecord] = Field(default_factory=list)
    iterations: int = Field(0, description="Requests to the model.")
    stopped: Stopped | None = Field(
        None,
        description="`done`: the model made no further call; `iterations`: the most iterations were reached; "
        "`length`, `refusal` and `time` are errors.",
    )
    usage: TestUsage | None = None


class TestedCase(ResultModel):
    """The case of a result."""

    name: str
    input: str


class TestSubject(ResultModel):
    """What a result is about."""

    __test__ = False

    test_case: TestedCase
    model: str


# In this order the JSON begins with the members of TestSubject.
class TestResult(TestRun, TestSubject):
    """The result of a case with a model. Of several repetitions, it has the members of the first one that
    failed, or else of the first; their mean score; and the sums of their durations and tokens.
    """

    repeat: int = Field(1, description="How often the case was run.")
    pass_rate: float = Field(description="The part of the repetitions that passed.", ge=0, le=1)
    repetitions: list[TestRun] | None = Field(None, description="Each run, where there are several.")
    warnings: list[str] = Field(
        default_factory=list, description="Plugins, toolsets and tools that were skipped."
    )


@dataclass(frozen=True, slots=True)
class ResultMasking:
    """Replaces secrets in results: what the process knows as such, and the keys of the request."""

    masker: Masker
    keys: Sequence[str] = field(default=(), repr=False)

    def text(self, text: str) -> str:
        """Return a text with secrets as `***`, which can be stored."""
        return remove_unstorable(mask_values(self.masker.mask(text), self.keys))

    def value(self, value: Any) -> Any:
        """Return a JSON value with the secrets in its texts as `***`."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.value(member) for name, member in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class ResultWriter:
    """Writes the results of one request."""

    masking: ResultMasking
    prices: Mapping[str, TokenPrice]
    currency: str

    def run(
        self, outcome: RunOutcome, case: PlannedCase, target: ModelTarget, offered: OfferedTools
    ) -> TestRun:
        """Return one run with the outcomes of its assertions. It may take long: use a thread."""
        calls = [self._call(call, offered) for call in outcome.calls]
        members: dict[str, Any] = {
            "duration_ms": round(outcome.seconds * 1000),
            "calls": calls,
            "iterations": outcome.iterations,
            "stopped": outcome.stopped,
            "usage": self._usage(outcome, target),
        }
        if outcome.error:
            text = {"response": self._response(outcome.text)} if outcome.text else {}
            error = preview(self.masking.text(outcome.error), limit=MAX_ERROR_BYTES)
            return TestRun(passed=False, score=0.0, error=error, **text, **members)
        asserted = AssertedRun(
            outcome.text,
            [_asserted(call, shown, offered) for call, shown in zip(outcome.calls, calls, strict=True)],
            outcome.stopped or "",
            outcome.usage.total,
            members["duration_ms"],
            self.masking.text,
        )
        outcomes = check_assertions(asserted, case.assertions)
        score = score_of(outcomes)
        held = sum(one.passed for one in outcomes)
        return TestRun(
            passed=held == len(outcomes) if case.min_score is None else score >= case.min_score,
            score=score,
            response=self._response(outcome.text),
            tools_used=[call.name for call in calls],
            assertions_passed=held,
            assertions_total=len(outcomes),
            assertion_details=[
                AssertionResult(
                    type=one.assertion.type,
                    passed=one.passed,
                    message=self.masking.text(one.message),
                    weight=one.assertion.weight,
                    description=one.assertion.description or None,
                )
                for one in outcomes
            ],
            **members,
        )

    def failed_run(self, error: str) -> TestRun:
        """Return a run that failed before it began, or in a way that nobody expected."""
        return TestRun(passed=False, score=0.0, error=self.masking.text(error), duration_ms=0)

    def result(
        self, case: PlannedCase, target: ModelTarget, runs: Sequence[TestRun], warnings: Iterable[str]
    ) -> TestResult:
        """Return the result of the repetitions of a case with a model."""
        shown = next((run for run in runs if not run.passed), runs[0])
        rate = sum(run.passed for run in runs) / len(runs)
        members = {name: getattr(shown, name) for name in TestRun.model_fields}
        members |= {
            "passed": rate >= case.pass_rate,
            "score": sum(run.score for run in runs) / len(runs),
            "duration_ms": sum(run.duration_ms for run in runs),
            "usage": total_usage(run.usage for run in runs),
        }
        return TestResult(
            **members,
            test_case=TestedCase(
                name=self.masking.text(case.name), input=preview(self.masking.text(case.input), limit=10_000)
            ),
            model=target.label,
            repeat=len(runs),
            pass_rate=rate,
            repetitions=list(runs) if len(runs) > 1 else None,
            warnings=[self.masking.text(one) for one in warnings],
        )

    def _response(self, text: str) -> str:
        return preview(self.masking.text(text), limit=MAX_RESPONSE_BYTES)

    def _usage(self, outcome: RunOutcome, target: ModelTarget) -> TestUsage:
        used = outcome.usage
        price = self.prices.get(target.label) or self.prices.get(target.model)
        if price is None:
            return TestUsage(input_tokens=used.input, output_tokens=used.output)
        cost = round((used.input * price.input + used.output * price.output) / _MILLION, _DIGITS)
        return TestUsage(
            input_tokens=used.input, output_tokens=used.output, cost=cost, currency=self.currency
        )

    def _call(self, call: MadeCall, offered: OfferedTools) -> ToolCallRecord:
        members: dict[str, Any] = {"iteration": call.iteration, "name": self.masking.text(call.name[:200])}
        members["arguments"] = self._arguments(call, offered)
        answer = call.answer
        if answer is None:
            return ToolCallRecord(outcome="not_made", **members)
        result = answer.result
        outcome: Literal["ok", "error", "skipped"] = "error" if result.is_error else "ok"
        if answer.duplicate_of is not None and answer.status is None:
            outcome = "skipped"
        return ToolCallRecord(
            outcome=outcome,
            tool=answer.tool or None,
            status=answer.status,
            call_id=result.call_id or None,
            preview=preview(self.masking.text(result.text)),
            **members,
        )

    def _arguments(self, call: MadeCall, offered: OfferedTools) -> Any:
        """Return the arguments of a call as they are shown."""
        if isinstance(call.arguments, ArgumentError) or not isinstance(call.arguments, dict):
            return None
        tool = offered.named(call.answer.tool if call.answer is not None else call.name)
        inputs = {} if tool is None else tool.inputs
        masked = self.masking.value(masked_arguments(call.arguments, inputs, self.masking.masker))
        try:
            content = exact_json.dumps(masked)
        except orjson.JSONEncodeError:
            return None
        if len(content) > MAX_ARGUMENTS_BYTES:
            return preview(content)
        return orjson.loads(content)


def total_usage(usages: Iterable[TestUsage | None]) -> TestUsage | None:
    """Return the sum of what runs took; None where none of them has asked a model."""
    found = [usage for usage in usages if usage is not None]
    if not found:
        return None
    costs = [usage.cost for usage in found if usage.cost is not None]
    return TestUsage(
        input_tokens=sum(usage.input_tokens for usage in found),
        output_tokens=sum(usage.output_tokens for usage in found),
        cost=round(sum(costs), _DIGITS) if costs else None,
        currency=next((usage.currency for usage in found if usage.currency is not None), None),
    )


def _asserted(call: MadeCall, shown: ToolCallRecord, offered: OfferedTools) -> AssertedCall:
    names = {call.name}
    if call.answer is not None and call.answer.tool:
        names |= {call.answer.tool, *offered.names_of(call.answer.tool)}
    arguments = None if isinstance(call.arguments, ArgumentError) else call.arguments
    return AssertedCall(frozenset(names), arguments, shown.arguments, shown.outcome == "error")
