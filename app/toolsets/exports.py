"""Exports tools in the dialects of models' clients.

An export has a report of what the dialect cannot say, and records by which calls are converted back.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.core import exact_json
from app.formats.dialects.aliases import AliasRecord
from app.formats.dialects.convert import Converted, convert_inputs
from app.formats.dialects.dialects import Dialect, Format, Strict, load_dialect
from app.formats.dialects.losses import Grade, grade
from app.formats.dialects.portable import Portable
from app.formats.dialects.sanitize import UnusableSchema, choose_description, sanitize_outputs
from app.formats.utcp.render import ManualToolEntry, render_tool_v1
from app.security.principal import SchemaForm
from app.toolsets.agent_tool import AgentTool, toolset_call_url
from app.toolsets.mcp_tool import mcp_tool, shown_schema, with_marks

Json = dict[str, Any]
_Key = tuple[str, str, Format, Strict, SchemaForm]

# A token is about four bytes of JSON (docs/decisions/0013).
_BYTES_PER_TOKEN: Final = 4
_MAX_CACHED: Final = 20_000
_INLINE: Final = 50
_INLINE_BYTES: Final = 256 << 10
"""Bytes of schemas up to which tools are exported in the event loop."""
_MAX_LOSSES: Final = 100
_PROMPT: Final = (
    "You can call these tools. To call one, answer with one JSON object and nothing else:\n"
    '{"tool_name": "<name of the tool>", "arguments": {...}}\n'
    "The arguments must fit the tool's parameters, which are JSON Schemas. "
    "Answer in words once you need no tool.\n\nTools, one per line:\n"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """The toolset whose tools are exported, None for the registry, and how schemas are shown there."""

    toolset: str | None = None
    form: SchemaForm = "portable"


@dataclass(frozen=True, slots=True)
class ExportedTool:
    """A tool in a dialect: `entry` is its member of the export, without the envelope that all tools share."""

    name: str
    tool: AgentTool = field(repr=False)
    entry: Json = field(repr=False)
    record: AliasRecord = field(repr=False)
    converted: Converted | None = field(repr=False)

    @property
    def is_strict(self) -> bool:
        """Whether the model can only write arguments that the exported schema accepts."""
        return self.converted is not None and self.converted.is_strict

    def report(self, strict_reason: str | None = None) -> Json:
        """Return the member of the report about the tool."""
        losses = () if self.converted is None else self.converted.losses
        shown = [loss.to_json() for loss in losses[:_MAX_LOSSES]]
        reason = strict_reason or (None if self.converted is None else self.converted.strict_reason)
        members: Json = {
            "name": self.tool.tool or self.tool.name,
            "alias": self.name,
            "strict": self.is_strict,
            "strict_reason": reason,
            "grade": grade(losses),
            "tokens": -(-len(exact_json.dumps(self.entry)) // _BYTES_PER_TOKEN),
            "losses": shown,
        }
        if len(shown) < len(losses):
            members["more_losses"] = len(losses) - len(shown)
        return members


@dataclass(frozen=True, slots=True)
class Export:
    """Tools in a dialect. `tools` is what a client takes as it is; `prompt` is for models without tools."""

    format: Format
    tools: Any = field(repr=False)
    aliases: Json = field(repr=False)
    report: Json = field(repr=False)
    prompt: str | None = None

    def to_json(self) -> bytes:
        """Return `{"format", "tools", "aliases", "report"}`, and `prompt` where there is one."""
        members = {
            "format": self.format,
            "tools": self.tools,
            "aliases": self.aliases,
            "report": self.report,
        }
        return exact_json.dumps(members if self.prompt is None else members | {"prompt": self.prompt})


class ToolExporter:
    """Exports tools; one instance per worker, which keeps what it has converted by the tools' stamps.

    `base_url` is the gateway's public address, for the target `utcp`.
    """

    def __init__(self, *, base_url: str) -> None:
        self._base_url = base_url
        self._exported: OrderedDict[_Key, ExportedTool | str] = OrderedDict()

    async def export(
        self,
        tools: Sequence[AgentTool],
        target: Format,
        *,
        strict: Strict = "auto",
        toolset: str | None = None,
        form: SchemaForm = "portable",
        unknown: Iterable[str] = (),
        omitted: int = 0,
    ) -> Export:
        """Return the export of some tools of the registry or of a toolset, in their order.

        `form` is that of schemas in the format `mcp`.
        `unknown` names and the number of tools that were `omitted` are only reported. A tool whose schema
        cannot be repaired is left out, and reported.
        """

        def run() -> Export:
            place = _Place(toolset, form)
            return self._export(tools, target, strict, place, unknown=list(unknown), omitted=omitted)

        is_large = len(tools) > _INLINE or sum(len(tool.inputs_json) for tool in tools) > _INLINE_BYTES
        return await asyncio.to_thread(run) if is_large else run()

    def record(self, tool: AgentTool, target: Format, *, strict: Strict = "auto") -> AliasRecord:
        """Return the record that turns a call of the exported tool into one of the tool itself.

        That of `utcp`, or of a tool that cannot be exported, changes nothing.
        """
        found = self._tool(tool, target, strict, _Place())
        return AliasRecord(tool=tool.tool) if isinstance(found, str) else found.record

    def list_original_names(self, name: str, target: Format) -> tuple[str, ...]:
        """Return the names that tools exported under this name may have, the likeliest first."""
        return (name,) if target == "utcp" else load_dialect(target).list_original_names(name)

    def _tool(self, tool: AgentTool, target: Format, strict: Strict, place: _Place) -> ExportedTool | str:
        """Return an exported tool, or why it cannot be exported."""
        key = (tool.stamp, f"{tool.name} {place.toolset or ''}", target, strict, place.form)
        found = self._exported.get(key)
        if found is None:
            try:
                found = self._made(tool, target, strict, place)
            except UnusableSchema as error:
                found = error.reason
            self._exported[key] = found
            if len(self._exported) > _MAX_CACHED:
                self._exported.popitem(last=False)
        return found

    def _made(self, tool: AgentTool, target: Format, strict: Strict, place: _Place) -> ExportedTool:
        if target == "utcp":
            if not tool.tool:
                raise UnusableSchema("UTCP clients call tools by their URLs, and a meta-tool has none.")
            entry = orjson.loads(render_tool_v1(self._manual_entry(tool, place.toolset)))
            return ExportedTool(tool.name, tool, entry, AliasRecord(tool=tool.tool), None)
        rules = load_dialect(target)
        converted = convert_inputs(tool.inputs, rules, strict, is_whole=place.form == "full")
        converted.record.tool = tool.tool or tool.name
        name = rules.export_name(tool.name, tool.alias)
        text = choose_description(
            tool.description,
            title=tool.title,
            fallback=tool.tool or tool.name,
            limit=rules.description_max or 1 << 20,
        )
        return ExportedTool(
            name,
            tool,
            _build_entry(target, name, text, converted, tool, place.form),
            converted.record,
            converted,
        )

    def _manual_entry(self, tool: AgentTool, toolset: str | None) -> ManualToolEntry:
        return ManualToolEntry(
            name=tool.name,
            description=tool.description,
            inputs=tool.inputs,
            outputs=tool.outputs,
            tags=tool.tags,
            call_url=toolset_call_url(self._base_url, toolset, tool.name),
            gateways=tool.gateways,
        )

    def _export(
        self,
        tools: Sequence[AgentTool],
        target: Format,
        strict: Strict,
        place: _Place,
        *,
        unknown: list[str],
        omitted: int,
    ) -> Export:
        found: list[ExportedTool] = []
        reports: dict[str, Json] = {}
        for tool in tools:
            one = self._tool(tool, target, strict, place)
            if isinstance(one, str):
                reports[tool.name] = _unsupported(tool, one)
            else:
                found.append(one)
        rules = None if target == "utcp" else load_dialect(target)
        demoted = {} if rules is None else _over_limits(found, rules)
        for index, one in enumerate(found):
            reason = demoted.get(one.name)
            if reason is not None:
                plain = self._tool(one.tool, target, "false", place)
                found[index] = one if isinstance(plain, str) else plain
            reports[one.tool.name] = found[index].report(reason)
        listed = [reports[tool.name] for tool in tools]
        report: Json = {"tools": listed, "unknown": unknown, "omitted": omitted, "limits": []}
        if rules is not None:
            report |= {"version": rules.version, "checked_on": rules.checked_on.isoformat()}
            if rules.tools_max is not None and len(found) > rules.tools_max:
                report["limits"] = [{"limit": "tools", "value": len(found), "max": rules.tools_max}]
        entries = [one.entry for one in found]
        prompt = None
        if target == "json-prompt":
            prompt = _PROMPT + "\n".join(exact_json.dumps(entry).decode() for entry in entries)
        aliases = {one.name: one.record.to_json() for one in found}
        return Export(target, _envelope(target, entries), aliases, report, prompt)


def _unsupported(tool: AgentTool, reason: str) -> Json:
    worst: Grade = "unsupported"
    return {
        "name": tool.tool or tool.name,
        "alias": None,
        "strict": False,
        "strict_reason": reason,
        "grade": worst,
        "tokens": 0,
        "losses": [],
    }


def _over_limits(tools: Sequence[ExportedTool], rules: Dialect) -> dict[str, str]:
    """Return which strict tools are too many for one request, with reasons: the simplest stay strict."""
    limits = rules.limits
    demoted: dict[str, str] = {}
    number = optional = unions = 0
    strict = [one for one in tools if one.is_strict and one.converted is not None]
    for one in sorted(strict, key=_complexity):
        size = one.converted.size if one.converted is not None else None
        if size is None:
            continue
        if limits.strict_tools is not None and number >= limits.strict_tools:
            demoted[one.name] = f"the request has {limits.strict_tools} strict tools already"
        elif limits.optional is not None and optional + size.optional > limits.optional:
            demoted[one.name] = f"strict tools may have {limits.optional} optional properties together"
        elif limits.unions is not None and unions + size.unions > limits.unions:
            demoted[one.name] = f"strict tools may have {limits.unions} unions together"
        else:
            number, optional, unions = number + 1, optional + size.optional, unions + size.unions
    return demoted


def _complexity(one: ExportedTool) -> tuple[int, str]:
    size = None if one.converted is None else one.converted.size
    return (0 if size is None else size.optional + size.unions + size.properties, one.name)


def _envelope(target: Format, entries: list[Json]) -> Any:
    if target in ("gemini", "gemini-openapi"):
        return [{"functionDeclarations": entries}] if entries else []
    if target == "ai-sdk":
        return {entry["name"]: {key: entry[key] for key in entry if key != "name"} for entry in entries}
    return entries


def _function(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    function: Json = {"name": name, "description": text, "parameters": converted.schema}
    if converted.is_strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _cohere(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    return {
        "type": "function",
        "function": {"name": name, "description": text, "parameters": converted.schema},
    }


def _responses(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    # Without the member, the API tries a strict form of its own.
    return {
        "type": "function",
        "name": name,
        "description": text,
        "parameters": converted.schema,
        "strict": converted.is_strict,
    }


def _anthropic(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    entry: Json = {"name": name, "description": text, "input_schema": converted.schema}
    return entry | {"strict": True} if converted.is_strict else entry


def _gemini(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    return _declaration("parametersJsonSchema", name, text, converted, tool)


def _gemini_openapi(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    return _declaration("parameters", name, text, converted, tool)


def _declaration(key: str, name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    entry: Json = {"name": name, "description": text}
    # An object without properties is an error there.
    return entry | {key: converted.schema} if converted.schema.get("properties") else entry


def _bedrock(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    spec: Json = {"name": name, "description": text, "inputSchema": {"json": converted.schema}}
    return {"toolSpec": spec | {"strict": True} if converted.is_strict else spec}


def _ai_sdk(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    entry: Json = {"name": name, "description": text, "inputSchema": converted.schema}
    return entry | {"strict": True} if converted.is_strict else entry


def _prompted(name: str, text: str, converted: Converted, tool: AgentTool) -> Json:
    del tool
    return {"name": name, "description": text, "parameters": converted.schema}


def _mcp(text: str, converted: Converted, tool: AgentTool, form: SchemaForm) -> Json:
    inputs = with_marks(Portable(converted.schema, converted.losses), tool)
    return mcp_tool(tool, description=text, inputs=inputs, outputs=_outputs(tool, form))


def _outputs(tool: AgentTool, form: SchemaForm) -> Portable | None:
    if not tool.publishes_outputs or tool.outputs_json in (b"", b"{}"):
        return None
    try:
        return shown_schema(sanitize_outputs(tool.outputs).schema, form, is_typed=False)
    except UnusableSchema:
        return None


def _build_entry(
    target: Format, name: str, text: str, converted: Converted, tool: AgentTool, form: SchemaForm
) -> Json:
    if target == "mcp":
        return _mcp(text, converted, tool, form)
    return _ENTRIES[target](name, text, converted, tool)


_ENTRIES: Final[dict[str, Callable[[str, str, Converted, AgentTool], Json]]] = {
    "openai-chat": _function,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini-openapi": _gemini_openapi,
    "bedrock": _bedrock,
    "mistral": _function,
    "cohere": _cohere,
    "ollama": _function,
    "ai-sdk": _ai_sdk,
    "langchain": _function,
    "json-prompt": _prompted,
}
