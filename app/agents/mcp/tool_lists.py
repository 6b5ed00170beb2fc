"""`tools/list`: the tools of an address as MCP describes them, in pages, rendered once per version of a tool.

The list depends on the address and on what the key may see, never on the connection: every worker gives the
same bytes. A cursor names the list by a digest and the last name of its page, so that every worker continues
it, also after a restart; once the list has changed, the client must start again.
"""

import asyncio
import base64
import binascii
import hashlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from app.agents.mcp.header_values import MirroredArgument, find_mirrored_arguments
from app.agents.mcp.jsonrpc import INVALID_PARAMS, RpcError
from app.core import exact_json
from app.formats.dialects.sanitize import (
    Sanitized,
    UnusableSchema,
    choose_description,
    sanitize_inputs,
    sanitize_outputs,
)
from app.formats.json_schema.validator import OutputValidator
from app.security.principal import SchemaForm
from app.storage.models import now
from app.toolsets import AgentTool, ToolCollection, schema_form
from app.toolsets.collection import ListMode
from app.toolsets.mcp_tool import INLINE_BYTES, mcp_tool, shown_schema, with_marks
from app.toolsets.meta_tools import listed_tools, read_more_tool

_MAX_RENDERED: Final = 50_000
_MAX_PAGES: Final = 64
_MAX_PAGE_BYTES: Final = 32 << 20
_INLINE: Final = 50
"""Tools up to which they are rendered in the event loop."""
_DIGEST_BYTES: Final = 12
VALIDATED_AFTER_WITHDRAWAL: Final = timedelta(hours=24)
"""The time for which results are still compared with an output schema that was withdrawn: a client validates
by the list that it has, and may have it for as long as it is connected.
"""


@dataclass(slots=True)
class RenderedTool:
    """A tool as MCP describes it. `json` is its member of the list, None where its schema is unusable;
    `inputs` and `outputs` are whole, in whatever form they are listed.
    """

    json: bytes | None = field(repr=False)
    inputs: Sanitized | None = field(repr=False)
    outputs: Sanitized | None = field(repr=False)
    """The output schema that is published, or was until it was withdrawn; None where none is."""
    mirrored: tuple[MirroredArgument, ...]
    withdrawn_at: datetime | None = None
    """When the output schema was withdrawn; None while it is published."""
    _validator: OutputValidator | None = field(default=None, repr=False)

    def must_validate_results(self) -> bool:
        """Return whether clients may compare results with the output schema: while it is published, and
        afterwards as long as they may still have the list that has it.
        """
        if self.outputs is None:
            return False
        return self.withdrawn_at is None or now() < self.withdrawn_at + VALIDATED_AFTER_WITHDRAWAL

    def validator(self) -> OutputValidator | None:
        """Return the validator of the output schema."""
        if self._validator is None and self.outputs is not None:
            self._validator = OutputValidator(self.outputs.schema)
        return self._validator


def render(tool: AgentTool, form: SchemaForm = "portable") -> RenderedTool:
    """Return a tool as MCP describes it, with schemas in a form; no member is null."""
    try:
        inputs = sanitize_inputs(tool.inputs)
    except UnusableSchema:
        return RenderedTool(None, None, None, ())
    outputs = _read_outputs(tool)
    listed = with_marks(shown_schema(inputs.schema, form), tool)
    described = mcp_tool(
        tool,
        description=choose_description(tool.description, title=tool.title, fallback=tool.tool or tool.name),
        inputs=listed,
        outputs=shown_schema(outputs.schema, form, is_typed=False)
        if outputs is not None and tool.publishes_outputs
        else None,
    )
    try:
        text = exact_json.dumps(described)
    except (TypeError, orjson.JSONEncodeError):
        return RenderedTool(None, None, None, ())
    withdrawn_at = tool.outputs_withdrawn_at
    return RenderedTool(
        text, inputs, outputs, find_mirrored_arguments(listed.schema), withdrawn_at=withdrawn_at
    )


def _has_outputs(tool: AgentTool) -> bool:
    return tool.publishes_outputs or tool.outputs_withdrawn_at is not None


def _read_outputs(tool: AgentTool) -> Sanitized | None:
    if not _has_outputs(tool) or tool.outputs_json in (b"", b"{}"):
        return None
    try:
        return sanitize_outputs(tool.outputs)
    except UnusableSchema:
        return None


@dataclass(frozen=True, slots=True)
class ToolPage:
    """A page of the list with this digest: its tools as a JSON list, and the cursor of the next page, None
    for the last.
    """

    digest: str
    tools: bytes = field(repr=False)
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class _List:
    """The tools that are listed at an address, by name. `digest` differs whenever the list does."""

    tools: Sequence[AgentTool]
    names: Sequence[str]
    digest: str
    form: SchemaForm


