"""The virtual environments of the released clients and plugins; `python -m tests.interop.environments` makes all of them."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / ".venvs"
_INSTALL_SECONDS = 600
PACKAGES = {
    "utcp1": ("utcp==1.2.0", "utcp-http==1.1.15"),
    "utcp0": ("utcp==0.2.3", "mcp<2"),
    "utcp-plugins": (
        "utcp==1.2.0", "utcp-http==1.1.15", "utcp-socket==1.1.1", "utcp-text==1.1.0", "utcp-file==1.1.0",
        "utcp-cli==1.1.5", "utcp-websocket==1.2.1", "utcp-gql==1.1.6", "utcp-mcp==1.2.0",
    ),
}  # fmt: skip
"""Packages of each environment by its name."""


class InstallError(Exception):
    """pip could not install the packages of an environment."""


def install(name: str) -> Path:
    """Return the interpreter of the environment `name`, made if it is not there; raise InstallError where pip fails."""
    folder = _FOLDER / name
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", *PACKAGES[name]]
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


def interpreter(name: str) -> Path:
    """The same for a test, which is skipped where pip fails, and fails for it under continuous integration."""
    try:
        return install(name)
    except InstallError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


if __name__ == "__main__":
    for each in PACKAGES:
        try:
            print(install(each))
        except InstallError as error:
            # The tests that need it say so again.
            print(error, file=sys.stderr)
