"""Documents that upstreams of these tests serve."""


def openapi(url, *, paths=("/pets",), token_url=None):
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    if token_url:
        flows = {"clientCredentials": {"tokenUrl": token_url, "scopes": {}}}
        schemes["oauth"] = {"type": "oauth2", "flows": flows}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Pets", "version": "1"},
        "servers": [{"url": url}],
        "security": [{"key": []}],
        "paths": {
            path: {"get": {"operationId": "list" + path.strip("/").capitalize(),
                           "responses": {"200": {"description": "ok"}}}}
            for path in paths
        },
        "components": {"securitySchemes": schemes},
    }  # fmt: skip


def tool(name, url, **template):
    return {
        "name": name,
        "description": f"Does {name}",
        "inputs": {"type": "object", "properties": {"q": {"type": "string"}}},
        "tags": ["imported"],
        "tool_call_template": {"call_template_type": "http", "http_method": "GET", "url": url, **template},
    }


def manual(*tools):
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools)}


def manual_v0(*tools):
    entries = []
    for one in tools:
        template = dict(one["tool_call_template"])
        template["provider_type"] = template.pop("call_template_type")
        rest = {key: value for key, value in one.items() if key != "tool_call_template"}
        entries.append({**rest, "tool_provider": {"name": "p", **template}})
    return {"version": "0.2.3", "tools": entries}
