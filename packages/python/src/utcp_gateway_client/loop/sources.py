"""The tools of a run: functions of this process, and tools of gateways."""

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from utcp_gateway_client.gateway import AsyncGateway, Gateway
from utcp_gateway_client.loop.gateways import GatewayConnections, GatewayTools, gateway_definitions
from utcp_gateway_client.loop.model import CallAnswer, ChatModel, ToolCall, ToolDefinition
from utcp_gateway_client.tools import AnyTool, Tool, ToolCollection

_log = logging.getLogger(__name__)
_NEAREST: Final = 3

ToolSource = ToolCollection | GatewayTools | Gateway | AsyncGateway | AnyTool | Callable[..., Any]
Tools = ToolSource | Iterable[ToolSource]


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """What a model is offered in a run, and who executes it."""

    definitions: Sequence[ToolDefinition]
    local: Mapping[str, AnyTool]
    remote: Mapping[str, AsyncGateway] = field(repr=False)

    def unknown(self, name: str) -> CallAnswer:
        """Return the answer to a call of a tool that is not offered, with the nearest names."""
        names = [*self.local, *self.remote]
        nearest = get_close_matches(name, names, n=_NEAREST, cutoff=0.5)
        hint = f" The nearest names are {', '.join(nearest)}." if nearest else ""
        return CallAnswer(f"unknown tool '{name}'.{hint}", is_error=True)


async def offered_tools(
    tools: Tools, connections: GatewayConnections, *, prompt: str | None, model: ChatModel
) -> OfferedTools:
    """Return the tools for a run. Of two with one name, the first one is offered, with a warning.

    Raises TypeError for what is no source of tools, ValueError for a search without a prompt, and
    GatewayError.
    """
    definitions: dict[str, ToolDefinition] = {}
    local: dict[str, AnyTool] = {}
    remote: dict[str, AsyncGateway] = {}
    for source in _sources(tools):
        client = None
        if isinstance(source, GatewayTools):
            client = await connections.client(source.gateway)
            found = await gateway_definitions(source, client, prompt, model)
        else:
            found = [ToolDefinition(each.name, each.description, each.argument_schema) for each in source]
        for definition in found:
            name = definition.name
            if name in definitions:
                _log.warning("Two tools are called %s; the first one is offered.", name)
                continue
            definitions[name] = definition
            if client is not None:
                remote[name] = client
            elif not isinstance(source, GatewayTools):
                local[name] = source[name]
    return OfferedTools(list(definitions.values()), local, remote)


def _sources(tools: Any) -> list[ToolCollection | GatewayTools]:
    if isinstance(tools, ToolCollection | GatewayTools):
        return [tools]
    if isinstance(tools, Tool) or inspect.isfunction(tools):
        return [ToolCollection([tools])]
    if isinstance(tools, Gateway | AsyncGateway):
        return [GatewayTools(tools)]
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping):
        return [source for each in tools for source in _sources(each)]
    raise TypeError(f"{type(tools).__name__} is no source of tools.")


async def run_local(tool: AnyTool, call: ToolCall, threads: Executor) -> CallAnswer:
    """Call a function of this process; one that is not async runs in a thread."""
    arguments = call.arguments
    if arguments is not None and not isinstance(arguments, str | Mapping):
        # What is no object is an error with a pointer, as in JSON text.
        arguments = json.dumps(arguments)
    result = await tool.execute_async(arguments, threads=threads)
    return CallAnswer(result.text, result.is_error)
