"""Code and configuration that connect a client with a new key: to the whole gateway, or to one toolset.

The key is never part of it: each snippet reads it from the environment variable `UTCP_GATEWAY_KEY`.
"""

import shlex
from typing import Final
from urllib.parse import quote

from app.console.views.snippets import (
    KEY_VARIABLE,
    URL_VARIABLE,
    Snippet,
    SnippetPart,
    literal,
)

_TASK: Final = "what it is for"
_CLIENTS: Final = (("openai", "OpenAI", "openai-chat"), ("anthropic", "Anthropic", "anthropic"))


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


def key_snippets(*, base_url: str, toolset: str | None) -> tuple[Snippet, ...]:
    """Return a snippet for each client; `base_url` is the gateway's public address, `toolset` the name of the
    only toolset that the key is limited to.
    """
    base = base_url.rstrip("/")
    path = f"/toolsets/{quote(toolset)}" if toolset else ""
    search = f"{path}/search" if toolset else "/tools/search"
    curl = (
        f"export {URL_VARIABLE}={shlex.quote(base)}\nexport {KEY_VARIABLE}=...\n"
        f'curl "${URL_VARIABLE}{search}?q={quote(_TASK)}" \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"\n'
    )
    server = {
        "type": "http",
        "url": f"{base}{path}/mcp",
        "headers": {"Authorization": f"Bearer ${{{KEY_VARIABLE}}}"},
    }
    configuration = literal({"mcpServers": {toolset or "utcp-gateway": server}}, "json") + "\n"
    return (
        Snippet("curl", "curl", (SnippetPart(_("Shell"), curl),)),
        Snippet(
            "python",
            "Python",
            (SnippetPart(_("Client library in packages/python"), _write_python(base, toolset)),),
        ),
        Snippet(
            "typescript",
            "TypeScript",
            (SnippetPart(_("Client library in packages/typescript"), _write_typescript(base, toolset)),),
        ),
        Snippet("mcp", "MCP", (SnippetPart(_("Configuration of a client"), configuration),)),
        *(
            Snippet(
                name, title, (SnippetPart(_("In Python"), _write_model(name, title, dialect, base, toolset)),)
            )
            for name, title, dialect in _CLIENTS
        ),
    )


def _write_gateway(base: str, toolset: str | None) -> str:
    chosen = f", toolset={literal(toolset, 'python')}" if toolset else ""
    return f"Gateway(url={literal(base, 'python')}{chosen})"


def _write_python(base: str, toolset: str | None) -> str:
    return (
        "from utcp_gateway_client.gateway import Gateway\n\n"
        f"# The key is read from {KEY_VARIABLE}.\n"
        f"with {_write_gateway(base, toolset)} as gateway:\n"
        f"    for tool in gateway.search({literal(_TASK, 'python')}):\n"
        "        print(tool.name)\n"
    )


def _write_typescript(base: str, toolset: str | None) -> str:
    options = {"url": base, **({"toolset": toolset} if toolset else {})}
    return (
        'import { Gateway } from "@utcp-gateway/client";\n\n'
        f"// The key is read from {KEY_VARIABLE}.\n"
        f"const gateway = new Gateway({literal(options, 'script')});\n"
        f"console.log(await gateway.search({literal(_TASK, 'script')}));\n"
    )


def _write_model(name: str, title: str, dialect: str, base: str, toolset: str | None) -> str:
    create = {
        "openai": (
            "OpenAI().chat.completions.create(\n"
            '        model=os.environ["MODEL"], messages=messages, tools=tools\n    )\n'
            "    messages.append(response.choices[0].message)\n"
        ),
        "anthropic": (
            "Anthropic().messages.create(\n"
            '        model=os.environ["MODEL"], max_tokens=1000, messages=messages, tools=tools\n    )\n'
            '    messages.append({"role": "assistant", "content": response.content})\n'
        ),
    }[name]
    wanted = "" if toolset else f"{literal(_TASK, 'python')}, "
    return (
        f"import os\n\nfrom {name} import {title}\nfrom utcp_gateway_client.gateway import Gateway\n\n"
        'messages = [{"role": "user", "content": "..."}]\n'
        f"with {_write_gateway(base, toolset)} as gateway:\n"
        f"    tools = gateway.tools({wanted}format={literal(dialect, 'python')})\n"
        f"    response = {create}"
        "    messages += gateway.run(response)\n"
    )
