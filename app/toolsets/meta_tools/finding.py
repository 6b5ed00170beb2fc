"""`find_tools`: the tools for a task, and what to do where none fits well."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson

from app.calls.results import ModelResult
from app.catalog.annotations import effects
from app.core import exact_json
from app.formats.dialects.cost import estimate_tool_cost
from app.formats.dialects.signature import write_signature
from app.search.advice import Advice
from app.search.conditions import ToolCondition, ToolConditions
from app.search.hits import Hit
from app.search.index import Filters
from app.security.principal import Principal, SchemaForm
from app.toolsets import AgentTool, FoundTools, ToolCollection, ToolSearch, condition_of, schema_form
from app.toolsets.mcp_tool import shown_json, write_beside
from app.toolsets.meta_tools.inputs import FindArguments

_MAX_SEARCHED: Final = 50
"""Matches of a search at most, which is also the maximum of `/tools/search`: so many are counted."""
_MAX_LINE: Final = 200
_MAX_ADVICE: Final = 240
"""Characters of what is said of weak matches: some 60 tokens."""
_MAX_WORD: Final = 24
NOTED_ERROR_RATE: Final = 0.03
"""From this error rate on, the text says it."""
NOTED_P95_MS: Final = 5_000.0
"""From this p95 on, the text says it, in milliseconds."""
NOTED_RESPONSE_SIZE: Final = 50_000
"""From this average size of responses on, the text says it, in bytes."""


class SuggestedPlugin(Protocol):
    """A plugin that is off."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...


class SuggestPlugins(Protocol):
    """Returns the plugins that are off and fit texts better than the hits; none to keys that may not know."""

    def __call__(
        self, texts: list[str], hits: Sequence[Hit], *, principal: Principal
    ) -> Awaitable[Sequence[SuggestedPlugin]]: ...


@dataclass(frozen=True, slots=True)
class FindAids:
    """What `find_tools` knows besides the tools: their conditions, and plugins that are off."""

    conditions: ToolConditions
    suggest_plugins: SuggestPlugins = field(repr=False)


async def find_tools(wanted: FindArguments, collection: ToolCollection, aids: FindAids | None) -> ModelResult:
    """Return the best matches of a search, as text and as JSON. Raises Unavailable."""
    filters = Filters(provider=wanted.provider, any_tag=frozenset(wanted.tags) if wanted.tags else None)
    if wanted.read_only:
        listed = await collection.tools()
        filters = Filters(
            provider=filters.provider,
            any_tag=filters.any_tag,
            tools=frozenset(tool.id for tool in listed if tool.read_only),
        )
    # The same search as for `limit` tools, whose results are the first of these; the others are counted.
    found = await collection.find(ToolSearch(wanted.query, filters, _MAX_SEARCHED, advise=True))
    shown, more = found.tools[: wanted.limit], len(found.tools[wanted.limit :])
    plugins = await _plugins(wanted, found, collection, aids)
    conditions = [_condition(tool, aids) for tool in shown]
    form = schema_form(collection) if wanted.detail == "schema" else None

    def describe() -> list[tuple[dict[str, Any], str]]:
        pairs = zip(shown, conditions, strict=True)
        return [(_hit(tool, condition, form), _block(tool, condition, form)) for tool, condition in pairs]

    described = await write_beside(shown if form is not None else (), describe)
    body: dict[str, Any] = {
        "tools": [hit for hit, _ in described],
        "more": more,
        "weak": found.advice is not None,
    }
    if found.advice is not None:
        body["suggestions"] = found.advice.as_json()
    if plugins:
        body["plugins"] = [{"name": one.name, "title": one.title} for one in plugins]
    blocks = [block for _, block in described] or [
        "No tool matches. Search by other words, or without filters."
    ]
    if more:
        plus = "+" if more + len(shown) == _MAX_SEARCHED else ""
        blocks.append(f"{more}{plus} more match: search by more words, or with a higher limit.")
    if found.advice is not None:
        blocks.append(advice_text(found.advice, has_hits=bool(shown)))
    if plugins:
        blocks.append(f"Plugins that are off and fit better: {', '.join(one.name for one in plugins)}.")
    return ModelResult("\n".join(block for block in blocks if block), body=exact_json.dumps(body))


