"""The released clients of agents that list the tools of `torture.py`, and the block of docs/clients.md about them."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.interop.environments import FOLDER, install, install_node, install_npm

Json = dict[str, Any]

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"
PAGE: Final = HERE.parents[2] / "docs" / "clients.md"
BEGIN: Final = "<!-- written by python -m tests.interop.agents -->"
END: Final = "<!-- end of what python -m tests.interop.agents writes -->"
_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class AgentClient:
    """A framework for agents: its package, and the environment with it. `is_tested`: `make interop` runs it, too."""

    name: str
    title: str
    package: str
    is_tested: bool = False

    @property
    def is_node(self) -> bool:
        """Whether its package is of npm."""
        return self.package.startswith("npm:")


CLIENTS: Final = (
    AgentClient("agno-mcp", "Agno", "agno"),
    AgentClient("autogen-mcp", "AutoGen", "autogen-ext", is_tested=True),
    AgentClient("crewai-mcp", "CrewAI", "crewai-tools"),
    AgentClient("dspy-mcp", "DSPy", "dspy"),
    AgentClient("google-adk", "Google ADK", "google-adk"),
    AgentClient("haystack-mcp", "Haystack", "mcp-haystack"),
    AgentClient("langchain-mcp", "LangChain", "langchain-mcp-adapters", is_tested=True),
    AgentClient("litellm-mcp", "LiteLLM", "litellm"),
    AgentClient("llama-index-mcp", "LlamaIndex", "llama-index-tools-mcp", is_tested=True),
    AgentClient("mcp-use", "mcp-use", "mcp-use", is_tested=True),
    AgentClient("openai-agents", "OpenAI Agents", "openai-agents", is_tested=True),
    AgentClient("pydantic-ai-mcp", "Pydantic AI", "pydantic-ai-slim"),
    AgentClient("semantic-kernel-mcp", "Semantic Kernel", "semantic-kernel"),
    AgentClient("smolagents-mcp", "smolagents", "smolagents"),
    AgentClient("strands-mcp", "Strands Agents", "strands-agents"),
    AgentClient("ai-sdk", "AI SDK", "npm:@ai-sdk/mcp"),
    AgentClient("langchain-js", "LangChain.js", "npm:@langchain/mcp-adapters"),
    AgentClient("mastra", "Mastra", "npm:@mastra/mcp"),
)


class ListingError(Exception):
    """A client could not list the tools. Its text is the last line of what the client printed."""


def version(client: AgentClient) -> str:
    """Return the version of a client, which is installed if necessary; raise InstallError."""
    if client.is_node:
        package = client.package.removeprefix("npm:")
        manifest = install_npm(HERE / "package.json", FOLDER / "agents-typescript") / package / "package.json"
        return str(json.loads(manifest.read_text())["version"])
    code = f"from importlib.metadata import version; print(version({client.package!r}))"
    done = subprocess.run([install(client.name), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def list_tools(client: AgentClient, url: str, key: str) -> list[str]:
    """Return the names of the tools that a client lists; raise ListingError and InstallError."""
    if not client.is_node:
        return _output([str(install(client.name)), str(HERE / "list_python.py"), client.name, url, key])
    modules = install_npm(HERE / "package.json", FOLDER / "agents-typescript")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("list_node.js", "package.json"):
            shutil.copy(HERE / name, folder)
        (Path(folder) / "node_modules").symlink_to(modules)
        return _output([str(install_node()), str(Path(folder) / "list_node.js"), client.name, url, key])


def _output(command: list[str]) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise ListingError(f"It did not end within {_SECONDS} s.") from None
    if done.returncode:
        raise ListingError((done.stderr.strip() or done.stdout.strip()).splitlines()[-1])
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def read_results() -> Json:
    """Return the recorded results: of each client its version, and how many tools it listed of how many."""
    found: Json = json.loads(RESULTS.read_text())
    return found


def render(results: Mapping[str, Json]) -> str:
    """Return the block of docs/clients.md."""
    rows = [_row(client, results[client.name]) for client in CLIENTS if client.name in results]
    return "\n".join([
        BEGIN, "", "| client | package | tools that it lists | with `schemas: full` | in `make interop` |",
        "|---|---|---|---|---|", *rows, "", END,
    ])  # fmt: skip


def _row(client: AgentClient, result: Json) -> str:
    package = (
        f"`{client.package.removeprefix('npm:')}` {result['version']}{' (npm)' if client.is_node else ''}"
    )
    shown = [f"{result[form]} of {result['tools']}" for form in ("portable", "full")]
    return f"| {client.title} | {package} | {shown[0]} | {shown[1]} | {'yes' if client.is_tested else 'no'} |"


def write(results: Mapping[str, Json]) -> None:
    """Record results, and write the block of docs/clients.md."""
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(before + render(results) + rest.split(END)[1])
