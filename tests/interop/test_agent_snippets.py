"""The snippets of docs/agents.md that use a library run as they stand.

Only the address of the gateway is replaced; the key and the name of the model are variables in them.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import httpx2
import pytest
from aiohttp import web

from app.cli.sample import serve_sample_api
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.environments import (
    install_client_library,
    install_mcp,
    install_node,
    interpreter,
    required,
)
from tests.interop.model_providers import CALLS, ERRORS, providers

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
ADDRESS = "https://tools.example.com"
NAMES = "[tool.name for tool in tools]"
# The environment of each Python snippet, and what is compared at its end.
PYTHON = {
    "Official Python client": ("mcp2", f"[{NAMES}, result.content[0].text]"),
    "LangChain": ("langchain-mcp", f"[{NAMES}, '']"),
    "OpenAI Agents SDK": ("openai-agents", "result.final_output"),
    "A loop with limits": ("client-python", "result.text"),
    "openai": ("client-python", "messages[-1]['content']"),
    "anthropic": ("client-python", "response.content[0].text"),
    "Plain HTTP": ("model-sdks", "messages[-1]['content']"),
    "openai, hosted MCP": ("model-sdks", "response.output_text"),
    "anthropic, MCP connector": ("model-sdks", "response.content[0].text"),
}
WEATHER = {
    "utcp_version": "1.0.1",
    "tools": [
        {
            "name": "forecast",
            "description": "Get the weather in a city.",
            "inputs": {"type": "object"},
            "tool_call_template": {"call_template_type": "http", "url": "https://a.example/weather"},
        }
    ],
}
NOT_RUN = ("Claude Code", "Cursor", "VS Code")
TOOL = "interop_searchBooks"


def snippets() -> dict[str, str]:
    """Return the code of each snippet of the page by the bold words before it."""
    found = re.findall(
        r"^\*\*([^*]+)\*\*[^\n]*\n\n```\w+\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    return dict(found)


@pytest.fixture(scope="module")
def gateway(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with the sample API as the provider `interop`."""
    with (
        serve_sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration,
        serve(servers, tmp_path_factory.mktemp("snippets")) as running,
        running.client() as admin,
    ):
        made = admin.post("/providers", json=registration | {"name": "interop"})
        assert made.status_code == 201, made.text
        made = admin.post("/providers", json={"name": "forecasts", "source": {"manual": WEATHER}})
        assert made.status_code == 201, made.text
        yield running


async def respond(request: web.Request) -> web.Response:
    """Respond as the model that the Agents SDK asks: call one tool, and then say what it returned."""
    body = await request.json()
    output: dict[str, Any]
    results = [item for item in body["input"] if item.get("type") == "function_call_output"]
    if results:
        content = [{"type": "output_text", "text": json.dumps(results[0]["output"]), "annotations": []}]
        output = {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    else:
        assert TOOL in [tool["name"] for tool in body["tools"]]
        output = {
            "type": "function_call", "id": "fc", "call_id": "c", "name": TOOL, "arguments": '{"q": "sea"}',
            "status": "completed",
        }  # fmt: skip
    return web.json_response(
        {
            "id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": [output],
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
            "instructions": None, "metadata": {}, "temperature": 1, "top_p": 1,
        }
    )  # fmt: skip


def model_of_agents() -> web.Application:
    """Return the server that the Agents SDK asks."""
    application = web.Application()
    application.router.add_post("/responses", respond)
    return application


def run(command: list[str], **variables: str) -> object:
    environment = {"PATH": os.environ["PATH"], **variables}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def listed_tools(address: str, authorization: str) -> list[str]:
    """Return the names of the tools that an MCP server lists."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    headers = {"Authorization": authorization, "Accept": "application/json, text/event-stream"}
    response = httpx2.post(address, json=message, headers=headers).raise_for_status()
    return [tool["name"] for tool in response.json()["result"]["tools"]]


def test_each_snippet_of_the_page_is_run_or_of_a_product() -> None:
    assert sorted(snippets()) == sorted([*PYTHON, "Vercel AI SDK", *NOT_RUN])


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_snippet_runs_as_it_stands(gateway: RunningGateway, tmp_path: Path, name: str) -> None:
    environment, shown = PYTHON[name]
    ours = environment == "client-python"
    python = required(install_client_library) if ours else interpreter(environment)
    code = snippets()[name].replace(ADDRESS, gateway.url) + f"print(json.dumps({shown}))\n"
    beginning = f"import asyncio, json\nkey = {gateway.key!r}\nmodel = 'm'\n\n\nasync def main():\n"
    program = tmp_path / "snippet.py"
    program.write_text(beginning + indent(code, "    ") + "\n\nasyncio.run(main())\n")
    with beside(web_server(providers())) as url, beside(web_server(model_of_agents())) as agents:
        found = run(
            [str(python), str(program)],
            OPENAI_BASE_URL=agents if environment == "openai-agents" else f"{url}/openai", OPENAI_API_KEY="k",
            ANTHROPIC_BASE_URL=f"{url}/anthropic", ANTHROPIC_API_KEY="k", OPENAI_AGENTS_DISABLE_TRACING="1",
        )  # fmt: skip
    if "MCP" in name and environment == "model-sdks":
        # Where the provider connects to, and with which header.
        address, authorization = json.loads(str(found))
        assert TOOL in listed_tools(address, authorization)
    elif environment in {"client-python", "model-sdks"}:
        assert found == f"{len(CALLS)} results, {sum(ERRORS)} errors"
    elif environment == "openai-agents":
        assert "title" in str(found)
    else:
        assert isinstance(found, list)
        names, text = found
        # The snippet of the official client uses the address that lists the meta-tools.
        assert ("find_tools" if environment == "mcp2" else TOOL) in names
        assert environment != "mcp2" or "forecasts_forecast" in text


def test_the_snippet_of_the_ai_sdk_runs_as_it_stands(gateway: RunningGateway, tmp_path: Path) -> None:
    code = snippets()["Vercel AI SDK"].replace(ADDRESS, gateway.url)
    end = "console.log(JSON.stringify(Object.keys(tools)));\nawait client.close();\n"
    program = tmp_path / "snippet.mjs"
    program.write_text(f"const key = {json.dumps(gateway.key)};\n{code}{end}")
    node = required(install_node)
    installed = required(install_mcp)
    (tmp_path / "node_modules").symlink_to(installed / "node_modules")
    found = run([str(node), str(program)])
    assert isinstance(found, list)
    assert TOOL in found
