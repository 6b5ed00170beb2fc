"""A server in the role of a gateway, on a real socket: it answers as it is told to, or ends the connection."""

import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """A response; `drop` ends the connection in its place, `delay` are seconds before it."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: bool = False
    delay: float = 0.0
    media_type: str = "application/json"


@dataclass
class Received:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Peer:
    """The server: takes one of `answers` for each request, and keeps what it received."""

    url: str
    answers: list[Answer] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)


def problem(status: int, slug: str, **members: Any) -> Answer:
    headers = {"Retry-After": str(members.pop("retry_after"))} if "retry_after" in members else {}
    body = {
        "type": f"urn:utcp-gateway:problem:{slug}",
        "title": slug,
        "status": status,
        "detail": "It failed.",
        **members,
    }
    return Answer(status, body, headers, media_type="application/problem+json")


@contextmanager
def peer(tls: ssl.SSLContext | None = None) -> Iterator[Peer]:
    """Serve until the block ends, by TLS with a context."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.received.append(Received(self.command, self.path, headers, body))
            answer = state.answers.pop(0)
            time.sleep(answer.delay)
            if answer.drop:
                self.close_connection = True
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media_type)
            self.send_header("Content-Length", str(len(content)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(content)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = _respond  # noqa: N815 - names of the base class

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state = Peer(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