async def _plugins(
    wanted: FindArguments, found: FoundTools, collection: ToolCollection, aids: FindAids | None
) -> Sequence[SuggestedPlugin]:
    # The owner of a toolset has chosen what it has.
    if aids is None or not collection.is_registry:
        return ()
    return await aids.suggest_plugins(list(wanted.query), found.search.hits, principal=collection.principal)


def _condition(tool: AgentTool, aids: FindAids | None) -> ToolCondition:
    if aids is None:
        return ToolCondition()
    aids.conditions.refresh_if_due()
    return condition_of(tool, aids.conditions)


def brief_effects(tool: AgentTool) -> dict[str, bool]:
    """Return what is known of the effects of a tool; without members that say nothing."""
    known = effects(tool, requires_approval=tool.requires_approval, deprecated=tool.deprecated)
    return {
        name: value
        for name, value in known.items()
        if value is not None and (value or name not in ("requires_approval", "deprecated"))
    }


def _hit(tool: AgentTool, condition: ToolCondition, form: SchemaForm | None) -> dict[str, Any]:
    """Return a tool that was found as JSON, with its schema of inputs in a form; None: without."""
    inputs = tool.inputs
    hit = {
        "name": tool.name,
        "signature": write_signature(tool.name, inputs),
        "description": _line(tool.description),
        **brief_effects(tool),
        "cost": estimate_tool_cost(
            tool.name, tool.description, inputs, average_response_size=tool.average_response_size
        ),
        **condition.as_json(),
    }
    if form is None:
        return hit
    return hit | {"inputSchema": orjson.Fragment(shown_json(tool.inputs_json, form)[0])}


def _block(tool: AgentTool, condition: ToolCondition, form: SchemaForm | None) -> str:
    block = f"{write_signature(tool.name, tool.inputs)}{_marks(tool, condition)}"
    line = _line(tool.description)
    block += f"\n  {line}" if line else ""
    if form is None:
        return block
    return f"{block}\n  inputSchema: {shown_json(tool.inputs_json, form)[0].decode()}"


def _marks(tool: AgentTool, condition: ToolCondition) -> str:
    """Return what is known of the effects of a tool, and what of its condition needs attention."""
    health, size = condition.health, tool.average_response_size
    marks = [
        *(["read-only"] if tool.read_only else ["destructive"] if tool.destructive else []),
        *(["requires approval"] if tool.requires_approval else []),
        *(["deprecated"] if tool.deprecated else []),
        *(["needs a credential"] if condition.missing_credential else []),
    ]
    if health is not None and health.error_rate >= NOTED_ERROR_RATE:
        marks.append(f"{health.error_rate:.0%} errors")
    if health is not None and health.p95_ms is not None and health.p95_ms >= NOTED_P95_MS:
        marks.append(f"takes up to {health.p95_ms / 1_000:.0f} s")
    if size is not None and size >= NOTED_RESPONSE_SIZE:
        marks.append(f"responses of about {size / 1_000:.0f} kB")
    return f" [{', '.join(marks)}]" if marks else ""


def advice_text(advice: Advice, *, has_hits: bool) -> str:
    """Return what to search for next in at most 240 characters."""
    unknown = _quoted(advice.unknown_words)
    begin = f"Weak match: no tool mentions {unknown}." if unknown else "Weak match: few words are found."
    end = "Search again by other words before you call one of these." if has_hits else ""
    parts = [
        f"Did you mean: {_listed([other for _, other in advice.did_you_mean])}?" * bool(advice.did_you_mean),
        f"Providers nearby: {_listed(advice.providers)}." * bool(advice.providers),
        f"Other words: {_listed(advice.words)}." * bool(advice.words),
    ]
    text = begin
    for part in parts:
        if part and len(text) + len(part) + len(end) + 2 <= _MAX_ADVICE:
            text = f"{text} {part}"
    return f"{text} {end}".rstrip()


def _quoted(words: Sequence[str]) -> str:
    return " or ".join(f"'{word[:_MAX_WORD]}'" for word in words)


def _listed(words: Sequence[str]) -> str:
    return ", ".join(word[:_MAX_WORD] for word in words)


def _line(text: str) -> str:
    """Return the first paragraph of a text as one line of at most 200 characters."""
    line = " ".join(text.strip().partition("\n\n")[0].split())
    return line if len(line) <= _MAX_LINE else f"{line[: _MAX_LINE - 3]}..."
