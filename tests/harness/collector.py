"""An OpenTelemetry collector for tests: receives OTLP over HTTP, and records the spans and the raw bytes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(slots=True)
class Span:
    """One span as received."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent: str
    state: str
    error: bool
    attributes: dict[str, Any]
    events: int


@dataclass(slots=True)
class Collector:
    """The exports received so far. `status` is that of its responses."""

    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    def messages(self) -> list[ExportTraceServiceRequest]:
        """Return all exports, decoded."""
        return [ExportTraceServiceRequest.FromString(body) for body in list(self.bodies)]

    def spans(self) -> list[Span]:
        """Return all spans, in the order of their arrival."""
        return [
            _span(one)
            for message in self.messages()
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for one in scope.spans
        ]

    def resource(self) -> dict[str, Any]:
        """Return the resource attributes of the first export."""
        return _attributes(self.messages()[0].resource_spans[0].resource.attributes)

    def wait(self, number: int = 1, *, seconds: float = 20) -> list[Span]:
        """Wait until there are `number` spans, and return all spans."""
        deadline = time.monotonic() + seconds
        while len(found := self.spans()) < number:
            assert time.monotonic() < deadline, f"{len(found)} spans came"
            time.sleep(0.05)
        return found


def _span(one: Any) -> Span:
    return Span(
        name=one.name,
        kind={1: "internal", 2: "server", 3: "client"}[one.kind],
        trace_id=one.trace_id.hex(),
        span_id=one.span_id.hex(),
        parent=one.parent_span_id.hex(),
        state=one.trace_state,
        error=one.status.code == 2,
        attributes=_attributes(one.attributes),
        events=len(one.events),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector on a free port of 127.0.0.1."""
    received = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.paths.append(self.path)
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            if received.status == 200:
                received.bodies.append(body)
            self.send_response(received.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
