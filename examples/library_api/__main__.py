"""`python -m examples.library_api`: serve the library API until a signal.

One line of JSON on standard output says that it accepts connections: the body that registers it in a gateway
(`POST /providers`), or `{"error": ...}`.
"""

import argparse
import json
import os
import resource
import socket  # noqa: TID251 - it listens, and connects to nothing
import sys
import threading
from pathlib import Path
from typing import Any

import uvicorn

from examples.library_api.api import create_app
from examples.library_api.credentials import CredentialsError, LibraryCredentials
from examples.library_api.registration import registration


class _Server(uvicorn.Server):
    """Writes a line on standard output once it accepts connections."""

    announcement: dict[str, Any]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        _write(self.announcement)


def main() -> int:
    """Serve until a signal; return 1 where the port or the credentials cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m examples.library_api", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001, help="0 for a free one")
    parser.add_argument("--credentials", type=Path, default=Path("sample.json"), help="made if it is missing")
    parser.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    listener = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        credentials = LibraryCredentials.load(options.credentials)
        listener.bind((options.host, options.port))
    except CredentialsError as error:
        _write({"error": str(error)})
        return 1
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        _write({"error": f"{options.host} port {options.port}: {reason}."})
        return 1
    host = f"[{options.host}]" if ":" in options.host else options.host
    base_url = f"http://{host}:{listener.getsockname()[1]}"
    application = create_app(credentials, base_url=base_url)
    server = _Server(uvicorn.Config(application, log_level="warning", timeout_graceful_shutdown=2))
    server.announcement = registration(base_url, credentials)
    if options.end_with_stdin:
        threading.Thread(target=_end_with_stdin, args=(server,), daemon=True).start()
    server.run(sockets=[listener])
    return 0


def _write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _end_with_stdin(server: uvicorn.Server) -> None:
    while sys.stdin.readline():
        pass
    server.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
