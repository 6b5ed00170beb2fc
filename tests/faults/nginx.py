"""nginx with `deploy/nginx.conf`, in which container names and paths are replaced by local ones."""

import asyncio
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import httpx2

PROGRAM = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
CONFIGURATION = Path(__file__).parents[2] / "deploy" / "nginx.conf"


class NginxMissing(Exception):
    """Raised where nginx is not installed."""

    def __init__(self) -> None:
        super().__init__("nginx is not installed: on Debian, `apt-get install nginx-light`.")


class Nginx:
    """A reverse proxy in front of gateways on the given ports of 127.0.0.1.

    gRPC is served at `grpc_port`, where it is given, for the gateway that serves it at `grpc_gateway`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int,
        gateways: list[int],
        grpc_port: int | None = None,
        grpc_gateway: int | None = None,
    ) -> None:
        if PROGRAM is None:
            raise NginxMissing
        self.folder, self.port = folder, port
        self.grpc_port, self._grpc_gateway = grpc_port, grpc_gateway
        self._process: asyncio.subprocess.Process | None = None
        folder.mkdir()
        self._file = folder / "nginx.conf"
        self._file.write_text(self._configured(CONFIGURATION.read_text(), gateways))

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}"

    def _configured(self, text: str, gateways: list[int]) -> str:
        server = re.search(r"server gateway:8000 resolve ([^;]*);", text)
        assert server is not None
        servers = "\n".join(f"        server 127.0.0.1:{port} {server[1]};" for port in gateways)
        user = "user root;\n" if os.geteuid() == 0 else ""
        temporary = "".join(
            f"    {name}_temp_path {self.folder}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        for old, new in (
            (server[0], servers.strip()),
            (
                "pid /tmp/nginx.pid;",
                f"{user}daemon off;\npid {self.folder}/pid;\nerror_log {self.folder}/errors;",
            ),
            ("worker_processes auto;", "worker_processes 1;"),
            ("access_log /dev/stdout brief;", f"access_log {self.folder}/requests brief;\n{temporary}"),
            ("listen 8080;", f"listen 127.0.0.1:{self.port};"),
            ("listen 8081 ", f"listen {self._grpc_address()} "),
            ("server gateway:50051 resolve ", f"server 127.0.0.1:{self._grpc_gateway or 1} "),
        ):
            assert old in text, old
            text = text.replace(old, new)
        return re.sub(r"^\s*resolver .*\n", "", text, flags=re.MULTILINE)

    def _grpc_address(self) -> str:
        return f"unix:{self.folder}/grpc" if self.grpc_port is None else f"127.0.0.1:{self.grpc_port}"

    async def start(self) -> None:
        """Start it and wait until it responds, even if no gateway does."""
        assert PROGRAM is not None
        command = [PROGRAM, "-c", str(self._file), "-p", str(self.folder), "-e", str(self.folder / "errors")]
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        async with httpx2.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    await client.get(f"{self.url}/health/live")
                    break
                except httpx2.HTTPError:
                    if self._process.returncode is not None or time.monotonic() > deadline:
                        raise RuntimeError((self.folder / "errors").read_text()[-2000:]) from None
                    await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
