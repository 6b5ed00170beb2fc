"""A converted OpenAPI document -> a ToolSet."""

from collections.abc import Mapping
from dataclasses import replace

from app.credentials.model import DEFAULT_SLOT, GivenCredential, InlineCredential, Json, Security
from app.credentials.origins import origin_of_template
from app.credentials.slots import fill_matching
from app.openapi.model import Conversion, ConvertedTool
from app.registration.model import StoredSource, ToolDraft, ToolSet
from app.registration.report import warning, with_warnings

_SLOT_KEYS = ("slot", "kind", "scheme", "location", "name", "token_url", "scopes", "description")


def from_conversion(conversion: Conversion, *, source: StoredSource) -> ToolSet:
    """The tools of a document. A document without any security scheme leaves its tools the slot `default`,
    because many APIs want a key and do not say so.
    """
    undeclared = not conversion.slots
    slots = tuple(slot_entry(slot) for slot in conversion.slots)
    tools = tuple(_draft(tool, undeclared=undeclared) for tool in conversion.tools)
    return ToolSet(
        kind="openapi",
        tools=tools,
        report=conversion.report,
        source=source,
        title=conversion.title,
        description=conversion.description,
        slots=({"slot": DEFAULT_SLOT, "kind": "any"},) if undeclared else slots,
    )


def with_auth_tools(tool_set: ToolSet, auth: GivenCredential | None) -> ToolSet:
    """The set with a template's `auth_tools` in each slot that it fits; a warning where it fits none."""
    if auth is None:
        return tool_set
    fitting = [slot["slot"] for slot in tool_set.slots if slot["kind"] == "any"]
    fitting = fitting or fill_matching(auth, tool_set.slots)
    inline = tuple(InlineCredential(slot, auth, "") for slot in fitting)
    if inline:
        return replace(tool_set, inline=(*tool_set.inline, *inline))
    remark = warning("auth_tools fits no security scheme of the document and is not used.")
    return replace(tool_set, report=with_warnings(tool_set.report, remark))


def slot_entry(slot: Mapping[str, object]) -> Json:
    """The part of a converted slot that is kept and shown."""
    return {key: slot[key] for key in _SLOT_KEYS if slot.get(key) not in (None, "")}


def _draft(tool: ConvertedTool, *, undeclared: bool) -> ToolDraft:
    optional: Security = [[{"slot": DEFAULT_SLOT, "scopes": []}], []]
    return ToolDraft(
        source_key=tool.source_key,
        name=tool.name,
        description=tool.description,
        inputs=tool.inputs,
        outputs=tool.outputs,
        tags=tuple(tool.tags),
        call_template=tool.call_template,
        security=optional if undeclared else tool.security,
        origin=origin_of_template(tool.call_template) or "",
        deprecated=tool.deprecated,
        shown=tool.shown,
    )
