"""Clients generated from openapi/gateway.json compile; they register, search, call and page at a running gateway."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from app.cli.sample import serve_sample_api
from tests.clients.generators import HERE, install_generator, install_npm, required
from tests.harness.gateway import RunningGateway
from tests.interop.environments import PACKAGES

CONTRACT = HERE.parents[1] / "openapi" / "gateway.json"
PAGE = HERE.parents[1] / "docs" / "clients.md"
TYPESCRIPT = ("openapi_fetch", "hey_api", "orval")
# openapi-python-client knows these media types neither for bodies nor for responses; it omits them, and says so.
OMITTED = ("application/yaml", "application/zip", "application/toml", "text/plain")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A registration of the sample API, without a name."""
    with serve_sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration:
        yield {"source": registration["source"]}


@pytest.fixture(scope="module")
def typescript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated clients and the programs, compiled to JavaScript by `tsc --strict`."""
    packages = required(install_npm)
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(packages)
    for source in (*HERE.glob("*.ts"), HERE / "tsconfig.json", HERE / "package.json", CONTRACT):
        shutil.copy(source, folder)
    programs = folder / "node_modules" / ".bin"
    commands = documented_commands("npx")
    assert len(commands) == len(TYPESCRIPT)
    with ThreadPoolExecutor() as threads:
        # As many at once as there are processors.
        list(threads.map(lambda command: run(programs / command[0], *command[1:], cwd=folder), commands))
    run(programs / "tsc", "--strict", "--project", ".", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated package `gateway_client`."""
    interpreter = required(install_generator)
    folder = tmp_path_factory.mktemp("python")
    shutil.copy(CONTRACT, folder)
    (command,) = documented_commands("openapi-python-client")
    output = run(interpreter.with_name("openapi-python-client"), *command, cwd=folder)
    # What else it cannot generate would be missing in the client.
    problems = [
        line for line in output.splitlines() if line.startswith(("Unsupported", "Invalid", "Found", "Unable"))
    ]
    assert [line for line in problems if not line.endswith(OMITTED)] == []
    return folder


def documented_commands(program: str) -> list[list[str]]:
    """Return the arguments of the commands of a program on the page, in their order."""
    blocks = re.findall(r"^```sh\n(.+?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [command[1:] for command in commands if command[0] == program]


def run(*command: str | Path, cwd: Path, path: Path | None = None) -> str:
    """Run a program to its end; return its standard output and error. Fails the test where the program fails."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "NO_COLOR": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command[0]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout + done.stderr


def check(output: str, name: str, gateway: RunningGateway) -> None:
    """Compare what a program printed with what the gateway says."""
    found = json.loads(output.strip().splitlines()[-1])
    with gateway.client() as client:
        listed = client.get("/tools", params={"provider": name, "limit": 200}).json()["items"]
        called = client.post(f"/tools/{name}.searchBooks/call", json={"q": "sea", "limit": 3}).json()
        client.delete(f"/providers/{name}")
    assert found["previewed"] == name
    assert found["registered"] == name
    assert f"{name}.searchBooks" in found["found"]
    assert called["items"]
    assert found["called"] == called
    assert (found["rejected"]["status"], found["rejected"]["pointers"]) == (422, ["/limit"])
    assert "integer" in found["rejected"]["detail"]
    assert len(listed) > 6
    assert found["paged"] == [tool["name"] for tool in listed]


@pytest.mark.parametrize("program", TYPESCRIPT)
def test_a_generated_typescript_client_registers_searches_calls_and_pages(
    program: str, typescript: Path, gateway: RunningGateway, library: dict[str, Any]
) -> None:
    name = program.replace("_", "-")
    registration = json.dumps({"name": name, **library})
    output = run("node", f"compiled/{program}.js", gateway.url, gateway.key, registration, cwd=typescript)
    check(output, name, gateway)


def test_the_generated_python_client_registers_searches_calls_and_pages(
    python: Path, gateway: RunningGateway, library: dict[str, Any]
) -> None:
    registration = json.dumps({"name": "python", **library})
    output = run(
        required(install_generator), HERE / "python_client.py", gateway.url, gateway.key, registration,
        cwd=python, path=python,
    )  # fmt: skip
    check(output, "python", gateway)


def test_the_code_on_the_page_is_in_the_programs() -> None:
    programs = {
        "ts": "\n".join((HERE / f"{program}.ts").read_text() for program in TYPESCRIPT),
        "python": (HERE / "python_client.py").read_text(),
    }
    # The client of UTCP after it is not generated.
    page = PAGE.read_text().partition("\n## Streams of UTCP clients\n")[0]
    blocks = re.findall(r"^```(ts|python)\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    lines = [(language, line.strip()) for language, block in blocks for line in block.splitlines()]
    assert [line for language, line in lines if line not in programs[language]] == []


def test_the_versions_on_the_page_are_those_that_are_tested() -> None:
    pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
    pinned |= dict(package.split("==") for package in PACKAGES["openapi-python-client"])
    page = PAGE.read_text()
    rows = re.findall(r"^\| (\S+?),?(?: with \S+)? \| ([\d.]+)", page, re.MULTILINE)
    assert len(rows) == 4
    assert {name: version for name, version in rows if pinned[name] != version} == {}
    assert f", {pinned['openapi-fetch']} |" in page


def test_every_module_of_the_generated_python_client_can_be_imported(python: Path) -> None:
    program = (
        "import importlib, pkgutil, gateway_client\n"
        "modules = [module.name for module in pkgutil.walk_packages(gateway_client.__path__, 'gateway_client.')]\n"
        "print(len([importlib.import_module(name) for name in modules]))\n"
    )
    count = run(required(install_generator), "-c", program, cwd=python, path=python)
    assert int(count) > 100
