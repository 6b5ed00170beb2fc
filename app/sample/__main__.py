"""`python -m app.sample HOST PORT`: the child process of `sample_process`.

Credentials come as one line on standard input, and its end means that the parent is gone. The line that goes
out on standard output is the address, or what went wrong after `!`.
"""

import os
import socket  # noqa: TID251 - it listens, and connects to nothing
import sys
import threading

import uvicorn

from app.sample.api import create_sample
from app.sample.credentials import SampleCredentials
from app.security.dumps import disable_core_dumps


class _Server(uvicorn.Server):
    """Says its address once it accepts connections."""

    address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        sys.stdout.write(f"{self.address}\n")
        sys.stdout.flush()


def main(host: str, port: int) -> int:
    """Serves until it is told to stop, or until the parent ends. The exit code is 1 for a port in use."""
    disable_core_dumps()
    credentials = SampleCredentials.from_json(sys.stdin.readline())
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        sys.stdout.write(f"!{os.strerror(error.errno or 0)}\n")
        return 1
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listener.getsockname()[1]}"
    config = uvicorn.Config(
        create_sample(credentials, base_url=address), log_level="warning", timeout_graceful_shutdown=2
    )
    server = _Server(config)
    server.address = address

    def watch_parent() -> None:
        while sys.stdin.readline():
            pass
        server.should_exit = True

    threading.Thread(target=watch_parent, daemon=True).start()
    server.run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
