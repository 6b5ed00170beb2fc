"""Tools as their upstreams take them: for clients that call by themselves, with credentials of their own.

A secret is never in such a template; `${VARIABLE}` stands in its place, named after the provider and the
slot, and the client looks it up as UTCP says (its own name of the manual goes in front). What a UTCP client
cannot send exactly as the gateway does is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from app.json_schema.normalize import publishable
from app.json_schema.references import inline, transformed
from app.protocols.call_templates import protocol_of
from app.protocols.record import NotDirect
from app.protocols.registry import PROTOCOLS
from app.utcp.call_template import replaced
from app.utcp.render import ManualEntry, ManualVersion, rendered_tool, single_typed

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """What is known of a credential slot; `name` is where a key goes, `values` those of a template itself."""

    kind: str
    location: str | None = None
    name: str | None = None
    token_url: str | None = None
    scope: str | None = None
    values: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class DirectTool:
    """A tool with its stored template, its open variables written out."""

    name: str
    provider: str
    description: str
    inputs: Json
    outputs: Json
    tags: Sequence[str]
    template: Json = field(repr=False)
    security: Sequence[Sequence[Mapping[str, Any]]] = ()
    slots: Mapping[str, Slot] = field(default_factory=dict)


def render_direct(tool: DirectTool, version: ManualVersion) -> bytes:
    """The tool as one of a manual of 1.x or 0.x; raises NotDirect."""
    template = _native(tool.template, version)
    if "body_field" in template and template["body_field"] is None:
        # Strict clients refuse a null, and take an argument called body for the body without it.
        if "body" in tool.inputs.get("properties", {}):
            raise NotDirect("UTCP cannot say that an argument called body is none.")
        template = {key: value for key, value in template.items() if key != "body_field"}
    template = _with_security(template, tool)
    protocol = protocol_of(template)
    direct = PROTOCOLS[protocol].direct
    template = direct.finish(template)
    if version == 0:
        spelled = {"provider_type": direct.name_v0 or protocol, "name": tool.provider}
    else:
        spelled = {"call_template_type": protocol, "name": tool.provider}
    spelled |= {key: value for key, value in template.items() if key not in ("call_template_type", "name")}
    inputs: Json = {"type": "object", **publishable(tool.inputs)}
    outputs = publishable(tool.outputs)
    if version == 0:
        inputs = transformed(inline(inputs), single_typed)
        outputs = transformed(inline(outputs), single_typed)
    entry = ManualEntry(
        direct.tool_name(tool.name, template), tool.description, inputs, outputs, tool.tags, "", tool.provider
    )
    key = "tool_provider" if version == 0 else "tool_call_template"
    return rendered_tool(entry, inputs, outputs, key, spelled)


def _native(template: Json, version: ManualVersion) -> Json:
    """The template in UTCP's own members."""
    protocol = protocol_of(template)
    record = PROTOCOLS.get(protocol)
    if record is None or version not in record.direct.versions:
        raise NotDirect(f"This generation of UTCP has no protocol {protocol}.")
    return record.direct.native(template)


def _with_security(template: Json, tool: DirectTool) -> Json:
    """The template with `auth`, and variables for the values that it had itself."""
    alternative = _simplest(tool)
    auth: Json | None = None
    for need in alternative:
        slot = tool.slots.get(need["slot"]) or Slot("any")
        prefix = re.sub(r"[^A-Z0-9]+", "_", f"{tool.provider}_{need['slot']}".upper())
        if slot.kind == "static":
            template, basic = _with_values(template, slot, prefix)
            auth = auth or basic
        else:
            auth = _auth(slot, prefix, need.get("scopes") or ()) or auth
    return template | ({"auth": auth} if auth is not None else {})


def _simplest(tool: DirectTool) -> Sequence[Mapping[str, Any]]:
    """The first alternative with at most one credential beside the template's own values."""
    if not tool.security:
        return ()
    for alternative in tool.security:
        others = [need for need in alternative if _kind(tool, need) != "static"]
        if len(others) < 2 and all(_kind(tool, need) != "unsupported" for need in others):
            return alternative
    raise NotDirect("UTCP has no auth for what it needs.")


def _kind(tool: DirectTool, need: Mapping[str, Any]) -> str:
    slot = tool.slots.get(need["slot"])
    return "any" if slot is None else slot.kind


def _auth(slot: Slot, prefix: str, scopes: Sequence[str]) -> Json | None:
    match slot.kind:
        case "api_key":
            return {
                "auth_type": "api_key", "api_key": f"${{{prefix}}}",
                "var_name": slot.name or "X-Api-Key", "location": slot.location or "header",
            }  # fmt: skip
        case "bearer":
            return {
                "auth_type": "api_key", "api_key": f"Bearer ${{{prefix}}}", "var_name": "Authorization",
                "location": "header",
            }  # fmt: skip
        case "basic":
            return {
                "auth_type": "basic", "username": f"${{{prefix}_USERNAME}}",
                "password": f"${{{prefix}_PASSWORD}}",
            }  # fmt: skip
        case "oauth2" if slot.token_url:
            scope = slot.scope or " ".join(scopes)
            auth = {
                "auth_type": "oauth2", "token_url": slot.token_url, "client_id": f"${{{prefix}_CLIENT_ID}}",
                "client_secret": f"${{{prefix}_CLIENT_SECRET}}",
            }  # fmt: skip
            return auth | ({"scope": scope} if scope else {})
        case "oauth2":
            raise NotDirect("Its token endpoint is not known.")
    return None


def _with_values(template: Json, slot: Slot, prefix: str) -> tuple[Json, Json | None]:
    """Variables where the template itself held values; userinfo becomes basic auth."""
    headers = dict(template.get("headers") or {})
    fields: dict[str, str] = {}
    query: list[str] = []
    basic = None
    for value in slot.values:
        name = value["name"]
        variable = f"${{{prefix}_{re.sub(r'[^A-Z0-9]+', '_', name.upper()).strip('_')}}}"
        match value["location"]:
            case "header":
                headers[name] = variable
            case "query":
                query.append(f"{quote(name)}={variable}")
            case "field":
                fields[name] = variable
            case _:
                basic = {
                    "auth_type": "basic", "username": f"${{{prefix}_USERNAME}}",
                    "password": f"${{{prefix}_PASSWORD}}",
                }  # fmt: skip
    filled: Json = replaced(template, fields)
    if headers:
        filled = {**filled, "headers": headers}
    if query:
        key = next(key for key in PROTOCOLS[protocol_of(filled)].template.url_fields if key in filled)
        joiner = "&" if "?" in filled[key] else "?"
        filled = {**filled, key: filled[key] + joiner + "&".join(query)}
    return filled, basic
