"""A stand-in for the gateway's HTTP surface, really served on 127.0.0.1, and ways to run the command."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from typer.testing import CliRunner

from app.cli.root import app

KEY = "utcpgw_0123456789abcdef_canary"


@dataclass
class Seen:
    """One request that arrived."""

    method: str
    path: str
    query: dict[str, str]
    parameters: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class Stub:
    """Answers by method and path, one after the other; the last one stays."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    answers: dict[tuple[str, str], list[Response]] = field(default_factory=dict)

    def on(self, method: str, path: str, *answers: Any, status: int = 200, **options: Any) -> None:
        self.answers[method, path] = [
            answer if isinstance(answer, Response) else as_json(answer, status=status, **options)
            for answer in answers or (Response(status_code=204),)
        ]

    def problem(self, method: str, path: str, *, status: int, **members: Any) -> None:
        body = {"type": f"urn:utcp-gateway:problem:{members.pop('slug', 'x')}", "status": status, **members}
        self.on(method, path, as_json(body, status=status, media_type="application/problem+json"))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        self.seen.append(
            Seen(
                request.method,
                scope["raw_path"].decode().partition("?")[0],
                dict(request.query_params),
                request.query_params.multi_items(),
                dict(request.headers),
                await request.body(),
            )
        )
        waiting = self.answers.get((request.method, scope["path"]))
        if waiting is None:
            body = {"type": "urn:utcp-gateway:problem:not-found", "title": "Not found", "detail": "Not found"}
            answer: Response = as_json(body, status=404, media_type="application/problem+json")
        else:
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        await answer(scope, receive, send)


def as_json(
    body: Any, *, status: int = 200, media_type: str = "application/json", headers: Any = None
) -> Response:
    return Response(orjson.dumps(body), status_code=status, media_type=media_type, headers=headers)


@pytest.fixture(scope="session")
def served() -> Iterator[Stub]:
    stub = Stub()

    async def asgi(scope: Any, receive: Any, send: Any) -> None:
        await stub(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="error", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    stub.url = f"http://127.0.0.1:{port}"
    yield stub
    server.should_exit = True
    thread.join()


@pytest.fixture
def stub(served: Stub) -> Stub:
    served.seen.clear()
    served.answers.clear()
    return served


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return orjson.loads(self.out)


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.startswith("UTCP_GATEWAY_") or name in ("DATA_DIR", "FORCE_COLOR"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(stub: Stub, clean_environment: None) -> Callable[..., Ran]:
    """Run a command in this process against the stand-in, with a key."""

    def run(
        *words: str, stdin: str | bytes = "", key: str | None = KEY, env: Any = None, session: Any = None
    ) -> Ran:
        shared = {"UTCP_GATEWAY_URL": stub.url, **({"UTCP_GATEWAY_KEY": key} if key else {}), **(env or {})}
        result = CliRunner().invoke(app, list(words), input=stdin, env=shared, obj=session)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def spawn(stub: Stub, clean_environment: None) -> Callable[..., Ran]:
    """The same as a process of its own."""

    def spawn(*words: str, stdin: bytes = b"", key: str | None = KEY, url: str | None = None) -> Ran:
        environment = {**os.environ, "UTCP_GATEWAY_URL": url or stub.url}
        if key:
            environment["UTCP_GATEWAY_KEY"] = key
        command = [sys.executable, "-c", "from app.cli.main import main; main()", *words]
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=environment, timeout=60, check=False
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return spawn
