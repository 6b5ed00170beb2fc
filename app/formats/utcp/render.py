"""Renders the manuals of `GET /utcp` for UTCP 1.x and 0.x, in the one form that every released client can
execute.

Each tool is a POST of its arguments object: `body_field` names it, so the real inputs are below `body` (types
are lost in a query, and the Python clients crash on booleans there). Clients take `$` in a call template for
a variable and `{` for a path parameter, and reject nulls and unknown keys; none of these is written but
`${GATEWAY_TOKEN}`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.core import exact_json
from app.core.text import clean_text
from app.formats.json_schema.normalize import TYPES, make_publishable
from app.formats.json_schema.references import (
    DEFINITIONS,
    Schema,
    inline_references,
    rebase,
    transform,
)

ManualVersion = Literal[0, 1]

_JOIN_BATCH: Final = 1_000
# The versions are the newest releases whose models these documents were checked against.
_HEADS: Final = {
    1: b'{"utcp_version":"1.0.1","manual_version":"1.0.0","tools":[',
    0: b'{"version":"0.2.3","tools":[',
}
INTERFACE_HEADER: Final = "X-Call-Interface"
"""The header by which a call says that it follows a manual; every released client sends static headers."""
GATEWAYS: Final = "x-gateways"
"""The member of a call template that lists the gateways a call passes; every released client ignores it."""
_TEMPLATE_KEYS: Final = {
    1: ("tool_call_template", "call_template_type"),
    0: ("tool_provider", "provider_type"),
}
_AUTH: Final = {
    "auth_type": "api_key",
    "api_key": "Bearer ${GATEWAY_TOKEN}",
    "var_name": "Authorization",
    "location": "header",
}
STREAMING_PROTOCOL: Final = "streamable_http"
"""The protocol by which clients call tools that stream, as UTCP 1.x names it."""
_STREAMING_PROTOCOLS: Final = {1: STREAMING_PROTOCOL, 0: "http_stream"}
# A client gives up when it is over; the gateway's own limit (STREAM_TIMEOUT) is sooner.
_STREAM_MILLISECONDS: Final = 86_400_000
# Bytes that are no events come as they are, in place of their base64 in JSON.
_STREAM_TYPES: Final = "application/x-ndjson;form=values, application/octet-stream"
_UNSAFE_IN_TEMPLATES: Final = str.maketrans({"$": "%24", "{": "%7B", "}": "%7D"})
# The only keywords that the 0.x model accepts in a root schema.
_V0_KEYWORDS: Final = frozenset(
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
class ManualToolEntry:
    """A tool to publish: its alias (`name`), description and schemas, and the absolute URL at which this
    gateway takes its calls.
    """

    name: str
    description: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tags: Sequence[str]
    call_url: str
    provider: str = "gateway"
    gateways: tuple[str, ...] = ()
    """The gateways that a call passes, this one last; other gateways read it, to prevent call
    loops.
    """
    as_stream: bool = False
    """Whether clients are to read the response as a stream, by UTCP's `streamable_http`."""
    chunk_size: int | None = None
    """The bytes of a piece of such a stream that the upstream's own call template declares."""


def render_tool_v1(entry: ManualToolEntry) -> bytes:
    """Return the entry as a tool of a 1.x manual: JSON without nulls, with `$defs` at the root of
    `inputs`.
    """
    schema = make_publishable(entry.inputs)
    rebased = rebase({"type": "object", **schema}, "/properties/body")
    hoisted = {key: rebased.pop(key) for key in DEFINITIONS if key in rebased}
    inputs = _wrap_schema(rebased) | hoisted
    return _render_tool(entry, inputs, make_publishable(entry.outputs), 1)


def render_tool_v0(entry: ManualToolEntry) -> bytes:
    """Return the entry as the JSON of a tool of a 0.x manual, whose model drops `$defs`: references are
    inlined.
    """
    inputs = _wrap_schema(
        {"type": "object", **transform(inline_references(make_publishable(entry.inputs)), make_single_typed)}
    )
    outputs = transform(inline_references(make_publishable(entry.outputs)), make_single_typed)
    root_schema = {key: value for key, value in outputs.items() if key in _V0_KEYWORDS}
    root = root_schema.get("type") if root_schema.get("type") in TYPES else "object"
    outputs = {**root_schema, "type": root} | (
        {"properties": root_schema.get("properties", {})} if root == "object" else {}
    )
    return _render_tool(entry, inputs, outputs, 0)


def render_manual(version: ManualVersion, tools: Sequence[bytes]) -> bytearray:
    """Return a manual of tools that were rendered for the same version, in their order."""
    # In batches: one call that copies 70 MB would hold the global interpreter lock until it is done.
    body = bytearray(_HEADS[version])
    for start in range(0, len(tools), _JOIN_BATCH):
        if start:
            body += b","
        body += b",".join(tools[start : start + _JOIN_BATCH])
    body += b"]}"
    return body


def _wrap_schema(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"body": schema}, "required": ["body"]}


def _render_tool(entry: ManualToolEntry, inputs: Schema, outputs: Schema, version: ManualVersion) -> bytes:
    template_key, type_key = _TEMPLATE_KEYS[version]
    template: dict[str, Any] = {
        "name": entry.provider.translate(_UNSAFE_IN_TEMPLATES),
        type_key: _STREAMING_PROTOCOLS[version] if entry.as_stream else "http",
        "http_method": "POST",
        "url": entry.call_url.translate(_UNSAFE_IN_TEMPLATES),
        "content_type": "application/json",
        "headers": {
            "Accept": _STREAM_TYPES if entry.as_stream else "application/json",
            INTERFACE_HEADER: "utcp",
        },
        "body_field": "body",
        "auth": _AUTH,
    }
    if entry.as_stream:
        template["timeout"] = _STREAM_MILLISECONDS
        if entry.chunk_size is not None:
            template["chunk_size"] = entry.chunk_size
    if entry.gateways:
        template[GATEWAYS] = entry.gateways
    return write_tool(entry, inputs, outputs, template_key, template)


def write_tool(
    entry: ManualToolEntry, inputs: Schema, outputs: Schema, template_key: str, template: dict[str, Any]
) -> bytes:
    """Return a tool of a manual as JSON, without nulls and without keys that a strict client does not
    know.
    """
    return exact_json.dumps(
        {
            "name": entry.name,
            "description": clean_text(entry.description.replace("\x00", "")),
            "inputs": inputs,
            "outputs": outputs,
            "tags": list(entry.tags),
            template_key: template,
        }
    )


def make_single_typed(node: Schema) -> Schema:
    """Return the schema with a single `type`, as 0.x clients require: of a list, the only type that is not
    null, or else `anyOf` of all.
    """
    types = node.get("type")
    if not isinstance(types, list):
        return node
    named = [name for name in types if name != "null"]
    rest = {key: value for key, value in node.items() if key != "type"}
    if len(named) == 1:
        return {"type": named[0], **rest}
    return {"anyOf": [{"type": name} for name in named], **rest}
