"""Tools as their upstreams take them: for clients that call by themselves, with credentials of their own.

A secret is never in such a template; `${VARIABLE}` stands in its place, named after the provider and the
slot, and the client looks it up as UTCP says (its own name of the manual goes in front). What a UTCP client
cannot send exactly as the gateway does is left out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from app.errors import GatewayError
from app.json_schema.normalize import publishable
from app.json_schema.references import inline, transformed
from app.utcp.render import ManualEntry, ManualVersion, rendered_tool, single_typed
from app.utcp.templates import protocol_of
from app.utcp.templates.base import replaced
from app.utcp.variables import find_variables

Json = dict[str, Any]

DEFAULT_PROTOCOLS: Final = frozenset({"http", "sse", "streamable_http"})
"""What a client with UTCP's plugin for HTTP can read; one tool of another protocol would cost it the whole
manual."""

_ONLY_V0: Final = frozenset({"grpc", "webrtc"})
_ONLY_V1: Final = frozenset({"text"})
_LOCAL: Final = frozenset({"cli", "file"})
_NO_PARAMETERS: Final = {"style", "explode", "allow_reserved", "content_type"}
_PLACEHOLDER: Final = re.compile(r"\{([^{}]+)\}")


class NotDirect(GatewayError):
    """A UTCP client could not call this tool by itself. `detail` says why."""

    status, slug, title = 422, "not-direct", "The tool cannot be called directly"


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
    if protocol == "mcp":
        template = _with_whole_urls(template)
    kind = "http_stream" if version == 0 and protocol == "streamable_http" else protocol
    type_key = "provider_type" if version == 0 else "call_template_type"
    spelled = {type_key: kind, "name": tool.provider}
    spelled |= {key: value for key, value in template.items() if key not in ("call_template_type", "name")}
    inputs: Json = {"type": "object", **publishable(tool.inputs)}
    outputs = publishable(tool.outputs)
    if version == 0:
        inputs = transformed(inline(inputs), single_typed)
        outputs = transformed(inline(outputs), single_typed)
    entry = ManualEntry(
        _name(tool, template), tool.description, inputs, outputs, tool.tags, "", tool.provider
    )
    key = "tool_provider" if version == 0 else "tool_call_template"
    return rendered_tool(entry, inputs, outputs, key, spelled)


def _name(tool: DirectTool, template: Json) -> str:
    """The plugin for MCP reads server and tool out of the name."""
    if protocol_of(template) != "mcp":
        return tool.name
    (server,) = template["config"]["mcpServers"]
    return f"{server}.{template['tool_name']}"


def _native(template: Json, version: ManualVersion) -> Json:
    """The template in UTCP's own members."""
    protocol = protocol_of(template)
    if protocol in _LOCAL or (protocol == "mcp" and _starts_programs(template)):
        raise NotDirect("It works on the gateway's own machine.")
    if protocol in (_ONLY_V0 if version == 1 else _ONLY_V1):
        raise NotDirect(f"This generation of UTCP has no protocol {protocol}.")
    if protocol == "graphql" and find_variables(template.get("query")):
        raise NotDirect("UTCP clients take GraphQL's variables for their own.")
    if protocol == "mcp" and "tool_name" not in template:
        raise NotDirect("UTCP cannot name a resource.")
    if protocol == "http" and "parameters" in template:
        return _from_openapi(template)
    return template


def _starts_programs(template: Json) -> bool:
    return any(server.get("transport") == "stdio" for server in template["config"]["mcpServers"].values())


def _with_whole_urls(template: Json) -> Json:
    """UTCP's `mcp` has the parameters of a URL in the URL."""
    servers: Json = {}
    for name, server in template["config"]["mcpServers"].items():
        kept = {key: value for key, value in server.items() if key != "query"}
        pairs = [f"{quote(key)}={value}" for key, value in (server.get("query") or {}).items()]
        servers[name] = kept | ({"url": f"{server['url']}?{'&'.join(pairs)}"} if pairs else {})
    return {**template, "config": {**template["config"], "mcpServers": servers}}


def _from_openapi(template: Json) -> Json:
    """An OpenAPI operation whose parameters go where UTCP would put them."""
    headers: list[str] = []
    path = set(_PLACEHOLDER.findall(template["url"]))
    for spec in template["parameters"]:
        place = spec["in"]
        odd = {key for key in _NO_PARAMETERS & spec.keys() if not _usual(key, spec[key], place)}
        if spec["input"] != spec["name"] or odd or place == "cookie":
            raise NotDirect(f"UTCP cannot send the parameter {spec['name']} as the document says.")
        if place == "header":
            headers.append(spec["name"])
        elif place == "path":
            path.discard(spec["name"])
    body = template.get("body")
    if path or (body is not None and body["content_type"].partition(";")[0].strip() != "application/json"):
        raise NotDirect("UTCP cannot send this request as the document says.")
    kept = ("call_template_type", "http_method", "headers")
    fields: Json = {key: template[key] for key in kept if key in template}
    url = template["url"].replace("$", "%24")
    fields |= {"url": url, "content_type": "application/json"}
    if body is not None:
        fields["body_field"] = body["input"]
    return fields | ({"header_fields": headers} if headers else {})


def _usual(key: str, value: Any, place: str) -> bool:
    usual = {"path": ("simple", False), "header": ("simple", False)}.get(place, ("form", True))
    match key:
        case "style":
            return bool(value == usual[0])
        case "explode":
            return bool(value == usual[1])
        case _:
            return not value


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
        joiner = "&" if "?" in filled["url"] else "?"
        filled = {**filled, "url": filled["url"] + joiner + "&".join(query)}
    return filled, basic
