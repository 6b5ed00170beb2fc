"""The gateway as a newcomer starts it, embedded in a folder of its own, with a number of tools registered."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.cli.client import Gateway
from app.cli.outcome import CommandFailed
from benchmarks.servers import NotStarted, Served, free_port, served
from benchmarks.shape import KEY, document

_READY_SECONDS = 30
_COMMAND = ("-c", "from app.cli.main import main; main()", "serve", "--no-sample")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A gateway with tools."""

    server: Served
    key: str
    tools: tuple[str, ...]
    """Call paths of the tools that are called."""
    import_seconds: float


@contextmanager
def gateway(*, tools: int, spread: int, upstream: str) -> Iterator[Loaded]:
    """A gateway with `tools` tools, `spread` of which (evenly spaced) are to be called; raises NotStarted."""
    # Short, because Unix sockets lie in it.
    folder = Path(tempfile.mkdtemp(prefix="gwb"))
    place = folder / "d"
    port = free_port()
    command = [*_COMMAND, "--port", str(port), "--data-dir", str(place)]
    environment = {"LOG_LEVEL": "warning", "DATABASE_URL": "", "REDIS_URL": "", "SEALING_KEYS": ""}
    try:
        with served(command, port=port, environment=environment, folder=folder) as server:
            key = _key(place)
            with Gateway(server.url, key=key) as client:
                seconds = _register(client, tools, upstream)
            step = tools // spread
            names = tuple(f"/tools/bench.get{number * step}/call" for number in range(spread))
            yield Loaded(server, key, names, seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _key(folder: Path) -> str:
    """The embedded mode's admin key, as soon as it is there."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if (folder / "admin.key").is_file() and (text := (folder / "admin.key").read_text().strip()):
            return text
        time.sleep(0.1)
    raise NotStarted("no admin.key was written")


def _register(client: Gateway, tools: int, upstream: str) -> float:
    """Register the tools; answers with the seconds that it took."""
    body = {
        "name": "bench",
        "source": {"document": document(tools, server=upstream).decode()},
        "credentials": {"key": {"kind": "api_key", "value": KEY}},
    }
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            client.get("/health/ready")
            break
        except CommandFailed as failed:
            if time.monotonic() > deadline:
                raise NotStarted(f"not ready: {failed}") from None
            time.sleep(0.1)
    started = time.perf_counter()
    try:
        client.send("POST", "/providers", json=body)
    except CommandFailed as failed:
        raise NotStarted(f"the tools were not registered: {failed.problem}") from None
    return time.perf_counter() - started
