"""The snippets of the console, run as they are shown, against a real gateway."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.console.views.snippets import snippets

PACKAGE = Path(__file__).parents[3] / "packages" / "python"
ARGUMENTS = {"q": "sea-wolf", "limit": 3}


def parts_of(gateway, name, arguments=ARGUMENTS):
    found = snippets("library.searchBooks", arguments, base_url=gateway.url, alias="library_searchBooks")
    return [part.text for part in next(one for one in found if one.name == name).parts]


def run_shell(text, gateway):
    assert "UTCP_GATEWAY_KEY=..." in text
    text = text.replace("UTCP_GATEWAY_KEY=...", f"UTCP_GATEWAY_KEY={gateway.key}")
    command = ["sh", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=_environment())
    return json.loads(done.stdout)


def _environment():
    return {"PATH": os.environ["PATH"], "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@pytest.fixture(autouse=True)
def needs_curl():
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")


def test_curl_calls_the_tool(library):
    (text,) = parts_of(library, "curl")
    assert run_shell(text, library)["total"] == 1


def test_curl_passes_on_what_a_shell_would_change(library):
    (text,) = parts_of(library, "curl", {"q": 'it\'s $HOME `id` \\ "x"\n'})
    assert run_shell(text, library)["total"] == 0


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_definition_is_exported_and_the_call_of_a_model_is_run(dialect, library):
    definition, call, _ = parts_of(library, dialect)
    (tool,) = run_shell(definition, library)["tools"]
    assert tool.get("name", tool.get("function", {}).get("name")) == "library_searchBooks"
    setting = "".join(line + "\n" for line in definition.splitlines() if line.startswith("export"))
    (result,) = run_shell(setting + call, library)["results"]
    assert (result["tool"], result["is_error"], result["status"]) == ("library.searchBooks", False, 200)


def test_python_calls_the_tool(library, tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=PACKAGE, capture_output=True, timeout=100, check=True)
    # Python imports from a wheel as it is; the library reads its version from the metadata in it.
    (wheel,) = tmp_path.glob("*.whl")
    (text,) = parts_of(library, "python")
    environment = {**_environment(), "UTCP_GATEWAY_KEY": library.key, "PYTHONPATH": str(wheel)}
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "'total': 1" in done.stdout


def test_mcp_request_is_answered(library):
    configuration, request = map(json.loads, parts_of(library, "mcp"))
    server = configuration["mcpServers"]["utcp-gateway"]
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with library.client("") as client:
        client.headers.update(headers)
        client.headers["Authorization"] = server["headers"]["Authorization"].replace(
            "${UTCP_GATEWAY_KEY}", library.key
        )
        response = client.post(server["url"], json=request)
    assert response.status_code == 200, response.text
    assert '"total":1' in response.text.replace("\\", "").replace(" ", "")
