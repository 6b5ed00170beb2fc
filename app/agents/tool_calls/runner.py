"""Runs the calls of one request side by side, each by the one execution of calls, and answers each id once.

duplicates of a read-only tool   one run, whose result answers all of them
duplicates of other tools        the first runs, the others are skipped and say so
an id that was answered before   not made, and no duplicate of another call
arguments that cannot be read    an error result; the failed call is recorded like any other
"""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from app.agents.tool_calls.model import ArgumentError, CallAnswer, ToolCall
from app.calls import CallRequest, execute
from app.calls.log.entries import Interface
from app.calls.options import CallOptions
from app.calls.results import ModelResult, ResultBudget, error_result, read_result
from app.core import exact_json
from app.core.errors import GatewayError, InvalidArguments, NotFound
from app.formats.dialects.aliases import undo
from app.formats.dialects.dialects import Format, Strict
from app.services import Services
from app.toolsets import AgentTool, AmbiguousTool, CollectionOptions, ToolCollection, with_names_here
from app.toolsets.meta_tools import META_TOOL_NAMES, call_meta_tool, find_called_tool, meta_tool

SKIPPED: Final = "Duplicate tool call skipped."
MAX_SECONDS: Final = 120.0
"""Seconds that one call may take, where the limits of its tool allow more."""
MAX_MEDIA_BYTES: Final = 16 << 20
"""Bytes of images and other binary content that the results of one request have together."""
_MEDIA_LEFT_OUT: Final = (
    "Its binary content was left out: the results of this message have too much of it together. Call the "
    "tool in a message of its own."
)
_ID_USED: Final = "The id of this call is that of an earlier call of the same message. It was not made."
_MAX_OUTLINE: Final = 2_000


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What a request says about all of its calls.

    `deadline` is the `loop.time()` until which the client waits, None without one. The idempotency key in
    `call` is the client's; each call has its own, made of it and of the call's id.
    """

    route: str
    budget: Callable[[CollectionOptions], ResultBudget] = lambda _: ResultBudget()
    """Returns the budget of a result by what the owner of the toolset of its tool has set."""
    deadline: float | None = None
    call: CallOptions = field(default_factory=CallOptions)
    form: Format | None = None
    """The format that the tools were exported in; None where the calls are of the tools as they are."""
    strict: Strict = "auto"
    """What the export was asked for."""
    interface: Interface = "tool-calls"
    """The interface in the records of the calls."""
    meta_tools: bool = True
    """Whether the tools that find and call others, and read the rest of a cut result, may be called, too."""


class CallBatch:
    """The calls of one request, at most `parallel` of which run at a time."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        collection: ToolCollection,
        services: Services,
        options: BatchOptions,
        *,
        parallel: int,
    ) -> None:
        self._calls = calls
        self._collection = collection
        self._services = services
        self._options = options
        self._slots = asyncio.Semaphore(parallel)
        self._tools: dict[int, AgentTool | None] = {}
        self._called: dict[int, AgentTool | None] = {}
        self._repeated: set[int] = set()
        self._first: dict[int, int] = {}
        self._media_left = MAX_MEDIA_BYTES
        self._started: dict[int, asyncio.Task[CallAnswer]] = {}

    async def run(self) -> list[CallAnswer]:
        """Return the answers of all calls, in their order; where this is cancelled, so are the calls."""
        if len(self._calls) == 1:
            await self._prepare()
            return [await self._answer(self._calls[0])]
        async with contextlib.aclosing(self.as_completed()) as completed:
            answers = [answer async for answer in completed]
        return sorted(answers, key=lambda answer: answer.call.index)

    async def as_completed(self) -> AsyncGenerator[CallAnswer, None]:
        """Yield each answer once it is there; calls that still run when this is closed are cancelled."""
        await self._prepare()
        loop = asyncio.get_running_loop()
        for call in self._calls:
            self._started[call.index] = loop.create_task(self._answer(call))
        pending: set[asyncio.Task[CallAnswer]] = set(self._started.values())
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for answer in sorted((task.result() for task in done), key=lambda one: one.call.index):
                    yield answer
        finally:
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)

    async def _prepare(self) -> None:
        """Find the tools of the calls, and which of them are identical: same tool, same arguments."""
        seen: dict[tuple[object, ...], int] = {}
        ids: set[str | int] = set()
        for call in self._calls:
            tool = self._tools[call.index] = await self._find_exported(call.name)
            self._called[call.index] = tool
            if call.has_id and call.id in ids:
                self._repeated.add(call.index)
                continue
            if call.has_id:
                ids.add(call.id)
            if isinstance(call.arguments, ArgumentError):
                continue
            form = self._options.form
            exported = meta_tool(call.name) if tool is None and self._is_meta(call.name) else tool
            if exported is not None and form is not None:
                record = self._services.exporter.record(exported, form, strict=self._options.strict)
                call.arguments = undo(call.arguments, record)
            arguments = call.arguments
            view: tuple[object, object] = ((), None)
            if tool is None and self._options.meta_tools:
                found = await find_called_tool(call.name, arguments, self._collection)
                if found is not None:
                    tool, inner = found
                    arguments, view = inner.arguments, (tuple(inner.fields), inner.result_format)
                    self._called[call.index] = tool
            if len(self._calls) == 1:
                continue
            # By its name here: another one may have other presets.
            name = call.name if tool is None else tool.name
            try:
                canonical = exact_json.dumps(arguments, orjson.OPT_SORT_KEYS)
            except orjson.JSONEncodeError:
                # They are nested too deeply, which the call itself reports.
                continue
            key: tuple[object, ...] = (name, canonical)
            if tool is None or tool.read_only:
                # A result that is asked for in two forms is two results; an effect is one, whatever its form.
                key = (*key, view)
            self._first[call.index] = seen.setdefault(key, call.index)

    async def _find_exported(self, name: str) -> AgentTool | None:
        """Return a tool by the name that it was exported by, or by any name that it has here."""
        form = self._options.form
        if self._is_meta(name):
            # As over MCP: no provider takes the calls of a meta-tool by a tool of its name.
            return None
        for one in (name,) if form is None else self._services.exporter.list_original_names(name, form):
            tool = await self._find(one)
            if tool is not None:
                return tool
        return None

    def _is_meta(self, name: str) -> bool:
        return self._options.meta_tools and name in META_TOOL_NAMES

    async def _find(self, name: str) -> AgentTool | None:
        """Return a tool by its name, None where the client may call no single one of this name."""
        try:
            return await self._collection.get(name)
        except (NotFound, AmbiguousTool):
            return None

    async def _answer(self, call: ToolCall) -> CallAnswer:
        tool = self._tools[call.index]
        answer = await self._answer_once(call, tool)
        called = self._called[call.index]
        answer.tool = "" if called is None else called.tool
        self._bound_media(answer.result)
        if not answer.result.is_error:
            answer.result.add_notes(call.repairs)
        return answer

    def _bound_media(self, result: ModelResult) -> None:
        """Leave out the binary content that is more than all results together may have."""
        size = sum(len(media.data) for media in result.media)
        if size > self._media_left:
            result.media = ()
            result.add_notes([_MEDIA_LEFT_OUT])
        self._media_left -= sum(len(media.data) for media in result.media)

    async def _answer_once(self, call: ToolCall, tool: AgentTool | None) -> CallAnswer:
        if call.index in self._repeated:
            return CallAnswer(call, ModelResult(_ID_USED, is_error=True), repeats=True)
        first = self._first.get(call.index, call.index)
        if first != call.index:
            called = self._called[call.index]
            if called is not None and not called.read_only:
                return CallAnswer(call, ModelResult(SKIPPED), duplicate_of=self._calls[first].id)
            original = await asyncio.shield(self._started[first])
            shared = _shared(original)
            return CallAnswer(call, shared, original.status, duplicate_of=self._calls[first].id)
        async with self._slots:
            return await self._run(call, tool)

    async def _run(self, call: ToolCall, tool: AgentTool | None) -> CallAnswer:
        try:
            if tool is None and self._is_meta(call.name):
                return await self._run_meta_tool(call)
            return await self._execute(call, tool, call.arguments)
        except GatewayError as error:
            named = await self._named(error)
            return CallAnswer(
                call, error_result(named, base_url=self._services.settings.base_url), error.status
            )

    async def _run_meta_tool(self, call: ToolCall) -> CallAnswer:
        if isinstance(call.arguments, ArgumentError):
            raise InvalidArguments(call.arguments.detail)

        async def run(tool: AgentTool, arguments: dict[str, Any], budget: ResultBudget) -> CallAnswer:
            return await self._execute(call, tool, arguments, budget)

        result = await call_meta_tool(
            call.name,
            call.arguments,
            self._collection,
            call=run,
            rests=self._services.stored_rests,
            budget=self._find_budget,
            base_url=self._services.settings.base_url,
            aids=self._services.find_aids,
        )
        if isinstance(result, CallAnswer):
            return result
        failed = (result.error or {}).get("status", 422)
        return CallAnswer(call, result, failed if result.is_error else 200)

    async def _execute(
        self,
        call: ToolCall,
        tool: AgentTool | None,
        arguments: Any,
        budget: ResultBudget | None = None,
    ) -> CallAnswer:
        """Make the call, and return its answer; raise NotFound where the collection has no such tool."""
        options = self._options
        name = call.name if tool is None else tool.name
        target = self._collection.target(name)
        collection = target.through
        now = asyncio.get_running_loop().time()
        latest = now + MAX_SECONDS
        request = CallRequest(
            collection.principal,
            target.tool,
            options.route,
            options.interface,
            toolset=collection.toolset or "",
            presets=target.presets,
            arguments=arguments,
            deadline=latest if options.deadline is None else min(latest, options.deadline),
            options=replace(
                options.call, idempotency_key=_idempotency_key(options.call.idempotency_key, call)
            ),
            argument_repair=collection.options.argument_repair,
            upstream=collection.options.upstream,
        )
        if isinstance(arguments, ArgumentError):
            request.arguments = None
            request.error = InvalidArguments(_with_outline(arguments.detail, tool))
        outcome = await execute(request, self._services.calls)
        if isinstance(outcome.error, NotFound):
            outcome.error = await self._named(outcome.error)
        result = await read_result(
            outcome,
            budget=budget or options.budget(collection.options),
            continuations=self._services.continuations if options.meta_tools else None,
            base_url=self._services.settings.base_url,
        )
        return CallAnswer(call, result, outcome.status)

    def _find_budget(self, tool: AgentTool | None) -> ResultBudget:
        """Return the budget of a result of a tool, and for None that of a rest that is read."""
        collection = self._collection
        through = collection if tool is None else collection.target(tool.name).through
        return self._options.budget(through.options)

    async def _named(self, error: GatewayError) -> GatewayError:
        """Return an error about an unknown tool with the nearest names as the model knows them."""
        return await with_names_here(error, self._collection) if isinstance(error, NotFound) else error


def _shared(answer: CallAnswer) -> ModelResult:
    """Return the result of a call for an identical one, without the repairs of the first one's arguments."""
    result = answer.result
    shared = replace(result, text=result.content or result.text, content="", notes=())
    shared.add_notes([note for note in result.notes if note not in answer.call.repairs])
    return shared


def _with_outline(detail: str, tool: AgentTool | None) -> str:
    """Return what is wrong with arguments, and the schema that they have to fit, bounded in size."""
    if tool is None:
        return detail
    schema = tool.inputs_json.decode()
    outline = schema if len(schema) <= _MAX_OUTLINE else f"{schema[:_MAX_OUTLINE]}..."
    return f"{detail} The arguments of {tool.name} have this schema: {outline}"


def _idempotency_key(key: str | None, call: ToolCall) -> str | None:
    """Return the key of one call: of the client's key for the request, and the call's id."""
    if key is None:
        return None
    digest = hashlib.sha256(f"{key}\n{call.id}".encode()).hexdigest()
    return f"tool-calls:{digest}"
