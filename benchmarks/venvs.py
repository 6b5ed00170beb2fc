"""Programs to compare with, each in a virtual environment of its own, made at the first run."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(".venvs")
_INSTALL_SECONDS = 600


class NotInstalled(Exception):
    """Raised where pip could not install a program, or there is no Python that it supports."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A folder in .venvs with packages; `probe` is Python code that runs only where they are installed.

    `at_least` is the oldest Python 3 that they support.
    """

    name: str
    packages: tuple[str, ...]
    probe: str
    at_least: int = 11

    def python(self) -> Path:
        """Return the environment's interpreter, which is created if necessary. Raises NotInstalled."""
        python = _FOLDER.absolute() / self.name / "bin" / "python"
        if python.exists() and self._works(python):
            return python
        _run([self._interpreter(), "-m", "venv", "--clear", str(_FOLDER / self.name)])
        _run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *self.packages])
        if not self._works(python):
            raise NotInstalled("it is installed, and cannot be imported")
        return python

    def _works(self, python: Path) -> bool:
        done = subprocess.run([str(python), "-c", self.probe], capture_output=True, check=False, cwd=_FOLDER)
        return done.returncode == 0

    def _interpreter(self) -> str:
        if sys.version_info >= (3, self.at_least):
            return sys.executable
        newer = (shutil.which(f"python3.{minor}") for minor in range(self.at_least, self.at_least + 4))
        # The command on PATH may be a stub of a version manager without that Python.
        found = next((path for path in newer if path and _runs(path)), None)
        if found is None:
            raise NotInstalled(f"it needs Python 3.{self.at_least}, which is not on PATH")
        return found


def _runs(python: str) -> bool:
    return subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"not installed within {_INSTALL_SECONDS} s") from None
    if done.returncode != 0:
        words = [line for line in done.stderr.decode(errors="replace").splitlines() if "ERROR" in line]
        raise NotInstalled(words[-1] if words else "pip failed")