class ToolLists:
    """Renders the lists of this worker; `page_size` is the number of tools of a page."""

    def __init__(self, *, page_size: int) -> None:
        self._page_size = page_size
        self._rendered: OrderedDict[tuple[str, SchemaForm], RenderedTool] = OrderedDict()
        self._lists: OrderedDict[Any, _List] = OrderedDict()
        self._pages: OrderedDict[Any, ToolPage] = OrderedDict()
        self._page_bytes = 0
        self.rendered = 0
        """Number of tools rendered so far."""

    async def page(self, collection: ToolCollection, mode: ListMode, cursor: str | None) -> ToolPage:
        """Return a page of the list; raise RpcError for a cursor of no list, or of one that has changed."""
        listed = await self._list(collection, mode)
        start = 0 if cursor is None else _start(listed, cursor)
        key = (listed.digest, start)
        page = self._pages.get(key)
        if page is None:
            page = await self._make_page(listed, start)
            self._store(key, page)
        else:
            self._pages.move_to_end(key)
        return page

    async def digest(self, collection: ToolCollection, mode: ListMode) -> str:
        """Return what differs whenever the list of an address does."""
        return (await self._list(collection, mode)).digest

    def tool(self, tool: AgentTool, form: SchemaForm) -> RenderedTool:
        """Return a tool as it is listed; see `read`."""
        key = (tool.stamp, form)
        rendered_tool = self._rendered.get(key)
        if rendered_tool is None:
            self.rendered += 1
            rendered_tool = self._rendered[key] = render(tool, form)
            if len(self._rendered) > _MAX_RENDERED:
                self._rendered.popitem(last=False)
        return rendered_tool

    async def read(self, tool: AgentTool, form: SchemaForm) -> RenderedTool:
        """Return a tool as it is listed; a large one is rendered in a thread."""
        await self._render_large([tool], form)
        return self.tool(tool, form)

    async def _list(self, collection: ToolCollection, mode: ListMode) -> _List:
        listing = await collection.listing()
        options = collection.options
        can_call = collection.principal.has_scope("tools:call")
        form = schema_form(collection)
        key = (listing.stamp, mode, options.mode, options.pinned, can_call, form)
        tool_list = self._lists.get(key)
        if tool_list is None:
            tools = await listed_tools(listing, mode, options, form)
            if can_call and tools and tools[-1].tool:
                # Models can only call what is listed: without it they could not read the rest of a result.
                tools = [*tools, read_more_tool()]
            tool_list = self._lists[key] = _build_list(tools, form)
            if len(self._lists) > _MAX_PAGES:
                self._lists.popitem(last=False)
        return tool_list

    async def _make_page(self, listed: _List, start: int) -> ToolPage:
        tools = listed.tools[start : start + self._page_size]
        await self._render_large(tools, listed.form)
        rendered = (self.tool(tool, listed.form).json for tool in tools)
        body = b"[" + b",".join(one for one in rendered if one is not None) + b"]"
        is_last = start + len(tools) >= len(listed.tools)
        next_cursor = None if is_last else _encode_cursor(listed.digest, tools[-1].name)
        return ToolPage(listed.digest, body, next_cursor)

    async def _render_large(self, tools: Sequence[AgentTool], form: SchemaForm) -> None:
        """Render the tools that are not rendered yet in a thread, where they are many or large."""
        missing = [tool for tool in tools if (tool.stamp, form) not in self._rendered]
        if len(missing) > _INLINE or sum(map(_count_schema_bytes, missing)) > INLINE_BYTES:
            await asyncio.to_thread(lambda: [self.tool(tool, form) for tool in missing])

    def _store(self, key: Any, page: ToolPage) -> None:
        self._pages[key] = page
        self._page_bytes += len(page.tools)
        while len(self._pages) > _MAX_PAGES or (self._page_bytes > _MAX_PAGE_BYTES and len(self._pages) > 1):
            self._page_bytes -= len(self._pages.popitem(last=False)[1].tools)


def _count_schema_bytes(tool: AgentTool) -> int:
    return len(tool.inputs_json) + (len(tool.outputs_json) if _has_outputs(tool) else 0)


def _build_list(tools: Sequence[AgentTool], form: SchemaForm) -> _List:
    ordered = sorted(tools, key=lambda tool: tool.name)
    # Workers of releases that listed whole schemas only have the digest without a form.
    digest = hashlib.blake2b(b"" if form == "full" else form.encode(), digest_size=_DIGEST_BYTES)
    for tool in ordered:
        digest.update(tool.stamp.encode())
    return _List(ordered, [tool.name for tool in ordered], digest.hexdigest(), form)


def _encode_cursor(digest: str, last: str) -> str:
    return base64.urlsafe_b64encode(exact_json.dumps([digest, last])).rstrip(b"=").decode()


def _start(listed: _List, cursor: str) -> int:
    """Return the index of the first tool after a cursor."""
    try:
        value = orjson.loads(
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        )
    except (binascii.Error, ValueError):
        value = None
    if not (isinstance(value, list) and len(value) == 2 and all(isinstance(one, str) for one in value)):
        raise RpcError(INVALID_PARAMS, "The cursor is unknown.")
    if value[0] != listed.digest:
        raise RpcError(INVALID_PARAMS, "The list has changed since: list again from its first page.")
    return bisect_right(listed.names, value[1])
