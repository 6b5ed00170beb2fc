"""The tools of a run: functions of this process, and tools of gateways."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Protocol, runtime_checkable

from utcp_gateway_client.loop.model import CallAnswer, ChatModel, Dialect, Message, ToolCall, ToolDefinition
from utcp_gateway_client.tools import AnyTool, Tool, ToolCollection

_log = logging.getLogger(__name__)
_NEAREST: Final = 3
_FLAG: Final = "Error: "
"""What the text of an error begins with, in dialects without a flag for it."""


@runtime_checkable
class GatewayClient(Protocol):
    """What the loop needs of an async client of a gateway."""

    async def tools(self, query_or_names: str | Sequence[str], /, *, format: Dialect) -> Sequence[Message]:  # noqa: A002
        """Return tools in the form of a dialect: those that a search finds, or those with these names."""

    async def run(self, message: Any, /, *, format: Dialect) -> Sequence[Message]:  # noqa: A002
        """Run the calls of a model's message (`POST /tool-calls`) and return the messages to append."""


@dataclass(frozen=True, slots=True)
class GatewayTools:
    """Tools of a gateway: those with `names`, or those that a search for `query` finds; without either, the
    search is for the prompt of the run. A client may be bound to a toolset.
    """

    client: GatewayClient
    names: Sequence[str] | None = None
    query: str | None = None


ToolSource = ToolCollection | GatewayTools | GatewayClient | AnyTool | Callable[..., Any]
Tools = ToolSource | Iterable[ToolSource]


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """What a model is offered in a run, and who executes it."""

    definitions: Sequence[ToolDefinition]
    local: Mapping[str, AnyTool]
    remote: Mapping[str, GatewayClient] = field(repr=False)

    def unknown(self, name: str) -> CallAnswer:
        """Return the answer to a call of a tool that is not offered, with the nearest names."""
        names = [*self.local, *self.remote]
        nearest = get_close_matches(name, names, n=_NEAREST, cutoff=0.5)
        hint = f" The nearest names are {', '.join(nearest)}." if nearest else ""
        return CallAnswer(f"unknown tool '{name}'.{hint}", is_error=True)


async def offered_tools(tools: Tools, *, prompt: str | None, model: ChatModel) -> OfferedTools:
    """Return the tools for a run. Of two with one name, the first one is offered, with a warning.

    Raises TypeError for what is no source of tools, ValueError for a search without a prompt, and what the
    client of a gateway raises.
    """
    definitions: dict[str, ToolDefinition] = {}
    local: dict[str, AnyTool] = {}
    remote: dict[str, GatewayClient] = {}
    for source in _sources(tools):
        if isinstance(source, GatewayTools):
            found = await _remote_definitions(source, prompt, model)
        else:
            found = [ToolDefinition(each.name, each.description, each.argument_schema) for each in source]
        for definition in found:
            name = definition.name
            if name in definitions:
                _log.warning("Two tools are called %s; the first one is offered.", name)
                continue
            definitions[name] = definition
            if isinstance(source, GatewayTools):
                remote[name] = source.client
            else:
                local[name] = source[name]
    return OfferedTools(list(definitions.values()), local, remote)


def _sources(tools: Any) -> list[ToolCollection | GatewayTools]:
    if isinstance(tools, ToolCollection | GatewayTools):
        return [tools]
    if isinstance(tools, Tool) or inspect.isfunction(tools):
        return [ToolCollection([tools])]
    if isinstance(tools, GatewayClient):
        return [GatewayTools(tools)]
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping):
        return [source for each in tools for source in _sources(each)]
    raise TypeError(f"{type(tools).__name__} is no source of tools.")


async def _remote_definitions(
    source: GatewayTools, prompt: str | None, model: ChatModel
) -> list[ToolDefinition]:
    wanted = source.names or source.query or prompt
    if not wanted:
        raise ValueError("Without a prompt, name the tools of the gateway, or give a query.")
    entries = await source.client.tools(wanted, format=model.dialect)
    found = []
    for entry in entries:
        # Gemini has the declarations of all functions in one member.
        for each in entry.get("functionDeclarations", [entry]):
            name = each["function"]["name"] if "function" in each else each["name"]
            found.append(ToolDefinition(name, "", {}, entry=each))
    return found


async def run_local(tool: AnyTool, call: ToolCall, threads: Executor) -> CallAnswer:
    """Call a function of this process; one that is not async runs in a thread."""
    arguments = call.arguments
    if arguments is not None and not isinstance(arguments, str | Mapping):
        # What is no object is an error with a pointer, as in JSON text.
        arguments = json.dumps(arguments)
    result = await tool.execute_async(arguments, threads=threads)
    return CallAnswer(result.text, result.is_error)


async def run_remote(client: GatewayClient, calls: Sequence[ToolCall], model: ChatModel) -> list[CallAnswer]:
    """Let a gateway run calls of one turn, and return their answers in order; a failure answers all."""
    try:
        messages = await client.run(model.calls_body(calls), format=model.dialect)
        parts = model.result_parts(messages)
    except asyncio.CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - a client may raise anything
        _log.exception("The gateway has failed to run %d calls", len(calls))
        return [CallAnswer(f"The gateway has failed ({type(error).__name__}).", is_error=True)] * len(calls)
    if len(parts) != len(calls):
        _log.error("The gateway has answered %d of %d calls", len(parts), len(calls))
        return [CallAnswer("The gateway has not answered each call.", is_error=True)] * len(calls)
    return [_answer(part) for part in parts]


def _answer(part: Message) -> CallAnswer:
    """Return the answer that a part of a dialect is: its text, and its flag."""
    if "functionResponse" in part:
        response = part["functionResponse"]["response"]
        value = response["error"] if "error" in response else response.get("output")
        return CallAnswer(_text(value), "error" in response, part)
    if part.get("type") == "tool_result":
        return CallAnswer(_text(part.get("content")), bool(part.get("is_error")), part)
    text = _text(part["output"] if "output" in part else part.get("content"))
    if part.get("role") == "user":
        # As JsonPrompt writes it: "The tool NAME returned:" or "failed:", and the text in the next line.
        head, _, rest = text.partition("\n")
        return CallAnswer(rest, head.endswith(" failed:"), part)
    return CallAnswer(text.removeprefix(_FLAG), text.startswith(_FLAG), part)


def _text(content: Any) -> str:
    if isinstance(content, list):
        texts = [each["text"] for each in content if isinstance(each, dict) and "text" in each]
        if texts:
            return "\n".join(texts)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
