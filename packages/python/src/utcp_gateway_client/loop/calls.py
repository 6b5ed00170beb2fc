"""The calls of one turn: duplicates, approval, limits, and an answer for each."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from utcp_gateway_client.loop.events import CallFinished, CallRecord, CallStarted, Event
from utcp_gateway_client.loop.limits import Hooks, Limits
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, ToolCall
from utcp_gateway_client.loop.sources import GatewayClient, OfferedTools, run_local, run_remote
from utcp_gateway_client.tools import AnyTool, preview

_log = logging.getLogger(__name__)
_DUPLICATE: Final = CallAnswer("Duplicate tool call skipped.")
_DENIED: Final = CallAnswer("The call was not approved.", is_error=True)
CUT: Final = CallAnswer("The response was cut off; no call of it was made.", is_error=True)


@dataclass
class CallExecutor:
    """Answers the calls of the turns of one run. `deadline` is a time of the event loop."""

    model: ChatModel
    offered: OfferedTools
    limits: Limits
    hooks: Hooks
    deadline: float
    threads: Executor
    emit: Callable[[Event], None]
    records: list[CallRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._permits = asyncio.Semaphore(self.limits.parallel_calls)

    async def answer(self, calls: Sequence[ToolCall], iteration: int) -> list[CallAnswer]:
        """Return the answer of each call, in their order. Raises what hooks raise.

        Identical calls of a local tool run once: the result answers all where the tool is read-only, else the
        others are skipped. A gateway decides that for its own tools.
        """
        turn = _Turn(self, iteration)
        firsts: dict[str, int] = {}
        for number, call in enumerate(calls):
            first = firsts.setdefault(_key(call), number)
            if first != number and call.name not in self.offered.remote:
                turn.repeats[number] = first
        approved: dict[str, bool] = {}
        groups: dict[int, list[int]] = {}
        clients: dict[int, GatewayClient] = {}
        work: list[Callable[[], Coroutine[Any, Any, None]]] = []
        for number, call in enumerate(calls):
            if number in turn.repeats:
                continue
            local, client = self.offered.local.get(call.name), self.offered.remote.get(call.name)
            if local is None and client is None:
                await turn.finish(number, call, self.offered.unknown(call.name))
                continue
            key = _key(call)
            if key not in approved:
                approved[key] = await self._approved(call)
            if not approved[key]:
                await turn.finish(number, call, _DENIED)
            elif local is not None:
                work.append(partial(turn.local, number, call, local))
            elif client is not None:
                clients[id(client)] = client
                groups.setdefault(id(client), []).append(number)
        work += [partial(turn.remote, clients[each], numbers, calls) for each, numbers in groups.items()]
        await _together(work)
        for number, first in turn.repeats.items():
            call = calls[number]
            tool = self.offered.local.get(call.name)
            same = tool is None or tool.read_only or turn.answers[first] is _DENIED
            await turn.finish(number, call, turn.answers[first] if same else _DUPLICATE)
        return [turn.answers[number] for number in range(len(calls))]

    async def _approved(self, call: ToolCall) -> bool:
        if self.hooks.approve is None:
            return True
        try:
            async with asyncio.timeout_at(self.deadline) as limit:
                return bool(await _awaited(self.hooks.approve(call)))
        except TimeoutError:
            if not limit.expired():
                raise
            return False

    def seconds_for(self, tool: AnyTool | None, waves: int = 1) -> float:
        """Return how long a call of a tool may take, or `waves` calls of a gateway one after another."""
        own = self.limits.call_seconds if tool is None else tool.timeout_seconds
        limit = self.limits.call_seconds if own is None else min(own, self.limits.call_seconds)
        remaining = self.deadline - asyncio.get_running_loop().time()
        return max(0.0, min(limit * waves, remaining))

    def permits(self) -> asyncio.Semaphore:
        """Return what bounds the calls that run at once."""
        return self._permits


class _Turn:
    """The answers of one turn, as they come in."""

    def __init__(self, executor: CallExecutor, iteration: int) -> None:
        self._executor = executor
        self._iteration = iteration
        self.answers: dict[int, CallAnswer] = {}
        self.repeats: dict[int, int] = {}

    async def local(self, number: int, call: ToolCall, tool: AnyTool) -> None:
        executor = self._executor
        async with executor.permits():
            started = await self._start(call)
            seconds = executor.seconds_for(tool)
            try:
                async with asyncio.timeout(seconds):
                    answer = await run_local(tool, call, executor.threads)
            except TimeoutError:
                answer = _timed_out(seconds)
            await self.finish(number, call, answer, started)

    async def remote(self, client: GatewayClient, numbers: Sequence[int], calls: Sequence[ToolCall]) -> None:
        """Run the calls of one gateway, which bounds how many run at once, as one request."""
        executor = self._executor
        chosen = [calls[number] for number in numbers]
        started = [await self._start(call) for call in chosen]
        waves = -(-len(chosen) // executor.limits.parallel_calls)
        seconds = executor.seconds_for(None, waves)
        try:
            async with asyncio.timeout(seconds):
                answers = await run_remote(client, chosen, executor.model)
        except TimeoutError:
            answers = [_timed_out(seconds)] * len(chosen)
        for number, call, answer, start in zip(numbers, chosen, answers, started, strict=True):
            await self.finish(number, call, answer, start)

    async def _start(self, call: ToolCall) -> float:
        if self._executor.hooks.before_call is not None:
            await _awaited(self._executor.hooks.before_call(call))
        self._executor.emit(CallStarted(self._iteration, call))
        return asyncio.get_running_loop().time()

    async def finish(
        self, number: int, call: ToolCall, answer: CallAnswer, started: float | None = None
    ) -> None:
        executor = self._executor
        seconds = 0.0 if started is None else asyncio.get_running_loop().time() - started
        self.answers[number] = answer
        record = CallRecord(self._iteration, call, answer.is_error, seconds, preview(answer.text))
        executor.records.append(record)
        # Neither arguments nor results: they may hold what is not meant for a log.
        _log.info(
            "provider=%s model=%s iteration=%d tool=%s seconds=%.3f error=%s",
            executor.model.provider, executor.model.name, self._iteration, preview(call.name, limit=64),
            seconds, answer.is_error,
        )  # fmt: skip
        if executor.hooks.after_call is not None:
            await _awaited(executor.hooks.after_call(call, answer))
        executor.emit(CallFinished(record))


def _timed_out(seconds: float) -> CallAnswer:
    return CallAnswer(f"timed out after {seconds:.3g} s", is_error=True)


def _key(call: ToolCall) -> str:
    """Return the name and the canonical JSON of the arguments, or their text where they are no JSON."""
    value = call.arguments
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except (ValueError, RecursionError):
            return f"{call.name}:{value}"
    return f"{call.name}:{json.dumps({} if value is None else value, sort_keys=True)}"


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _together(work: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run functions at the same time; where one fails, cancel the others and raise its exception."""
    tasks = [asyncio.ensure_future(each()) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
