"""A server on 127.0.0.1 that stores each request, and says which one an operation of a plugin made.

An SDK is given the recorder's address in place of its own, with the origin that it would have called as the beginning of the path:
`http://127.0.0.1:8400/-/https/slack.com/api/` for `https://slack.com/api/`. The stored request has that origin.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.plugins.requests import Json, SentRequest, normalized

CONTROL = "/_recorder/call"
"""Drivers PUT here which operation comes next, and GET how many requests it has sent."""
TOKEN = "/_recorder/token"
"""A token endpoint of OAuth2, whose requests are not recorded; CREDENTIAL is its token."""
CREDENTIAL = "test-credential"
"""The key or token of each SDK, and of the gateway; `drivers/recording` has the same."""


@dataclass(slots=True)
class RecordedCall:
    """What a driver announced, and the requests that came until its next announcement."""

    announced: Json
    requests: list[SentRequest] = field(default_factory=list)


@dataclass(slots=True)
class Recorder:
    """A running recorder."""

    url: str = ""
    calls: list[RecordedCall] = field(default_factory=list)

    def address(self, url: str) -> str:
        """Return the address of the recorder that stands in for `url`."""
        scheme, _, rest = url.partition("://")
        return f"{self.url}/-/{scheme}/{rest}"

    def begin(self, announced: Json) -> RecordedCall:
        """Start a call; requests from now on are its own."""
        self.calls.append(RecordedCall(announced))
        return self.calls[-1]


def _handler(recorder: Recorder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self._body()
            if self.path == TOKEN:
                token = {"access_token": CREDENTIAL, "token_type": "Bearer", "expires_in": 3600}
                self._respond(json.dumps(token).encode())
            elif self.path != CONTROL:
                call = recorder.calls[-1] if recorder.calls else recorder.begin({})
                call.requests.append(normalized(self.command, self.path, list(self.headers.items()), body))
                reply = call.announced.get("reply", {})
                self._respond(json.dumps(reply).encode())
            elif self.command == "PUT":
                recorder.begin(json.loads(body))
                self._respond(b"{}")
            else:
                self._respond(json.dumps({"requests": len(recorder.calls[-1].requests)}).encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 -- names of BaseHTTPRequestHandler.

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", "0")))
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def _respond(self, content: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: Any) -> None:
            """Print nothing."""

    return Handler


@contextmanager
def recorder() -> Iterator[Recorder]:
    """Run a recorder until the block ends."""
    recording = Recorder()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(recording)) as server:
        recording.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield recording
        finally:
            server.shutdown()
            thread.join()
