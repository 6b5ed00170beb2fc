"""The UTCP manual of a collection, in the form that released clients of UTCP 1.x and 0.x can read and call.

Each tool is a POST of its arguments as JSON: `body_field` names them, so that they are below `body` in the
inputs (clients write all others into the query, as text). Clients reject nulls and take `$` and `{` in a URL
for variables and parameters.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import quote

from utcp_gateway_client.tools import AnyTool, ToolCollection
from utcp_gateway_client.tools.schemas import Schema, mapped

ManualVersion = Literal[0, 1]
TOKEN_VARIABLE: Final = "TOOLS_TOKEN"
"""The variable of a manual that stands for the bearer token."""

_HEADS: Final[Mapping[ManualVersion, Mapping[str, str]]] = {
    1: {"utcp_version": "1.0.1", "manual_version": "1.0.0"},
    0: {"version": "0.2.3"},
}
_TEMPLATE_KEYS: Final[Mapping[ManualVersion, tuple[str, str]]] = {
    1: ("tool_call_template", "call_template_type"),
    0: ("tool_provider", "provider_type"),
}
_AUTH: Final = {
    "auth_type": "api_key",
    "api_key": f"Bearer ${{{TOKEN_VARIABLE}}}",
    "var_name": "Authorization",
    "location": "header",
}
# The only keywords that the model of 0.x accepts in a root schema.
_ROOT_KEYWORDS_V0: Final = frozenset(
    {
        "type", "properties", "required", "description", "title", "items", "enum", "minimum", "maximum",
        "format",
    }
)  # fmt: skip


def manual(
    tools: ToolCollection, *, base_url: str, name: str, version: ManualVersion = 1, has_token: bool = False
) -> dict[str, Any]:
    """Return the manual of tools that are called at `base_url`/tools/NAME; `name` is that of the provider.

    With `has_token` each tool has an `auth` with the variable TOOLS_TOKEN.
    """
    base = quote(base_url.rstrip("/"), safe=":/@[]%")
    return {
        **_HEADS[version],
        "tools": [
            _entry(each, f"{base}/tools/{each.name}", name, version, has_token=has_token) for each in tools
        ],
    }


def _entry(
    tool: AnyTool, url: str, provider: str, version: ManualVersion, *, has_token: bool
) -> dict[str, Any]:
    template_key, type_key = _TEMPLATE_KEYS[version]
    template: dict[str, Any] = {
        "name": provider,
        type_key: "http",
        "http_method": "POST",
        "url": url,
        "content_type": "application/json",
        "headers": {"Accept": "application/json"},
        "body_field": "body",
    }
    if has_token:
        template["auth"] = _AUTH
    return {
        "name": tool.name,
        "description": tool.description,
        "inputs": {
            "type": "object",
            "properties": {"body": without_null_values(tool.argument_schema)},
            "required": ["body"],
        },
        "outputs": _outputs(tool, version),
        "tags": list(tool.tags),
        template_key: template,
    }


def _outputs(tool: AnyTool, version: ManualVersion) -> Schema:
    outputs: Schema = without_null_values(tool.output_schema)
    if version == 1:
        return outputs
    root = {key: value for key, value in outputs.items() if key in _ROOT_KEYWORDS_V0}
    kind = root.get("type", "object")
    return root | {"type": kind} | ({"properties": root.get("properties", {})} if kind == "object" else {})


def without_null_values(schema: Any) -> Any:
    """Return a schema whose defaults, examples, enums and constants contain no null, which strict clients
    reject.
    """
    if not isinstance(schema, Mapping):
        return schema
    result = mapped(schema, without_null_values)
    for key in ("default", "examples"):
        if _has_null(result.get(key, ())):
            del result[key]
    if "const" in result and result["const"] is None:
        del result["const"]
        result["type"] = "null"
    if None in result.get("enum", ()):
        others = [value for value in result.pop("enum") if value is not None]
        kind = {"type": result.pop("type")} if isinstance(result.get("type"), str) else {}
        result["anyOf"] = [{**kind, "enum": others}, {"type": "null"}]
    return result


def _has_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_null, value.values()))
    if isinstance(value, list):
        return any(map(_has_null, value))
    return value is None
