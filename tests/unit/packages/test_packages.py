"""The packages beside the gateway fit it: their versions, and what is offered to those that add a protocol."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

from app.protocols import extension

ROOT = Path(__file__).parents[3]
GATEWAY = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WEBRTC = tomllib.loads((ROOT / "packages" / "webrtc" / "pyproject.toml").read_text())["project"]


def requirement(listed: list[str], name: str) -> Requirement:
    return next(one for one in map(Requirement, listed) if one.name == name)


def test_the_package_of_webrtc_and_the_gateway_accept_each_other() -> None:
    assert GATEWAY["version"] in requirement(WEBRTC["dependencies"], "utcp-gateway").specifier
    extra = requirement(GATEWAY["optional-dependencies"]["webrtc"], WEBRTC["name"])
    assert WEBRTC["version"] in extra.specifier


def test_a_plain_install_has_neither_webrtc_nor_what_builds_models() -> None:
    libraries = {"aiortc", "onnx", WEBRTC["name"]}
    everything = GATEWAY["dependencies"] + [
        one
        for extra, listed in GATEWAY["optional-dependencies"].items()
        for one in listed
        if extra not in ("webrtc", "dev")
    ]
    assert {Requirement(one).name for one in everything} & libraries == set()
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "app").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported & {"aiortc", "aioice", "onnx", "utcp_gateway_webrtc", "utcp_gateway_semantic"} == set()


def test_the_names_for_packages_that_add_a_protocol_are_all_there() -> None:
    assert [name for name in extension.__all__ if not hasattr(extension, name)] == []
    assert not hasattr(extension, "another_name")


def test_records_are_imported_without_what_only_adapters_need() -> None:
    code = "import sys, app.protocols.registry; print('websockets' in sys.modules, 'utcp_gateway_webrtc.record' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout.split() == ["False", "True"]
