"""One run of a case with a model: ask it, make the calls of its response, and ask again until it makes none.

The rules are those of the loop in the client library (decisions 87 and 95):

calls of one response    side by side, answered in their order, each id exactly once
identical calls          a read-only tool runs once, of others the first runs
unknown tools            an error result with the nearest names
a response that was cut  its calls are not made, and the run ends
the last iteration       its calls are made; the run ends with the text so far
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import structlog

from app.agents.tests.definition import PlannedCase
from app.agents.tests.exchange import ModelExchange, ModelFailed
from app.agents.tests.model_apis import (
    ModelMessage,
    Question,
    TokenUsage,
    complete_message,
    read_message,
    request_body,
    user_message,
)
from app.agents.tests.models import ModelTarget
from app.agents.tests.offered_tools import OfferedTools
from app.agents.tool_calls.answers import result_messages
from app.agents.tool_calls.model import CallAnswer, Intake
from app.agents.tool_calls.readers import read_intake
from app.agents.tool_calls.runner import BatchOptions, CallBatch
from app.calls.options import CallOptions
from app.core.errors import GatewayError
from app.core.uuid7 import uuid7
from app.services import Services

Stopped = Literal["done", "iterations", "length", "refusal", "time"]
MAX_CALLS: Final = 128
"""Calls of one response."""
ROUTE: Final = "/agent-tests"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all runs of a request share. `deadline` is a time of the event loop; the headers are those of the
    request, for the detection of loops and for traces.
    """

    services: Services = field(repr=False)
    exchange: ModelExchange
    deadline: float
    cdn_loop: bytes = b""
    trace_headers: Mapping[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call of a run, and what became of it; `answer` is None where it was not made."""

    iteration: int
    name: str
    arguments: Any = field(repr=False)
    answer: CallAnswer | None = field(default=None, repr=False)


@dataclass(slots=True)
class RunOutcome:
    """How a run has ended. `error` is a sentence where it failed, and empty elsewhere."""

    text: str = ""
    stopped: Stopped | None = None
    error: str = ""
    iterations: int = 0
    usage: TokenUsage = field(default_factory=TokenUsage)
    calls: list[MadeCall] = field(default_factory=list)
    seconds: float = 0.0


async def run_case(
    case: PlannedCase, target: ModelTarget, offered: OfferedTools, context: RunContext
) -> RunOutcome:
    """Run a case once with a model, and return how that has ended. Raise what is no error of a model or a
    tool.
    """
    outcome = RunOutcome()
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout_at(context.deadline) as limit:
            conversation = _Conversation(case, target, offered, context, outcome)
            outcome.stopped = await conversation.run()
    except ModelFailed as failed:
        outcome.error = str(failed)
    except TimeoutError:
        if not limit.expired():
            raise
        outcome.stopped = "time"
    outcome.seconds = loop.time() - began
    outcome.error = outcome.error or _ERRORS.get(outcome.stopped or "", "").format(tokens=case.max_tokens)
    return outcome


_ERRORS: Final[Mapping[str, str]] = {
    "length": "The output of the model was cut at the limit of {tokens} tokens, or at that of its context.",
    "refusal": "The model refused to respond, or its response was filtered.",
    "time": "The time of the test was over before the run has ended.",
}


class _Conversation:
    def __init__(
        self,
        case: PlannedCase,
        target: ModelTarget,
        offered: OfferedTools,
        context: RunContext,
        outcome: RunOutcome,
    ) -> None:
        self._case = case
        self._target = target
        self._offered = offered
        self._context = context
        self._outcome = outcome
        self._history: list[Any] = [user_message(target.dialect, case.input)]
        self._tools: Any = []
        self._system = case.prompt
        # Its own, so that each conversation begins with the first responses of a recording.
        self._run = f"agent-test-{uuid7().hex}"

    async def run(self) -> Stopped:
        """Ask until the model makes no call, or a limit is reached."""
        outcome = self._outcome
        await self._export()
        while outcome.iterations < self._case.max_iterations:
            message, intake = await self._ask()
            self._history += intake.turn
            if message.finish in ("length", "refusal"):
                outcome.calls += [
                    MadeCall(outcome.iterations, call.name, call.arguments) for call in intake.calls
                ]
                return "length" if message.finish == "length" else "refusal"
            if intake.calls:
                self._history += result_messages(intake.dialect, await self._answers(intake))
            elif message.finish != "pause":
                return "done"
        return "iterations"

    async def _export(self) -> None:
        tools = await self._offered.tools()
        if not tools:
            return
        export = await self._context.services.exporter.export(tools, self._target.dialect)
        left_out = [one["name"] for one in export.report["tools"] if one["grade"] == "unsupported"]
        if left_out:
            names = ", ".join(left_out)
            raise ModelFailed(f"Tools cannot be exported in the dialect {self._target.dialect}: {names}.")
        if export.prompt is None:
            self._tools = export.tools
        else:
            self._system = "\n\n".join(text for text in (self._system, export.prompt) if text)

    async def _ask(self) -> tuple[ModelMessage, Intake]:
        """Ask the model; return what it says, and its calls."""
        case, target, outcome = self._case, self._target, self._outcome
        question = Question(
            tuple(self._history), self._tools, self._system, case.max_tokens, case.temperature
        )
        loop = asyncio.get_running_loop()
        began = loop.time()
        value = await self._context.exchange.send(
            target, request_body(target, question), deadline=self._context.deadline
        )
        outcome.iterations += 1
        complete_message(target.dialect, value, turn=outcome.iterations)
        message = read_message(target.dialect, value)
        try:
            limit = self._context.services.settings.max_argument_values
            # A response without a text has no call in it.
            is_empty = target.dialect == "json-prompt" and not message.text
            intake = (
                Intake("json-prompt", ()) if is_empty else read_intake(value, target.dialect, limit=limit)
            )
        except GatewayError as error:
            where = "".join(f" See {one.pointer}: {one.detail}" for one in error.errors[:1])
            raise ModelFailed(f"The response of the model's API cannot be read.{where}") from None
        if len(intake.calls) > MAX_CALLS:
            raise ModelFailed(f"The model has made {len(intake.calls)} calls in one response.")
        outcome.usage += message.usage
        outcome.text = message.text or outcome.text
        # Neither texts nor arguments: they may hold what is not meant for a log.
        _log.info(
            "agent test: model responded",
            model=target.model,
            dialect=target.dialect,
            iteration=outcome.iterations,
            calls=len(intake.calls),
            finish=message.finish,
            seconds=round(loop.time() - began, 3),
        )
        return message, intake

    async def _answers(self, intake: Intake) -> Sequence[CallAnswer]:
        """Make the calls of a response, and return their answers, in the order of the calls."""
        context, outcome = self._context, self._outcome
        settings = context.services.settings
        batch = CallBatch(
            intake.calls,
            self._offered,
            context.services,
            BatchOptions(
                ROUTE,
                lambda _: self._offered.budget,
                deadline=context.deadline,
                call=CallOptions(
                    cdn_loop=context.cdn_loop, trace_headers=context.trace_headers, recording_run=self._run
                ),
                form=self._target.dialect,
                interface="agent-test",
                meta_tools=False,
            ),
            parallel=settings.tool_calls_parallel,
        )
        answers: dict[int, CallAnswer] = {}
        try:
            async with contextlib.aclosing(batch.as_completed()) as completed:
                async for answer in completed:
                    answers[answer.call.index] = answer
        finally:
            # Also where the time is over meanwhile: calls that have been made are in the result.
            outcome.calls += [
                MadeCall(outcome.iterations, call.name, call.arguments, answers.get(call.index))
                for call in intake.calls
            ]
        return [answers[call.index] for call in intake.calls]
