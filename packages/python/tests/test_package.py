"""The distribution as it is installed: what it needs, and what it does not."""

import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from zipfile import ZipFile

from packaging.requirements import Requirement

BASE = {"docstring-parser", "httpx2", "pydantic", "typing-extensions", "websockets"}
# Modules of the extras, and of what only the gateway or the tests need.
OTHERS = [
    "app", "anthropic", "fastapi", "google.genai", "grpc", "langchain_core", "openai", "pydantic_ai", "starlette", "uvicorn",
]  # fmt: skip
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {names!r}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
import importlib
for module in (
    "utcp_gateway_client", "utcp_gateway_client.gateway", "utcp_gateway_client.tools",
    "utcp_gateway_client.serving", "utcp_gateway_client.loop",
):
    importlib.import_module(module)
print("imported")
"""


def test_base_dependencies_are_few():
    needed = [Requirement(text) for text in requires("utcp-gateway-client") or []]
    assert {each.name for each in needed if each.marker is None} == BASE


def test_packages_import_without_extras_frameworks_and_gateway():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BLOCKED.format(names=OTHERS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported\n", "")


def test_wheel_holds_the_package_its_types_and_its_license(tmp_path):
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    names = ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {"utcp_gateway_client"}
    assert "utcp_gateway_client/py.typed" in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    modules = {str(file.relative_to(root / "src")) for file in (root / "src").rglob("*.py")}
    assert modules <= set(names)
