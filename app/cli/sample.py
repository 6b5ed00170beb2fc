"""The sample API (`examples/library_api`) as a child process of `serve`: in a checkout only."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MODULE = "examples.library_api"
_START_SECONDS = 60.0
_STOP_SECONDS = 5.0


class SampleError(Exception):
    """The sample API cannot be served; the text is a sentence for the operator."""


def find_checkout() -> Path | None:
    """Return the checkout that this code runs from, None for an installed wheel: it has no examples."""
    root = Path(__file__).parents[2]
    needed = ("pyproject.toml", "examples/library_api/__main__.py")
    return root if all((root / name).is_file() for name in needed) else None


@contextmanager
def serve_sample_api(data_dir: Path, *, port: int, host: str = "127.0.0.1") -> Iterator[dict[str, Any]]:
    """Serve the sample API in a child process, and yield the body for `POST /providers` that registers it.

    Its credentials are in `<data_dir>/sample.json`. Port 0 takes a free one. The child ends with the block,
    and also when this process dies. Raise SampleError where there is no checkout, the port is in use, or the
    child does not start.
    """
    root = find_checkout()
    if root is None:
        raise SampleError("The sample API is not installed: it is in examples/ of the sources.")
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The child gets neither the gateway's secrets nor its settings.
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(root), "PYTHONUNBUFFERED": "1"}
    options = ["--host", host, "--port", str(port), "--credentials", str(data_dir / "sample.json")]
    child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", _MODULE, *options, "--end-with-stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        yield read_registration(child)
    finally:
        stop(child)


def read_registration(child: "subprocess.Popen[str]", *, timeout: float = _START_SECONDS) -> dict[str, Any]:
    """Return what a child announces on standard output once it serves; raise SampleError for an error.

    A child that announces nothing for `timeout` seconds is killed.
    """
    assert child.stdout is not None  # noqa: S101 - it is a pipe
    # The end of a child ends its output, and so the wait for a line of it.
    timer = threading.Timer(timeout, child.kill)
    timer.daemon = True
    timer.start()
    try:
        line = child.stdout.readline()
    finally:
        timer.cancel()
    if not line.endswith("\n"):
        raise SampleError("The sample API did not start; its log above says why.")
    announced: dict[str, Any] = json.loads(line)
    if "error" in announced:
        raise SampleError(
            f"The sample API cannot be served: {announced['error']} "
            "Choose another port with SAMPLE_PORT, or switch it off with --no-sample."
        )
    return announced


def stop(child: "subprocess.Popen[str]") -> None:
    """Close a child's pipes, which ends it, and wait; kill it after 5 s."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
    try:
        child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
