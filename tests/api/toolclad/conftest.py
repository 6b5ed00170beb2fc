"""A gateway that records bodies and runs Python programs, an upstream that notes its requests, and manifests."""

import os
import stat
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web

from tests.harness.application import Application
from tests.harness.beside import web_server
from tests.harness.profiles import Applications, empty

PYTHON = os.path.realpath("/usr/bin/python3") if Path("/usr/bin/python3").exists() else sys.executable
SECRET = "canary-toolclad-secret-91"
REGISTRAR = (
    "providers:read",
    "providers:write",
    "credentials:write",
    "tools:read",
    "tools:call",
    "calls:read",
    "calls:bodies",
)


@dataclass
class Site:
    """An upstream: what it was sent, and what it responds."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    body: bytes = b'{"ok": true}'
    media_type: str = "application/json"

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(
            {
                "method": request.method,
                "path": request.path_qs,
                "raw": request.raw_path,
                "headers": dict(request.headers),
                "body": (await request.read()).decode(),
            }
        )
        return web.Response(body=self.body, status=self.status, headers={"Content-Type": self.media_type})


@dataclass
class Clad:
    """The gateway, its upstream, a key that may do all that tests need, and the folder of its programs."""

    application: Application
    client: httpx2.AsyncClient
    folder: Path

    async def register(self, name: str, text: str, expected: int = 201, **fields: Any) -> dict[str, Any]:
        """Register one manifest in the canonical form; return the body of the response."""
        body = {"name": name, "source": {"document": text}, **fields}
        made = await self.client.post("/providers", json=body)
        assert made.status_code == expected, made.text
        return made.json()

    async def call(self, tool: str, arguments: dict[str, Any], **headers: str) -> httpx2.Response:
        return await self.client.post(f"/tools/{tool}/call", json=arguments, headers=headers)

    async def envelope(self, tool: str, arguments: dict[str, Any], **headers: str) -> httpx2.Response:
        return await self.client.post(f"/tools/{tool}/call?envelope=true", json=arguments, headers=headers)


def executable(path: Path, body: str) -> Path:
    """Write a Python program that the gateway may run."""
    path.write_text(f"#!{PYTHON} -IS\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return path


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    # Not a folder of pytest: it takes those of other users' programs away when another run of it begins.
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        _write_programs(folder)
        yield folder


def _write_programs(folder: Path) -> None:
    executable(folder / "echo", "import json, os, sys\nprint(json.dumps(sys.argv[1:]))")
    executable(
        folder / "env",
        "import json, os\nprint(json.dumps({k: v for k, v in os.environ.items() if k.startswith('TOOLCLAD_')}))",
    )
    executable(folder / "say", "import sys\nsys.stdout.write(sys.argv[1].encode().decode('unicode_escape'))")
    executable(
        folder / "fail", "import sys\nprint('partial')\nprint('went wrong', file=sys.stderr)\nsys.exit(3)"
    )
    executable(
        folder / "hang",
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-IS', '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\ntime.sleep(600)",
    )
    executable(
        folder / "report",
        "import sys\nopen(sys.argv[1], 'w').write(sys.argv[2])\nprint('to standard output')",
    )
    executable(
        folder / "parse",
        "import json, sys\nprint(json.dumps({'lines': open(sys.argv[1]).read().split()}))",
    )
    executable(folder / "cat", "import sys\nsys.stdout.write(open(sys.argv[1]).read())")


@pytest.fixture(scope="module")
async def running(applications: Applications, programs: Path) -> Application:
    work = programs / "work"
    work.mkdir(mode=0o777)
    work.chmod(0o777)
    allowed = tuple(str(one) for one in programs.iterdir() if one.is_file())  # noqa: ASYNC240 - before it runs.
    return await applications.get(
        public_base_url="https://gateway.example",
        call_log_bodies="all",
        call_log_max_body_bytes=64 << 10,
        programs=allowed,
        program_folders=(str(work),),
        program_user="nobody" if os.geteuid() == 0 else None,
    )


@pytest.fixture
async def clad(running: Application, programs: Path) -> AsyncIterator[Clad]:
    client = await running.client(*REGISTRAR)
    yield Clad(running, client, programs / "work")
    await empty(running)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", site.handle)
    async with web_server(application) as url:
        site.url = url
        yield site
