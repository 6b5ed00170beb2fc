"""Runs the sample API as a child process beside the gateway."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.sample.credentials import SampleCredentials, SampleError
from app.sample.registration import registration

_START_SECONDS = 60.0
_STOP_SECONDS = 5.0


@contextmanager
def sample_process(data_dir: Path, *, port: int, host: str = "127.0.0.1") -> Iterator[dict[str, Any]]:
    """Serves the sample API in a child process; gives the body for `POST /providers` that registers it.

    Its credentials are those of the data folder. Port 0 takes a free one. `SampleError` if the port is in
    use or the child does not start. The child ends with the block, and also when this process dies.
    """
    credentials = SampleCredentials.of_folder(data_dir)
    root = str(Path(__file__).parents[2])
    # Neither the gateway's secrets nor its settings are any business of the sample's.
    environment = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": root, "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "app.sample", host, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
        start_new_session=True,
    )
    try:
        yield registration(_address(child, credentials, f"{host} port {port}"), credentials)
    finally:
        _stop(child)


def _address(
    child: "subprocess.Popen[str]",
    credentials: SampleCredentials,
    place: str,
    *,
    seconds: float = _START_SECONDS,
) -> str:
    assert child.stdin is not None  # noqa: S101 - both are pipes
    assert child.stdout is not None  # noqa: S101
    try:
        child.stdin.write(credentials.to_json() + "\n")
        child.stdin.flush()
    except BrokenPipeError:
        pass
    # A child that is killed ends its output, and so the wait for a line of it.
    deadline = threading.Timer(seconds, child.kill)
    deadline.daemon = True
    deadline.start()
    try:
        line = child.stdout.readline()
    finally:
        deadline.cancel()
    said = line.strip() if line.endswith("\n") else ""
    if said.startswith("!"):
        raise SampleError(
            f"The sample API cannot listen on {place}: {said[1:]}. "
            "Choose another with SAMPLE_PORT, or switch it off with --no-sample."
        )
    if not said:
        raise SampleError("The sample API did not start; the reason stands above.")
    return said


def _stop(child: "subprocess.Popen[str]") -> None:
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
