"""The calls of one turn: duplicates, approval, limits, and an answer for each."""

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from concurrent.futures import Executor
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from utcp_gateway_client.gateway import AsyncGateway
from utcp_gateway_client.loop.events import ApprovalRequired, CallFinished, CallRecord, CallStarted, Event
from utcp_gateway_client.loop.gateways import MAX_CALLS, RemoteAnswer, run_remote, timed_out
from utcp_gateway_client.loop.limits import Hooks, Limits
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, ToolCall
from utcp_gateway_client.loop.sources import OfferedTools, run_local
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
        self._taking = asyncio.Lock()

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
        remote: dict[AsyncGateway, list[int]] = {}
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
                remote.setdefault(client, []).append(number)
        for client, numbers in remote.items():
            work += [
                partial(turn.remote, client, group, calls)
                for group in _groups(numbers, calls, min(self.limits.parallel_calls, MAX_CALLS))
            ]
        await _together(work)
        for number, first in turn.repeats.items():
            call = calls[number]
            tool = self.offered.local.get(call.name)
            same = tool is None or tool.read_only or turn.answers[first] is _DENIED
            await turn.finish(number, call, turn.answers[first] if same else _DUPLICATE)
        # They came in by the order of completion.
        self.records += [turn.records[number] for number in range(len(calls))]
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

    def seconds_for(self, tool: AnyTool | None = None) -> float:
        """Return how long a call of a tool may take, or the calls of one request to a gateway."""
        own = self.limits.call_seconds if tool is None else tool.timeout_seconds
        limit = self.limits.call_seconds if own is None else min(own, self.limits.call_seconds)
        remaining = self.deadline - asyncio.get_running_loop().time()
        return max(0.0, min(limit, remaining))

    @asynccontextmanager
    async def permits(self, number: int = 1) -> AsyncGenerator[None]:
        """Bound the calls that run at once, of which there are `number` in this context."""
        taken = 0
        try:
            # One takes all of its permits before the next: two with a part of theirs would wait for each
            # other.
            async with self._taking:
                while taken < number:
                    await self._permits.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._permits.release()

    async def decide(self, waiting: RemoteAnswer) -> CallAnswer | None:
        """Return what the hook says about an approval, None for the text of the gateway."""
        if self.hooks.approval_required is None or waiting.pending is None:
            return None
        try:
            async with asyncio.timeout_at(self.deadline) as limit:
                said = await _awaited(self.hooks.approval_required(waiting.pending))
        except TimeoutError:
            if not limit.expired():
                raise
            return None
        if said is None or said is waiting.answer:
            return None
        return said if isinstance(said, CallAnswer) else CallAnswer(str(said))


class _Turn:
    """The answers of one turn, as they come in."""

    def __init__(self, executor: CallExecutor, iteration: int) -> None:
        self._executor = executor
        self._iteration = iteration
        self.answers: dict[int, CallAnswer] = {}
        self.records: dict[int, CallRecord] = {}
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
                answer = timed_out(seconds)
            await self.finish(number, call, answer, started)

    async def remote(self, client: AsyncGateway, numbers: Sequence[int], calls: Sequence[ToolCall]) -> None:
        """Run different calls of one gateway, and those that are identical to one of them, as one request."""
        executor = self._executor
        chosen = [calls[number] for number in numbers]
        waiting: dict[str, list[RemoteAnswer]] = {}
        async with executor.permits(len({_key(call) for call in chosen})):
            started = [await self._start(call) for call in chosen]

            async def finish(index: int, answer: CallAnswer) -> None:
                await self.finish(numbers[index], chosen[index], answer, started[index])

            found = run_remote(client, chosen, executor.model, seconds=executor.seconds_for())
            async with aclosing(found) as answers:
                async for each in answers:
                    if each.pending is None:
                        await finish(each.index, each.answer)
                        continue
                    waiting.setdefault(each.pending.id, []).append(each)
                    executor.emit(ApprovalRequired(self._iteration, each.pending))

        async def decide(approvals: Sequence[RemoteAnswer]) -> None:
            answer = await executor.decide(approvals[0])
            for each in approvals:
                await finish(each.index, answer or each.answer)

        # The time of a person is not that of a call, and takes no permit.
        await _together([partial(decide, approvals) for approvals in waiting.values()])

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
        self.records[number] = record
        # Neither arguments nor results: they may hold what is not meant for a log.
        _log.info(
            "provider=%s model=%s iteration=%d tool=%s seconds=%.3f error=%s",
            executor.model.provider, executor.model.name, self._iteration, preview(call.name, limit=64),
            seconds, answer.is_error,
        )  # fmt: skip
        if executor.hooks.after_call is not None:
            await _awaited(executor.hooks.after_call(call, answer))
        executor.emit(CallFinished(record))


def _groups(numbers: Sequence[int], calls: Sequence[ToolCall], size: int) -> list[list[int]]:
    """Return groups with at most `size` different calls. Identical ones are in one group: the gateway decides
    which of them run.
    """
    keys = {number: _key(calls[number]) for number in numbers}
    different = list(dict.fromkeys(keys.values()))
    parts = [set(different[start : start + size]) for start in range(0, len(different), size)]
    return [[number for number in numbers if keys[number] in part] for part in parts]


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
