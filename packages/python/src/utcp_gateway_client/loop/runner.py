"""The loop over a model: ask it, make the calls of its response, and ask again until it makes none."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

from utcp_gateway_client.loop.calls import CUT, CallExecutor
from utcp_gateway_client.loop.events import (
    Event,
    MessagesAdded,
    ModelResponded,
    RunFinished,
    RunResult,
    Stopped,
    TextDelta,
)
from utcp_gateway_client.loop.gateways import GatewayConnections
from utcp_gateway_client.loop.limits import Hooks, Limits
from utcp_gateway_client.loop.model import (
    CallAnswer,
    ChatModel,
    Message,
    ModelRequest,
    ModelTurn,
    Respond,
    Usage,
)
from utcp_gateway_client.loop.models import model_named
from utcp_gateway_client.loop.sources import OfferedTools, Tools, offered_tools

_log = logging.getLogger(__name__)
_DEFAULT_LIMITS = Limits()
_NO_HOOKS = Hooks()


async def run(
    prompt: str | None,
    *,
    model: ChatModel | str,
    tools: Tools = (),
    system: str | None = None,
    history: Sequence[Message] = (),
    limits: Limits = _DEFAULT_LIMITS,
    hooks: Hooks = _NO_HOOKS,
) -> RunResult:
    """Ask a model, make its calls of tools, and return how that has ended.

    `tools` are functions, a ToolCollection, a Gateway or AsyncGateway, GatewayTools, or several of these.
    `history` is what an earlier run has returned; without a prompt, the model is asked to continue it.
    Cancelling the run cancels its calls. Raises ValueError without prompt and history, GatewayError where a
    gateway does not say which tools it has, what the provider's SDK raises for requests that fail, and what
    hooks raise; what tools raise is a result for the model.
    """
    return await _run(prompt, model, tools, system, history, limits, hooks, None)


def run_sync(
    prompt: str | None,
    *,
    model: ChatModel | str,
    tools: Tools = (),
    system: str | None = None,
    history: Sequence[Message] = (),
    limits: Limits = _DEFAULT_LIMITS,
    hooks: Hooks = _NO_HOOKS,
) -> RunResult:
    """Do the same in code that is not async. A Gateway is used by an async client with the same settings.

    Raises RuntimeError where an event loop runs.
    """
    return asyncio.run(
        run(prompt, model=model, tools=tools, system=system, history=history, limits=limits, hooks=hooks)
    )


async def stream(
    prompt: str | None,
    *,
    model: ChatModel | str,
    tools: Tools = (),
    system: str | None = None,
    history: Sequence[Message] = (),
    limits: Limits = _DEFAULT_LIMITS,
    hooks: Hooks = _NO_HOOKS,
) -> AsyncIterator[Event]:
    """Do the same, and yield what happens, with the model's text as it is written; RunFinished is the last.

    Closing the iterator cancels the run.
    """
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    running = asyncio.create_task(
        _run(prompt, model, tools, system, history, limits, hooks, events.put_nowait)
    )
    running.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while (event := await events.get()) is not None:
            yield event
        yield RunFinished(await running)
    finally:
        if not running.done():
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


async def _run(
    prompt: str | None,
    model: ChatModel | str,
    tools: Tools,
    system: str | None,
    history: Sequence[Message],
    limits: Limits,
    hooks: Hooks,
    emit: Callable[[Event], None] | None,
) -> RunResult:
    if prompt is None and not history:
        raise ValueError("Give a prompt or a history.")
    chosen = model_named(model) if isinstance(model, str) else model
    asked = [] if prompt is None else [chosen.user_message(prompt)]
    deadline = asyncio.get_running_loop().time() + limits.run_seconds
    # A thread whose call has timed out cannot be ended, and must not keep others waiting.
    threads = ThreadPoolExecutor(limits.parallel_calls * limits.max_iterations, "utcp-gateway-tool")
    async with AsyncExitStack() as stack:
        stack.callback(threads.shutdown, wait=False, cancel_futures=True)
        try:
            async with asyncio.timeout_at(deadline) as limit:
                offered = await offered_tools(tools, GatewayConnections(stack), prompt=prompt, model=chosen)
        except TimeoutError:
            if not limit.expired():
                raise
            return RunResult("", "time", [*history, *asked])
        executor = CallExecutor(
            chosen, offered, limits, hooks, deadline, threads, emit or (lambda _event: None)
        )
        conversation = _Conversation(chosen, offered, system, executor, emit, list(history))
        conversation.add(asked)
        respond = await stack.enter_async_context(chosen.connect())
        return await conversation.run(respond)


@dataclass
class _Conversation:
    model: ChatModel
    offered: OfferedTools
    system: str | None
    executor: CallExecutor
    emit: Callable[[Event], None] | None
    history: list[Message]
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    reason: str | None = None

    def add(self, messages: Sequence[Message]) -> None:
        """Append to the history."""
        self.history += messages
        if self.emit is not None and messages:
            self.emit(MessagesAdded(messages))

    async def run(self, respond: Respond) -> RunResult:
        """Ask until the model makes no call, or a limit is reached."""
        while self.iterations < self.executor.limits.max_iterations:
            turn = await self._turn(respond)
            if turn is None:
                return self._result("time")
            self.add(turn.messages)
            if turn.calls:
                self.add(self.model.result_messages(turn.calls, await self._answers(turn)))
            if turn.finish in ("length", "refusal"):
                return self._result("length" if turn.finish == "length" else "refusal")
            if not turn.calls and turn.finish != "pause":
                return self._result("done")
        return self._result("iterations")

    async def _answers(self, turn: ModelTurn) -> list[CallAnswer]:
        if turn.finish in ("length", "refusal"):
            # The last call may be incomplete. All are answered, so that the history can be continued.
            return [CUT] * len(turn.calls)
        return await self.executor.answer(turn.calls, self.iterations)

    async def _turn(self, respond: Respond) -> ModelTurn | None:
        """Ask the model; return None where the time of the run is over."""
        on_text = None if self.emit is None else self._emit_text
        request = ModelRequest(tuple(self.history), self.offered.definitions, self.system, on_text)
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(self.executor.deadline) as limit:
                turn = await respond(request)
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        self.iterations += 1
        seconds = asyncio.get_running_loop().time() - started
        _log.info(
            "provider=%s model=%s iteration=%d calls=%d seconds=%.3f",
            self.model.provider, self.model.name, self.iterations, len(turn.calls), seconds,
        )  # fmt: skip
        self.text = turn.text or self.text
        self.usage += turn.usage
        self.reason = turn.reason
        if self.emit is not None:
            self.emit(ModelResponded(self.iterations, turn.text, turn.calls, turn.usage))
        return turn

    def _emit_text(self, text: str) -> None:
        if self.emit is not None:
            self.emit(TextDelta(text))

    def _result(self, stopped: Stopped) -> RunResult:
        return RunResult(
            self.text, stopped, self.history, self.iterations, self.executor.records, self.usage, self.reason
        )
