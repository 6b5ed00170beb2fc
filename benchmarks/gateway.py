"""The gateway as a newcomer starts it, embedded in a folder of its own, with a number of tools registered."""

import http.client
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from app.embedded.folder import socket_folder
from benchmarks.servers import NotStarted, Served, free_port, served
from benchmarks.shape import KEY, document

PLAIN = ("-c", "from app.cli.main import main; main()")
OBSERVED = ("-m", "benchmarks.heartbeat")
LARGEST_DOCUMENT = 10_000
"""Tools of one provider: more are spread over several, as no API has 100,000 operations."""

_READY_SECONDS = 60
_CREDENTIAL: Mapping[str, str] = {"kind": "api_key", "value": KEY}


class Refused(Exception):
    """An answer that was not a success; the text is its body."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """One keep-alive connection to a gateway."""

    def __init__(self, server: Served, key: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        self._headers = {"Authorization": f"Bearer {key}"}

    def send(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends JSON (or bytes as they are), and answers with whatever came back below 400; else Refused."""
        raw = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        sent = {**self._headers, "Content-Type": "application/json", **(headers or {})}
        self._http.request(method, path, raw, sent)
        answer = self._http.getresponse()
        found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        if found.status >= 400:
            raise Refused(f"{found.status}: {found.body[:500].decode(errors='replace')}")
        return found

    def get(self, path: str, **headers: str) -> Answer:
        """GET."""
        return self.send("GET", path, headers=headers)

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that is ready. `seconds` is from the start of its process to that."""

    server: Served
    key: str
    client: Client
    seconds: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """A gateway with tools."""

    server: Served
    key: str
    tools: tuple[str, ...]
    """Call paths of the tools that are called."""
    import_seconds: float
    sockets: Path
    """The folder with the sockets of its PostgreSQL and Redis."""


@contextmanager
def running(
    folder: Path, *, command: tuple[str, ...] = PLAIN, environment: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """The gateway on the embedded servers of `folder`, ready for traffic; raises NotStarted."""
    port = free_port()
    arguments = [*command, "serve", "--no-sample", "--port", str(port), "--data-dir", str(folder / "d")]
    ours = {"LOG_LEVEL": "warning", "DATABASE_URL": "", "REDIS_URL": "", "SEALING_KEYS": ""}
    began = time.perf_counter()
    with served(arguments, port=port, environment={**ours, **(environment or {})}, folder=folder) as server:
        key = _key(folder / "d")
        client = Client(server, key)
        try:
            _await_ready(client)
            yield Running(server, key, client, time.perf_counter() - began)
        finally:
            client.close()


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder with a short name, because Unix sockets lie in it."""
    folder = Path(tempfile.mkdtemp(prefix="gwb"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def gateway(
    *, tools: int, spread: int, upstream: str, environment: Mapping[str, str] | None = None
) -> Iterator[Loaded]:
    """A gateway with `tools` tools, `spread` of which (evenly spaced) are to be called; raises NotStarted."""
    with short_folder() as folder, running(folder, environment=environment) as started:
        seconds = 0.0
        sizes = [min(LARGEST_DOCUMENT, tools - begun) for begun in range(0, tools, LARGEST_DOCUMENT)]
        for number, size in enumerate(sizes):
            text = document(size, server=upstream)
            seconds += register(started.client, f"bench{number}", text)
        step = tools // spread
        picked = [divmod(number * step, LARGEST_DOCUMENT) for number in range(spread)]
        names = tuple(f"/tools/bench{provider}.get{number}/call" for provider, number in picked)
        yield Loaded(started.server, started.key, names, seconds, socket_folder(folder / "d"))


def register(
    client: Client,
    name: str,
    text: bytes,
    *,
    credential: Mapping[str, str] = _CREDENTIAL,
    limits: Mapping[str, Any] | None = None,
) -> float:
    """Registers a document with the upstream's credential; answers with the seconds that it took."""
    body = {
        "name": name,
        "source": {"document": text.decode()},
        "credentials": {"key": dict(credential)},
        "limits": dict(limits or {}),
    }
    began = time.perf_counter()
    try:
        client.send("POST", "/providers", body)
    except Refused as failed:
        raise NotStarted(f"the tools were not registered: {failed}") from None
    return time.perf_counter() - began


def _key(folder: Path) -> str:
    """The embedded mode's admin key, as soon as it is there."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        if (folder / "admin.key").is_file() and (text := (folder / "admin.key").read_text().strip()):
            return text
        time.sleep(0.02)
    raise NotStarted("no admin.key was written")


def _await_ready(client: Client) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while (reason := _not_ready(client)) is not None:
        client.close()
        if time.monotonic() > deadline:
            raise NotStarted(f"not ready: {reason}")
        time.sleep(0.02)


def _not_ready(client: Client) -> str | None:
    try:
        client.get("/health/ready")
    except (Refused, OSError, http.client.HTTPException) as failed:
        return str(failed)
    return None
