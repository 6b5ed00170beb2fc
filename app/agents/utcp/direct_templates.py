"""Renders tools with their upstreams' call templates, for clients that call upstreams with their own
credentials.

A template never contains a secret but a `${VARIABLE}` in its place, named after the provider and the slot,
which the client looks up by UTCP's rules (with its own name of the manual as prefix). A tool that a UTCP
client cannot call exactly as the gateway does is omitted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from app.formats.json_schema.normalize import make_publishable
from app.formats.json_schema.references import inline_references, transform
from app.formats.utcp.call_template import replace_strings
from app.formats.utcp.render import ManualToolEntry, ManualVersion, make_single_typed, write_tool
from app.protocols.call_templates import protocol_of
from app.protocols.record import NotDirect
from app.protocols.registry import PROTOCOLS
from app.security.requirements import SecurityRequirements, SlotRequirement

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DirectSlot:
    """A credential slot as far as it is known. `name` is the header, parameter or cookie of an API key;
    `scheme` is what precedes a bearer token; `values` are the locations and names of values that the template
    itself contained.
    """

    kind: str
    location: str | None = None
    name: str | None = None
    token_url: str | None = None
    scope: str | None = None
    grant_type: str = "client_credentials"
    values: Sequence[Mapping[str, str]] = ()
    scheme: str = "Bearer"


@dataclass(frozen=True, slots=True)
class DirectTool:
    """A tool with its stored template, in which variables that are not secret have their values."""

    name: str
    provider: str
    description: str
    inputs: Json
    outputs: Json
    tags: Sequence[str]
    template: Json = field(repr=False)
    security: SecurityRequirements = ()
    slots: Mapping[str, DirectSlot] = field(default_factory=dict)


def render_direct(tool: DirectTool, version: ManualVersion) -> bytes:
    """Return the tool as the JSON of an entry of a 1.x or 0.x manual; raise NotDirect where UTCP cannot
    express it.
    """
    tool = _without_unsendable(tool)
    template = _native(tool.template, version)
    if "body_field" in template and template["body_field"] is None:
        # Strict clients reject a null, and without the member they take an argument named body for the body.
        if "body" in tool.inputs.get("properties", {}):
            raise NotDirect("UTCP cannot express that an argument named body is not the body.")
        template = {key: value for key, value in template.items() if key != "body_field"}
    template = _with_security(template, tool)
    protocol = protocol_of(template)
    direct = PROTOCOLS[protocol].direct
    template = direct.finish(template)
    if version == 0:
        members = {"provider_type": direct.name_v0 or protocol, "name": tool.provider}
    else:
        members = {"call_template_type": protocol, "name": tool.provider}
    members |= {key: value for key, value in template.items() if key not in ("call_template_type", "name")}
    inputs: Json = {"type": "object", **make_publishable(tool.inputs)}
    outputs = make_publishable(tool.outputs)
    if version == 0:
        inputs = transform(inline_references(inputs), make_single_typed)
        outputs = transform(inline_references(outputs), make_single_typed)
    entry = ManualToolEntry(
        direct.tool_name(tool.name, template), tool.description, inputs, outputs, tool.tags, "", tool.provider
    )
    key = "tool_provider" if version == 0 else "tool_call_template"
    return write_tool(entry, inputs, outputs, key, members)


def _without_unsendable(tool: DirectTool) -> DirectTool:
    """Return the tool without the optional arguments that its protocol cannot send by UTCP's own members."""
    record = PROTOCOLS.get(protocol_of(tool.template))
    properties = tool.inputs.get("properties")
    if record is None or not isinstance(properties, dict):
        return tool
    required = frozenset(tool.inputs.get("required") or ())
    template, dropped = record.direct.without_unsendable(tool.template, required)
    kept = {name: schema for name, schema in properties.items() if name not in dropped}
    return replace(tool, template=template, inputs={**tool.inputs, "properties": kept}) if dropped else tool


