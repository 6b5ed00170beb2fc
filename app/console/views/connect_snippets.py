"""What to paste into a client that is to use a toolset; `YOUR_KEY` stands for an API key."""

from collections.abc import Mapping
from typing import Final

import orjson

from app.core import exact_json

KEY: Final = "YOUR_KEY"


def toolset_snippets(name: str, addresses: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return labels and texts for the addresses of a toolset."""
    return [
        ("Claude Code", _write_claude_code(name, addresses["mcp"])),
        ("MCP (JSON)", _write_mcp_configuration(name, addresses["mcp"])),
        ("UTCP (JSON)", _write_utcp_configuration(name, addresses["utcp"])),
        ("OpenAI, Anthropic, … (curl)", _write_tool_calls(addresses)),
    ]


def _write_claude_code(name: str, url: str) -> str:
    return f'claude mcp add --transport http {name} {url} --header "Authorization: Bearer {KEY}"'


def _write_mcp_configuration(name: str, url: str) -> str:
    server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {KEY}"}}
    return _write_json({"mcpServers": {name: server}})


def _write_utcp_configuration(name: str, url: str) -> str:
    template = {
        "name": name.replace("-", "_"),
        "call_template_type": "http",
        "http_method": "GET",
        "url": url,
        "headers": {"Authorization": f"Bearer {KEY}"},
    }
    return _write_json({"manual_call_templates": [template]})


def _write_tool_calls(addresses: Mapping[str, str]) -> str:
    export = addresses["search"].removesuffix("search") + "export?format=openai-chat"
    header = f'-H "Authorization: Bearer {KEY}"'
    return (
        f'# The tools for the request to the model\ncurl {header} "{export}"\n\n'
        "# Its response: the calls are executed, and the response has their results\n"
        f'curl {header} -H "Content-Type: application/json" -d @response.json "{addresses["tool_calls"]}"'
    )


def _write_json(value: object) -> str:
    return exact_json.dumps(value, option=orjson.OPT_INDENT_2).decode()
