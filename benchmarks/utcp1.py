"""The `utcp` client in a virtual environment of its own, made at the first run."""

import subprocess
import sys
from pathlib import Path

from benchmarks.measure import Load
from benchmarks.venvs import Environment

VERSION = "1.2.0"
_ENVIRONMENT = Environment("utcp1", (f"utcp=={VERSION}", "utcp-http"), probe="import utcp, utcp_http")


def direct(upstream: str, load: Load) -> float:
    """CPU microseconds of one call with the client, in its own process; raises NotInstalled."""
    script = Path(__file__).with_name("utcp_client.py")
    numbers = [str(number) for number in (load.calls, load.warm_up, load.connections)]
    return float(run([str(_ENVIRONMENT.python()), str(script), upstream, *numbers]))


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