def _native(template: Json, version: ManualVersion) -> Json:
    """Return the template with UTCP's own members only."""
    protocol = protocol_of(template)
    record = PROTOCOLS.get(protocol)
    if record is None or version not in record.direct.versions:
        raise NotDirect(f"This generation of UTCP does not have the protocol {protocol}.")
    return record.direct.native(template)


def _with_security(template: Json, tool: DirectTool) -> Json:
    """Return the template with `auth`, and with variables in place of the values that it contained itself."""
    alternative = _usable_alternative(tool)
    auth: Json | None = None
    for need in alternative:
        slot = tool.slots.get(need.slot) or DirectSlot("any")
        prefix = re.sub(r"[^A-Z0-9]+", "_", f"{tool.provider}_{need.slot}".upper())
        if slot.kind == "static":
            template, basic = _with_values(template, slot, prefix)
            auth = auth or basic
        else:
            auth = _auth(slot, prefix, need.scopes) or auth
    return template | ({"auth": auth} if auth is not None else {})


def _usable_alternative(tool: DirectTool) -> Sequence[SlotRequirement]:
    """Return the first alternative with at most one credential in addition to the template's own values."""
    if not tool.security:
        return ()
    for alternative in tool.security:
        others = [need for need in alternative if _kind(tool, need) != "static"]
        # Released UTCP clients have no client certificates.
        unmet = any(need.certificate or _kind(tool, need) == "unsupported" for need in others)
        if len(others) < 2 and not unmet:
            return alternative
    raise NotDirect("UTCP has no auth for the credentials that the tool requires.")


def _kind(tool: DirectTool, need: SlotRequirement) -> str:
    slot = tool.slots.get(need.slot)
    return "any" if slot is None else slot.kind


def _auth(slot: DirectSlot, prefix: str, scopes: Sequence[str]) -> Json | None:
    match slot.kind:
        case "api_key":
            return {
                "auth_type": "api_key", "api_key": f"${{{prefix}}}",
                "var_name": slot.name or "X-Api-Key", "location": slot.location or "header",
            }  # fmt: skip
        case "bearer":
            return {
                "auth_type": "api_key", "api_key": f"{slot.scheme} ${{{prefix}}}",
                "var_name": "Authorization", "location": "header",
            }  # fmt: skip
        case "basic":
            return {
                "auth_type": "basic", "username": f"${{{prefix}_USERNAME}}",
                "password": f"${{{prefix}_PASSWORD}}",
            }  # fmt: skip
        case "aws_sigv4" | "hmac" | "digest" | "google_service_account":
            raise NotDirect(f"Released UTCP clients have no auth of the type {slot.kind}.")
        case "oauth2" if slot.grant_type != "client_credentials":
            raise NotDirect(f"Released UTCP clients do not have the grant {slot.grant_type}.")
        case "oauth2" if slot.token_url:
            scope = slot.scope or " ".join(scopes)
            auth = {
                "auth_type": "oauth2", "token_url": slot.token_url, "client_id": f"${{{prefix}_CLIENT_ID}}",
                "client_secret": f"${{{prefix}_CLIENT_SECRET}}",
            }  # fmt: skip
            return auth | ({"scope": scope} if scope else {})
        case "oauth2":
            raise NotDirect("The token endpoint is not known.")
    return None


def _with_values(template: Json, slot: DirectSlot, prefix: str) -> tuple[Json, Json | None]:
    """Put variables in place of the values that the template contained; return it, and basic auth for
    userinfo.
    """
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
    filled: Json = replace_strings(template, fields)
    if headers:
        filled = {**filled, "headers": headers}
    if query:
        key = next(key for key in PROTOCOLS[protocol_of(filled)].template.url_fields if key in filled)
        joiner = "&" if "?" in filled[key] else "?"
        filled = {**filled, key: filled[key] + joiner + "&".join(query)}
    return filled, basic
