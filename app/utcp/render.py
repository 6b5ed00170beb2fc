"""What `GET /utcp` serves: manuals of UTCP 1.x and 0.x, in the one shape that every released client can
execute.

Each tool is a POST of its arguments object: `body_field` carries it, so the real inputs stand below `body`
(types are lost in a query, and the Python clients crash on booleans there). Clients take `$` in a call
template for a variable, `{` for a path parameter, and refuse nulls and unknown keys; none is written but
`${GATEWAY_TOKEN}`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from app.json_schema.normalize import TYPES, publishable
from app.json_schema.references import DEFINITIONS, Schema, inline, rebase, transformed
from app.text import clean_text

ManualVersion = Literal[0, 1]

# The newest releases whose models these documents were checked against.
_JOINED_AT_ONCE: Final = 1_000
_HEADS: Final = {
    1: b'{"utcp_version":"1.0.1","manual_version":"1.0.0","tools":[',
    0: b'{"version":"0.2.3","tools":[',
}
GATEWAYS: Final = "x-gateways"
"""The member of a call template that says so; every released client ignores it."""
_AUTH: Final = {
    "auth_type": "api_key",
    "api_key": "Bearer ${GATEWAY_TOKEN}",
    "var_name": "Authorization",
    "location": "header",
}
_UNSAFE_IN_TEMPLATES: Final = str.maketrans({"$": "%24", "{": "%7B", "}": "%7D"})
# All that the 0.x model keeps of a root schema.
_KEPT_IN_V0: Final = frozenset(
    {
        "type",
        "properties",
        "required",
        "description",
        "title",
        "items",
        "enum",
        "minimum",
        "maximum",
        "format",
    }
)


@dataclass(frozen=True, slots=True)
class ManualEntry:
    """A tool to publish: its alias, what it is, and the absolute URL at which this gateway takes calls of
    it.
    """

    name: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tags: Sequence[str]
    call_url: str
    provider: str = "gateway"
    gateways: tuple[str, ...] = ()
    """Those that a call goes through, this one last; read by other gateways, which call in no circle."""


def render_tool_v1(entry: ManualEntry) -> bytes:
    """The entry as a tool of a 1.x manual: JSON without nulls, `$defs` at the root of `inputs`."""
    schema = publishable(entry.inputs)
    moved = rebase({"type": "object", **schema}, "/properties/body")
    hoisted = {key: moved.pop(key) for key in DEFINITIONS if key in moved}
    inputs = _wrapped(moved) | hoisted
    return _tool(entry, inputs, publishable(entry.outputs), "tool_call_template", "call_template_type")


def render_tool_v0(entry: ManualEntry) -> bytes:
    """The entry as a tool of a 0.x manual, whose model drops `$defs`: references are written out."""
    inputs = _wrapped({"type": "object", **transformed(inline(publishable(entry.inputs)), single_typed)})
    outputs = transformed(inline(publishable(entry.outputs)), single_typed)
    kept = {key: value for key, value in outputs.items() if key in _KEPT_IN_V0}
    root = kept.get("type") if kept.get("type") in TYPES else "object"
    outputs = {**kept, "type": root} | (
        {"properties": kept.get("properties", {})} if root == "object" else {}
    )
    return _tool(entry, inputs, outputs, "tool_provider", "provider_type")


def render_manual(version: ManualVersion, tools: Sequence[bytes]) -> bytearray:
    """A manual of prepared tools, all rendered for the same version, in their order."""
    # In pieces: one call that copies 70 MB would keep every other thread waiting until it is done.
    body = bytearray(_HEADS[version])
    for start in range(0, len(tools), _JOINED_AT_ONCE):
        if start:
            body += b","
        body += b",".join(tools[start : start + _JOINED_AT_ONCE])
    body += b"]}"
    return body


def _wrapped(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"body": schema}, "required": ["body"]}


def _tool(entry: ManualEntry, inputs: Schema, outputs: Schema, template_key: str, type_key: str) -> bytes:
    template: dict[str, Any] = {
        "name": entry.provider.translate(_UNSAFE_IN_TEMPLATES),
        type_key: "http",
        "http_method": "POST",
        "url": entry.call_url.translate(_UNSAFE_IN_TEMPLATES),
        "content_type": "application/json",
        "headers": {"Accept": "application/json"},
        "body_field": "body",
        "auth": _AUTH,
    }
    if entry.gateways:
        template[GATEWAYS] = entry.gateways
    return rendered_tool(entry, inputs, outputs, template_key, template)


def rendered_tool(
    entry: ManualEntry, inputs: Schema, outputs: Schema, template_key: str, template: dict[str, Any]
) -> bytes:
    """A tool of a manual as JSON: no nulls, no key that a strict client does not know."""
    return orjson.dumps(
        {
            "name": entry.name,
            "description": clean_text(entry.description.replace("\x00", "")),
            "inputs": inputs,
            "outputs": outputs,
            "tags": list(entry.tags),
            template_key: template,
        }
    )


def single_typed(node: Schema) -> Schema:
    """A list of types as clients of 0.x understand it: the one that is not null, or `anyOf`."""
    types = node.get("type")
    if not isinstance(types, list):
        return node
    named = [name for name in types if name != "null"]
    rest = {key: value for key, value in node.items() if key != "type"}
    if len(named) == 1:
        return {"type": named[0], **rest}
    return {"anyOf": [{"type": name} for name in named], **rest}
