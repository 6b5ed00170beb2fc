"""An upstream of the toy protocol, in a thread of its own."""

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Upstream:
    """A running upstream: its port of loopback, and the requests that came."""

    port: int
    requests: list[dict[str, Any]] = field(default_factory=list)


@contextlib.contextmanager
def listening(methods: tuple[str, ...]) -> Iterator[Upstream]:
    """Serve `methods`; each gives back its name and its arguments."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = json.loads(self.rfile.readline())
            upstream.requests.append(request)
            found = {"methods": methods} if request["method"] == "manual" else request
            found = {key: value for key, value in found.items() if key != "password"}
            self.wfile.write(json.dumps(found).encode() + b"\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        upstream = Upstream(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield upstream
        finally:
            server.shutdown()
            thread.join()
