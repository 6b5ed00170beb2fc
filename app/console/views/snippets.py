"""Code that makes a call of a tool from outside: curl, client libraries, MCP, and the clients of two models.

The key is never part of it: each snippet reads it from the environment variable `UTCP_GATEWAY_KEY`.
Characters that nobody sees are written as escapes, so that what is copied is what was shown.
"""

import json
import shlex
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from app.console.views.values.visible_text import has_invisible

KEY_VARIABLE: Final = "UTCP_GATEWAY_KEY"
URL_VARIABLE: Final = "UTCP_GATEWAY_URL"
_MAX_DEPTH: Final = 60


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


@dataclass(frozen=True, slots=True)
class SnippetPart:
    """A part of a snippet to copy by itself; `label` says what it is, as a message to translate."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """The code of one client; `name` is part of a URL, `title` a proper name."""

    name: str
    title: str
    parts: tuple[SnippetPart, ...]


def snippets(tool: str, arguments: Any, *, base_url: str, alias: str) -> tuple[Snippet, ...]:
    """Return a snippet for each client: a call of `tool` with `arguments`, a JSON object.

    `base_url` is the gateway's public address; `alias` is the name of the tool for clients that allow no dot.
    """
    base = base_url.rstrip("/")
    return (
        Snippet("curl", "curl", (SnippetPart(_("Shell"), _write_curl(tool, arguments, base)),)),
        Snippet(
            "python", "Python",
            (SnippetPart(_("Client library in packages/python"), _write_python(tool, arguments, base)),),
        ),
        Snippet(
            "typescript", "TypeScript",
            (
                SnippetPart(
                    _("Client library in packages/typescript"), _write_typescript(tool, arguments, base)
                ),
            ),
        ),
        Snippet("mcp", "MCP", _write_mcp(tool, arguments, base)),
        Snippet("openai", "OpenAI", _write_openai(tool, arguments, base, alias)),
        Snippet("anthropic", "Anthropic", _write_anthropic(tool, arguments, base, alias)),
    )  # fmt: skip


def _write_exports(base: str) -> str:
    return f"export {URL_VARIABLE}={shlex.quote(base)}\nexport {KEY_VARIABLE}=...\n"


def _post(path: str, body: Any) -> str:
    """Return a curl command; the body is an argument of the shell in single quotes."""
    return (
        f'curl "${URL_VARIABLE}{path}" \\\n'
        f'  -H "Authorization: Bearer ${KEY_VARIABLE}" \\\n'
        '  -H "Content-Type: application/json" \\\n'
        f"  --data-raw {shlex.quote(literal(body, 'json'))}"
    )


def _write_curl(tool: str, arguments: Any, base: str) -> str:
    # Without an Accept header, curl accepts everything: the response is the upstream's own.
    return f"{_write_exports(base)}{_post(f'/tools/{quote(tool)}/call', arguments)}\n"


def _write_python(tool: str, arguments: Any, base: str) -> str:
    called = literal(arguments, "python", 1)
    return (
        "from utcp_gateway_client.gateway import Gateway\n\n"
        f"# The key is read from {KEY_VARIABLE}.\n"
        f"with Gateway(url={literal(base, 'python')}) as gateway:\n"
        f"    print(gateway.call({literal(tool, 'python')}, {called}))\n"
    )


def _write_typescript(tool: str, arguments: Any, base: str) -> str:
    return (
        'import { Gateway } from "@utcp-gateway/client";\n\n'
        f"// The key is read from {KEY_VARIABLE}.\n"
        f"const gateway = new Gateway({{ url: {literal(base, 'script')} }});\n"
        f"console.log(await gateway.call({literal(tool, 'script')}, {literal(arguments, 'script')}));\n"
    )


def _write_mcp(tool: str, arguments: Any, base: str) -> tuple[SnippetPart, ...]:
    server = {
        "type": "http",
        "url": f"{base}/mcp",
        "headers": {"Authorization": f"Bearer ${{{KEY_VARIABLE}}}"},
    }
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    return (
        SnippetPart(
            _("Configuration of a client"), literal({"mcpServers": {"utcp-gateway": server}}, "json") + "\n"
        ),
        SnippetPart(_("Request"), literal(call, "json") + "\n"),
    )


def _export(tool: str, dialect: str, base: str) -> str:
    return (
        f"{_write_exports(base)}"
        f'curl "${URL_VARIABLE}/tools/export?format={dialect}&names={quote(tool)}" \\\n'
        f'  -H "Authorization: Bearer ${KEY_VARIABLE}"\n'
    )


def _write_openai(tool: str, arguments: Any, base: str, alias: str) -> tuple[SnippetPart, ...]:
    function = {"name": alias, "arguments": literal(arguments, "json", compact=True)}
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    return (
        SnippetPart(_("Definition of the tool"), _export(tool, "openai-chat", base)),
        SnippetPart(_("Run the call that the model responded"), _post("/tool-calls", message) + "\n"),
        SnippetPart(
            _("In Python"),
            "import os\n\nfrom openai import OpenAI\nfrom utcp_gateway_client.gateway import Gateway\n\n"
            'messages = [{"role": "user", "content": "..."}]\n'
            f"with Gateway(url={literal(base, 'python')}) as gateway:\n"
            f'    tools = gateway.tools([{literal(tool, "python")}], format="openai-chat")\n'
            "    response = OpenAI().chat.completions.create(\n"
            '        model=os.environ["MODEL"], messages=messages, tools=tools\n'
            "    )\n"
            "    messages.append(response.choices[0].message)\n"
            "    messages += gateway.run(response)\n",
        ),
    )


def _write_anthropic(tool: str, arguments: Any, base: str, alias: str) -> tuple[SnippetPart, ...]:
    message = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "toolu_1", "name": alias, "input": arguments}],
        "stop_reason": "tool_use",
    }
    return (
        SnippetPart(_("Definition of the tool"), _export(tool, "anthropic", base)),
        SnippetPart(_("Run the call that the model responded"), _post("/tool-calls", message) + "\n"),
        SnippetPart(
            _("In Python"),
            "import os\n\nfrom anthropic import Anthropic\n"
            "from utcp_gateway_client.gateway import Gateway\n\n"
            'messages = [{"role": "user", "content": "..."}]\n'
            f"with Gateway(url={literal(base, 'python')}) as gateway:\n"
            f'    tools = gateway.tools([{literal(tool, "python")}], format="anthropic")\n'
            "    response = Anthropic().messages.create(\n"
            '        model=os.environ["MODEL"], max_tokens=1000, messages=messages, tools=tools\n'
            "    )\n"
            '    messages.append({"role": "assistant", "content": response.content})\n'
            "    messages += gateway.run(response)\n",
        ),
    )


def literal(value: Any, language: str, level: int = 0, *, compact: bool = False) -> str:
    """Return a JSON value as source text of a language: `json`, `python` or `script` (JavaScript).

    It is on several lines, indented from `level` on, unless it is short or `compact`.
    """
    flat = _write_flat(value, language)
    if compact or len(flat) <= 80 or level > _MAX_DEPTH or not isinstance(value, dict | list) or not value:
        return flat
    inner, outer = "    " * (level + 1), "    " * level
    if language != "python":
        inner, outer = "  " * (level + 1), "  " * level
    if isinstance(value, dict):
        members = [
            f"{_write_key(key, language)}: {literal(one, language, level + 1)}" for key, one in value.items()
        ]
        opening, closing = "{", "}"
    else:
        members = [literal(one, language, level + 1) for one in value]
        opening, closing = "[", "]"
    last = "," if language == "python" else ""
    return opening + "\n" + ",\n".join(inner + member for member in members) + last + "\n" + outer + closing


def _write_flat(value: Any, language: str) -> str:
    if isinstance(value, str):
        return _write_string(value, language)
    if value is None or isinstance(value, bool):
        return repr(value) if language == "python" else json.dumps(value)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{_write_key(key, language)}: {_write_flat(one, language)}" for key, one in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_write_flat(one, language) for one in value) + "]"
    return json.dumps(value)


def _write_key(key: str, language: str) -> str:
    # In a literal of JavaScript, this name sets the prototype.
    return '["__proto__"]' if key == "__proto__" and language == "script" else _write_string(key, language)


def _write_string(text: str, language: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    if not has_invisible(written):
        return written
    return "".join(_escape(one, language) if has_invisible(one) else one for one in written)


def _escape(character: str, language: str) -> str:
    if language == "python" and ord(character) > 0xFFFF:
        return f"\\U{ord(character):08x}"
    # For JSON and JavaScript, a character beyond 16 bits is two escapes.
    return json.dumps(character)[1:-1]
