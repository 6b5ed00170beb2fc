"""Calls of meta-tools. What they call is called by the interface that they came through, like any tool."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar
from uuid import UUID

import orjson

from app.calls.approvals.approved_call import RequestedCall
from app.calls.results import (
    ContinuationStore,
    ModelResult,
    ResultBudget,
    approval_of_handle,
    error_result,
    read_continuation,
    read_requested_call,
)
from app.core import exact_json
from app.core.errors import GatewayError, NotFound, not_found, scopes_missing
from app.security.principal import Principal, SchemaForm
from app.security.scopes import Scope
from app.toolsets import AgentTool, AmbiguousTool, ToolCollection, schema_form, with_names_here
from app.toolsets.mcp_tool import schema_changes, shown_json, write_beside
from app.toolsets.meta_tools.definitions import META_TOOL_NAMES
from app.toolsets.meta_tools.finding import FindAids, brief_effects, find_tools
from app.toolsets.meta_tools.inputs import (
    DescribeArguments,
    FindArguments,
    InnerCall,
    ReadMoreArguments,
    parse,
    parse_call,
)

Result = TypeVar("Result")
CallTool = Callable[[AgentTool, dict[str, Any], ResultBudget], Awaitable[Result]]
"""Calls a tool of the collection with these arguments, and returns what the interface makes of the result
within the budget.
"""


class RequestedCalls(Protocol):
    """Knows the calls whose approval was requested."""

    async def read_call(self, approval_id: UUID, *, principal: Principal) -> RequestedCall:
        """Return the call of an approval, with how it ended, for the key that requested it; raise NotFound
        for any other key.
        """


@dataclass(frozen=True, slots=True)
class StoredRests:
    """What `read_more` reads: rests of results that were cut, and how calls that waited have ended."""

    continuations: ContinuationStore
    requested_calls: RequestedCalls


BudgetOf = Callable[[AgentTool | None], ResultBudget]
"""Returns the budget of a result of a tool, and for None that of a rest that is read."""

_SCOPES: Final[Mapping[str, Scope]] = {
    "find_tools": "tools:read",
    "describe_tools": "tools:read",
    "call_read_tool": "tools:call",
    "call_tool": "tools:call",
    "read_more": "tools:call",
}


async def call_meta_tool(
    name: str,
    arguments: Any,
    collection: ToolCollection,
    *,
    call: CallTool[Result],
    rests: StoredRests | None = None,
    budget: BudgetOf = lambda _: ResultBudget(),
    base_url: str = "",
    aids: FindAids | None = None,
) -> ModelResult | Result:
    """Return the result of a meta-tool: what `call` returns for the tool that it calls, else a ModelResult.

    `read_more` reads from `rests`, within the `budget`; without them, every continuation is unknown.
    `base_url` is the gateway's public URL without a slash at its end, for the links of errors. `aids` are
    what `find_tools` knows besides the tools; without them, it says nothing of their health.
    The name of the tool to call is resolved here, once: `call` gets the tool, never the name. Errors are
    results with `is_error`. Raise Forbidden where the key lacks the scope of the meta-tool, which is that of
    the same request over HTTP.
    """
    scope = _SCOPES[name]
    if not collection.principal.has_scope(scope):
        raise scopes_missing(f"This API key does not have the scope {scope}.", [scope])
    try:
        if name == "find_tools":
            return await find_tools(parse(FindArguments, arguments), collection, aids)
        if name == "describe_tools":
            return await _describe(parse(DescribeArguments, arguments).names, collection)
        if name == "read_more":
            handle = parse(ReadMoreArguments, arguments).continuation
            if rests is None:
                raise not_found("The continuation is unknown.")
            # The parts were chosen when the result was cut.
            within = replace(budget(None), fields=())
            approval = approval_of_handle(handle)
            principal = collection.principal
            if approval is None:
                return await read_continuation(
                    handle, principal=principal, continuations=rests.continuations, budget=within
                )
            requested = await rests.requested_calls.read_call(approval, principal=principal)
            return await read_requested_call(
                requested,
                principal=principal,
                budget=within,
                continuations=rests.continuations,
                base_url=base_url,
            )
        inner = parse_call(arguments)
        tool = await _tool(inner.name, collection)
    except GatewayError as error:
        return error_result(error, base_url=base_url)
    if name == "call_read_tool" and not tool.read_only:
        text = f"{tool.name} is not marked as read-only, and was not called. Call it with call_tool."
        return ModelResult(text, is_error=True, error={"status": 422, "detail": text})
    within = budget(tool)
    if inner.fields or inner.result_format is not None:
        fields = tuple(inner.fields) or within.fields
        within = replace(within, fields=fields, format=inner.result_format or within.format)
    return await call(tool, inner.arguments, within)


async def find_called_tool(
    name: str, arguments: Any, collection: ToolCollection
) -> tuple[AgentTool, InnerCall] | None:
    """Return the tool that a call of the meta-tool `name` calls, and the call.

    None for meta-tools that call none, and where the call is an error before that.
    """
    if name not in ("call_read_tool", "call_tool"):
        return None
    try:
        inner = parse_call(arguments)
        tool = await collection.get(inner.name)
    except GatewayError:
        return None
    return None if name == "call_read_tool" and not tool.read_only else (tool, inner)


async def _tool(name: str, collection: ToolCollection) -> AgentTool:
    """Return the tool of a name; raise NotFound with the nearest names, and for a meta-tool."""
    try:
        return await collection.get(name)
    except NotFound as error:
        if name in META_TOOL_NAMES:
            raise NotFound(f"{name} cannot be called by another tool.", hint="Call it directly.") from None
        named = await with_names_here(error, collection)
        if named.extra.get("suggestions"):
            raise named from None
        raise NotFound(error.detail, hint="Search for the tool with find_tools.") from None


async def _describe(names: Sequence[str], collection: ToolCollection) -> ModelResult:
    found: list[AgentTool] = []
    unknown: list[dict[str, Any]] = []
    form = schema_form(collection)
    for name in dict.fromkeys(names):
        try:
            found.append(await collection.get(name))
        except NotFound as error:
            named = await with_names_here(error, collection)
            unknown.append({"name": name, "nearest": named.extra.get("suggestions", [])})
        except AmbiguousTool as error:
            unknown.append({"name": name, "nearest": error.extra["suggestions"]})
    described = await write_beside(found, lambda: [_description(tool, form) for tool in found])
    body = exact_json.dumps({"tools": described, "unknown": unknown})
    lines = [exact_json.dumps(tool).decode() for tool in described]
    for one in unknown:
        nearest = f" Nearest: {', '.join(one['nearest'])}." if one["nearest"] else ""
        lines.append(f"There is no tool {one['name']}.{nearest}")
    return ModelResult("\n".join(lines), body=body, is_error=not described)


def _description(tool: AgentTool, form: SchemaForm) -> dict[str, Any]:
    inputs, input_losses = shown_json(tool.inputs_json, form)
    outputs, output_losses = shown_json(tool.outputs_json, form, is_typed=False)
    described = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        **brief_effects(tool),
        "inputSchema": orjson.Fragment(inputs),
    }
    if tool.outputs_json not in (b"", b"{}"):
        # The schema of the response is a promise of the source, and helps to choose `fields`.
        described["outputSchema"] = orjson.Fragment(outputs)
    changes = schema_changes(input_losses, output_losses)
    if changes:
        described["_meta"] = changes
    return {name: value for name, value in described.items() if value != ""}
