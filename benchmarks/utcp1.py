"""The `utcp` client in a virtual environment of its own, made at the first run."""

import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.measure import Load

VERSION = "1.2.0"
_FOLDER = Path(".venvs/utcp1")
_PACKAGES = (f"utcp=={VERSION}", "utcp-http")


class NotInstalled(Exception):
    """pip could not install the client."""


def _python() -> Path:
    """The environment's interpreter; made and filled when there is none. Raises NotInstalled."""
    python = _FOLDER / "bin" / "python"
    probe = [str(python), "-c", "import utcp, utcp_http"]
    if python.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return python
    venv.create(_FOLDER, with_pip=True, clear=True)
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "-q", *_PACKAGES], capture_output=True, check=False, timeout=120
    )
    if done.returncode != 0:
        raise NotInstalled(done.stderr.decode(errors="replace").strip().splitlines()[-1])
    return python


def direct(upstream: str, load: Load) -> float:
    """CPU microseconds of one call with the client, in its own process."""
    script = Path(__file__).with_name("utcp_client.py")
    numbers = [str(number) for number in (load.calls, load.warm_up, load.connections)]
    return float(run([str(_python()), str(script), upstream, *numbers]))


def client(name: str, upstream: str, load: Load) -> float:
    """CPU microseconds of one call with an HTTP client alone."""
    numbers = [str(load.calls), str(load.warm_up)]
    return float(run([sys.executable, "-m", "benchmarks.clients", name, upstream, *numbers]))


def run(command: list[str]) -> bytes:
    """What a command prints; RuntimeError with its last words when it fails."""
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(words[-1] if words else f"{command[0]} ended with {done.returncode}")
    return done.stdout
