"""Calls of meta-tools. What they call is called by the interface that they came through, like any tool."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import orjson

from app.errors import GatewayError, NotFound, not_found, scopes_missing
from app.meta_tools.definitions import META_TOOL_NAMES
from app.meta_tools.inputs import (
    DescribeArguments,
    FindArguments,
    InnerCall,
    ReadMoreArguments,
    parse,
    parse_call,
)
from app.search import Filters
from app.security.scopes import Scope
from app.tool_results import (
    ContinuationStore,
    ModelResult,
    ResultBudget,
    error_result,
    read_continuation,
)
from app.tool_schemas.signature import signature
from app.toolsets import AgentTool, ToolCollection, with_names_here

Result = TypeVar("Result")
CallTool = Callable[[AgentTool, dict[str, Any], ResultBudget | None], Awaitable[Result]]
"""Calls a tool of the collection with these arguments, and returns what the interface makes of the result
within the budget.
"""

_MAX_SEARCHED: Final = 50
"""Matches of a search at most, which is also the maximum of `/tools/search`: so many are counted."""
_MAX_LINE: Final = 200
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
    continuations: ContinuationStore | None = None,
    budget: ResultBudget | None = None,
    base_url: str = "",
) -> ModelResult | Result:
    """Return the result of a meta-tool: what `call` returns for the tool that it calls, else a ModelResult.

    `read_more` reads rests from `continuations`, within the budget; without them, every rest is unknown.
    `base_url` is the gateway's public URL without a slash at its end, for the links of errors.
    The name of the tool to call is resolved here, once: `call` gets the tool, never the name. Errors are
    results with `is_error`. Raise Forbidden where the key lacks the scope of the meta-tool, which is that of
    the same request over HTTP.
    """
    scope = _SCOPES[name]
    if not collection.principal.has_scope(scope):
        raise scopes_missing(f"This API key does not have the scope {scope}.", [scope])
    try:
        if name == "find_tools":
            return await _find(parse(FindArguments, arguments), collection)
        if name == "describe_tools":
            return await _describe(parse(DescribeArguments, arguments).names, collection)
        if name == "read_more":
            wanted_rest = parse(ReadMoreArguments, arguments).continuation
            if continuations is None:
                raise not_found("The continuation is unknown.")
            return await read_continuation(
                wanted_rest,
                principal=collection.principal,
                continuations=continuations,
                # The parts were chosen when the result was cut.
                budget=None if budget is None else replace(budget, fields=()),
            )
        inner = parse_call(arguments)
        tool = await _tool(inner.name, collection)
    except GatewayError as error:
        return error_result(error, base_url=base_url)
    if name == "call_read_tool" and not tool.read_only:
        text = f"{tool.name} is not marked as read-only, and was not called. Call it with call_tool."
        return ModelResult(text, is_error=True, error={"status": 422, "detail": text})
    if inner.fields or inner.result_format is not None:
        budget = budget or ResultBudget()
        fields = tuple(inner.fields) or budget.fields
        budget = replace(budget, fields=fields, format=inner.result_format or budget.format)
    return await call(tool, inner.arguments, budget)


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


async def _find(wanted: FindArguments, collection: ToolCollection) -> ModelResult:
    filters = Filters(provider=wanted.provider, any_tag=frozenset(wanted.tags) if wanted.tags else None)
    if wanted.read_only:
        listed = await collection.tools()
        filters = Filters(
            provider=filters.provider,
            any_tag=filters.any_tag,
            tools=frozenset(tool.id for tool in listed if tool.read_only),
        )
    # The same search as for `limit` tools, whose results are the first of these; the others are counted.
    found = await collection.search(wanted.query, filters=filters, limit=_MAX_SEARCHED)
    shown, more = found[: wanted.limit], len(found[wanted.limit :])
    body = {"tools": [_hit(tool, detail=wanted.detail) for tool in shown], "more": more}
    return ModelResult(_found_text(shown, more, wanted), body=orjson.dumps(body))


def _hit(tool: AgentTool, *, detail: str) -> dict[str, Any]:
    hit = {
        "name": tool.name,
        "signature": signature(tool.name, tool.inputs),
        "description": _line(tool.description),
        **_effects(tool),
    }
    return hit | {"inputSchema": orjson.Fragment(tool.inputs_json)} if detail == "schema" else hit


def _effects(tool: AgentTool) -> dict[str, Any]:
    """Return what is known of the effects of a tool, and what else decides whether to call it."""
    # A tool that is not read-only counts as destructive where nothing is known (MCP, `ToolAnnotations`).
    effects: dict[str, Any] = {
        "read_only": tool.read_only,
        "destructive": not tool.read_only and tool.destructive is not False,
    }
    if tool.requires_approval:
        effects["requires_approval"] = True
    if tool.deprecated:
        effects["deprecated"] = True
    return effects


def _found_text(shown: Sequence[AgentTool], more: int, wanted: FindArguments) -> str:
    if not shown:
        return "No tool matches. Search by other words, or without filters."
    blocks = []
    for tool in shown:
        block = f"{signature(tool.name, tool.inputs)}{_marks(tool)}"
        line = _line(tool.description)
        block += f"\n  {line}" if line else ""
        if wanted.detail == "schema":
            block += f"\n  inputSchema: {tool.inputs_json.decode()}"
        blocks.append(block)
    if more:
        plus = "+" if more + len(shown) == _MAX_SEARCHED else ""
        blocks.append(f"{more}{plus} more match: search by more words, or with a higher limit.")
    return "\n".join(blocks)


def _marks(tool: AgentTool) -> str:
    marks = [
        *(["read-only"] if tool.read_only else ["destructive"] if tool.destructive else []),
        *(["requires approval"] if tool.requires_approval else []),
        *(["deprecated"] if tool.deprecated else []),
    ]
    return f" [{', '.join(marks)}]" if marks else ""


def _line(text: str) -> str:
    """Return the first paragraph of a text as one line of at most 200 characters."""
    line = " ".join(text.strip().partition("\n\n")[0].split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 3]}..."


async def _describe(names: Sequence[str], collection: ToolCollection) -> ModelResult:
    described: list[dict[str, Any]] = []
    unknown: list[dict[str, Any]] = []
    for name in dict.fromkeys(names):
        try:
            described.append(_description(await collection.get(name)))
        except NotFound as error:
            named = await with_names_here(error, collection)
            unknown.append({"name": name, "nearest": named.extra.get("suggestions", [])})
    body = orjson.dumps({"tools": described, "unknown": unknown})
    lines = [orjson.dumps(tool).decode() for tool in described]
    for one in unknown:
        nearest = f" Nearest: {', '.join(one['nearest'])}." if one["nearest"] else ""
        lines.append(f"There is no tool {one['name']}.{nearest}")
    return ModelResult("\n".join(lines), body=body, is_error=not described)


def _description(tool: AgentTool) -> dict[str, Any]:
    described = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        **_effects(tool),
        "inputSchema": orjson.Fragment(tool.inputs_json),
    }
    if tool.outputs_json not in (b"", b"{}"):
        # The schema of the response is a promise of the source, and helps to choose `fields`.
        described["outputSchema"] = orjson.Fragment(tool.outputs_json)
    return {name: value for name, value in described.items() if value != ""}
