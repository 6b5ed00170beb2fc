"""The gateway with embedded servers in a folder of its own, and with a number of registered tools."""

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

from app.cli.embedded.folder import choose_socket_folder, read_sealing_key
from benchmarks.servers import NotStarted, ServerProcess, free_port, start_server
from benchmarks.shape import KEY, document

PLAIN = ("-c", "from app.cli.main import main; main()")
OBSERVED = ("-m", "benchmarks.heartbeat")
MAX_DOCUMENT_TOOLS = 10_000
"""Maximum tools of one provider: more are spread over several, as no API has 100,000 operations."""

_READY_SECONDS = 60
_CREDENTIAL: Mapping[str, str] = {"kind": "api_key", "value": KEY}


class RequestFailed(Exception):
    """Raised for an error response; the text is its status and body."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response; its `headers` are by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Client:
    """One keep-alive connection to a gateway."""

    def __init__(self, server: ServerProcess, key: str) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        self._headers = {"Authorization": f"Bearer {key}"}

    def send(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        """Send JSON (or bytes as they are) and return a response below 400. Raises RequestFailed."""
        raw = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        sent = {**self._headers, "Content-Type": "application/json", **(headers or {})}
        self._http.request(method, path, raw, sent)
        response = self._http.getresponse()
        headers_of_response = {name.lower(): value for name, value in response.getheaders()}
        found = HttpResponse(response.status, headers_of_response, response.read())
        if found.status >= 400:
            raise RequestFailed(f"{found.status}: {found.body[:500].decode(errors='replace')}")
        return found

    def get(self, path: str, **headers: str) -> HttpResponse:
        """GET."""
        return self.send("GET", path, headers=headers)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A gateway that is ready, `seconds` after the start of its process."""

    server: ServerProcess
    key: str
    client: Client
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadedGateway:
    """A gateway with registered tools."""

    server: ServerProcess
    key: str
    tools: tuple[str, ...]
    """Call paths of the tools that are called."""
    import_seconds: float
    sockets: Path
    """The folder with the sockets of its PostgreSQL and Redis."""
    data_dir: Path


@contextmanager
def start_gateway(
    folder: Path, *, command: tuple[str, ...] = PLAIN, environment: Mapping[str, str] | None = None
) -> Iterator[RunningGateway]:
    """Run the gateway on the embedded servers of `folder` until the block ends. Raises NotStarted."""
    port = free_port()
    arguments = [*command, "serve", "--no-sample", "--port", str(port), "--data-dir", str(folder / "d")]
    ours = {"LOG_LEVEL": "warning", "DATABASE_URL": "", "REDIS_URL": "", "SEALING_KEYS": ""}
    began = time.perf_counter()
    with start_server(
        arguments, port=port, environment={**ours, **(environment or {})}, folder=folder
    ) as server:
        key = _key(folder / "d")
        client = Client(server, key)
        try:
            _await_ready(client)
            yield RunningGateway(server, key, client, time.perf_counter() - began)
        finally:
            client.close()


@contextmanager
def short_folder() -> Iterator[Path]:
    """Create a temporary folder with a path that is short enough for Unix sockets."""
    folder = Path(tempfile.mkdtemp(prefix="gwb"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def gateway(
    *, tools: int, spread: int, upstream: str, environment: Mapping[str, str] | None = None
) -> Iterator[LoadedGateway]:
    """Run a gateway with `tools` tools, of which `spread`, evenly spaced, are called. Raises NotStarted."""
    with short_folder() as folder, start_gateway(folder, environment=environment) as started:
        seconds = 0.0
        sizes = [min(MAX_DOCUMENT_TOOLS, tools - begun) for begun in range(0, tools, MAX_DOCUMENT_TOOLS)]
        for number, size in enumerate(sizes):
            text = document(size, server=upstream)
            seconds += register(started.client, f"bench{number}", text)
        step = tools // spread
        picked = [divmod(number * step, MAX_DOCUMENT_TOOLS) for number in range(spread)]
        names = tuple(f"/tools/bench{provider}.get{number}/call" for provider, number in picked)
        yield LoadedGateway(
            started.server, started.key, names, seconds, choose_socket_folder(folder / "d"), folder / "d"
        )


@contextmanager
def second_worker(loaded: LoadedGateway, folder: Path) -> Iterator[ServerProcess]:
    """Run another gateway of one worker on the servers of `loaded`; log into `folder`. Raises NotStarted."""
    port = free_port()
    environment = {
        "LOG_LEVEL": "warning",
        "DATABASE_URL": f"postgresql://postgres@/gateway?host={loaded.sockets}&port=5432",
        "REDIS_URL": f"unix://{loaded.sockets}/valkey.sock",
        "SEALING_KEYS": read_sealing_key(loaded.data_dir),
    }
    arguments = [*PLAIN, "serve", "--no-sample", "--port", str(port)]
    with start_server(arguments, port=port, environment=environment, folder=folder) as server:
        client = Client(server, loaded.key)
        try:
            _await_ready(client)
        finally:
            client.close()
        yield server


def register(
    client: Client,
    name: str,
    text: bytes,
    *,
    credential: Mapping[str, str] = _CREDENTIAL,
    limits: Mapping[str, Any] | None = None,
) -> float:
    """Register a document with the upstream's credential, and return the seconds that it took."""
    body = {
        "name": name,
        "source": {"document": text.decode()},
        "credentials": {"key": dict(credential)},
        "limits": dict(limits or {}),
    }
    began = time.perf_counter()
    try:
        client.send("POST", "/providers", body)
    except RequestFailed as failed:
        raise NotStarted(f"the tools were not registered: {failed}") from None
    return time.perf_counter() - began


def _key(folder: Path) -> str:
    """Return the admin key of the embedded mode, once its file exists."""
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
    except (RequestFailed, OSError, http.client.HTTPException) as failed:
        return str(failed)
    return None
