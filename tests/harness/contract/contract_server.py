"""A server that checks each request against openapi/gateway.json, and responds with the contract's examples.

Tests of the command line and of packages/python use it, so it imports nothing of the gateway.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import jsonschema_rs

CONTRACT_FILE: Final = Path(__file__).parents[3] / "openapi" / "gateway.json"
# Headers of HTTP itself, and the one of the security scheme.
_HTTP_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host",
    "transfer-encoding", "user-agent",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A request as it arrived; names of headers in lower case, `target` with its query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the contract: its path template, and the Operation Object of OpenAPI."""

    method: str
    path: str
    definition: Mapping[str, Any]

    @property
    def id(self) -> str:
        """`METHOD /path`, as in the documentation."""
        return f"{self.method} {self.path}"

    def values(self, name: str) -> list[Any]:
        """Return the values that the enumeration of a query parameter has; [] without one."""
        for parameter in self.definition.get("parameters", ()):
            if (parameter["in"], parameter["name"]) == ("query", name):
                return list(parameter["schema"].get("enum", ()))
        return []


class Contract:
    """The operations of an OpenAPI 3.1 document whose parameters and bodies are defined in place."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas: Any = document["components"]["schemas"]
        self._operations = [
            (_pattern(path), Operation(method.upper(), path, definition))
            for path, item in document["paths"].items()
            for method, definition in item.items()
        ]
        # /variables/import comes before /variables/{variable}.
        self._operations.sort(key=lambda each: each[1].path.count("{"))

    def find(self, request: SentRequest) -> Operation | None:
        """Return the operation that the request is one of, None where there is none."""
        path = urlsplit(request.target).path
        for pattern, operation in self._operations:
            if operation.method == request.method and pattern.fullmatch(path):
                return operation
        return None

    def operation(self, method: str, path: str) -> Operation:
        """Return the operation of a method and a path template; raise KeyError where there is none."""
        for _, operation in self._operations:
            if (operation.method, operation.path) == (method, path):
                return operation
        raise KeyError(path)

    def errors(self, request: SentRequest) -> list[str]:
        """Return what in the request is not in the contract: a sentence for each."""
        operation = self.find(request)
        if operation is None:
            return [f"{request.method} {request.target} is no operation."]
        found = [*self._parameter_errors(operation, request), *self._body_errors(operation, request)]
        return [f"{operation.id}: {each}" for each in found]

    def _parameter_errors(self, operation: Operation, request: SentRequest) -> Iterator[str]:
        defined = {
            (each["in"], each["name"].lower() if each["in"] == "header" else each["name"]): each
            for each in operation.definition.get("parameters", ())
        }
        sent = _sent_parameters(operation, request)
        for key, parameter in defined.items():
            if parameter.get("required") and key not in sent:
                yield f"the {key[0]} parameter {key[1]} is missing."
        for key, values in sent.items():
            if key not in defined:
                yield f"there is no {key[0]} parameter {key[1]}."
                continue
            validator = self._validator(json.dumps(defined[key]["schema"]))
            if not any(validator.is_valid(value) for value in _readings(values)):
                yield f"the {key[0]} parameter {key[1]} has the value {values}."

    def _body_errors(self, operation: Operation, request: SentRequest) -> Iterator[str]:
        defined = operation.definition.get("requestBody")
        if not request.body:
            if defined is not None and defined.get("required"):
                yield "the body is missing."
            return
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        if defined is None or media_type not in defined["content"]:
            yield f"there is no body of the type {media_type}."
            return
        if media_type == "application/json":
            validator = self._validator(json.dumps(defined["content"][media_type].get("schema", {})))
            for error in validator.iter_errors(json.loads(request.body)):
                yield f"the body is not valid: {error.message}"

    @cache  # noqa: B019 - there is one contract
    def _validator(self, schema: str) -> Any:
        return jsonschema_rs.Draft202012Validator(
            {
                "allOf": [json.loads(schema)],
                "components": {"schemas": self._schemas},
            },
            validate_formats=True,
        )


def example(operation: Operation, accept: str) -> tuple[int, str, bytes]:
    """Return status, media type and body of the first successful response, of a type that is accepted."""
    responses = operation.definition["responses"]
    status = min(each for each in responses if each.startswith("2"))
    content = {
        media_type: each
        for media_type, each in responses[status].get("content", {}).items()
        if "example" in each or "examples" in each
    }
    accepted = [each.partition(";")[0].strip() for each in accept.split(",")]
    media_type = next((each for each in accepted if each in content), next(iter(content), ""))
    if not media_type:
        return int(status), "", b""
    found = content[media_type]
    value = found["example"] if "example" in found else next(iter(found["examples"].values()))["value"]
    body = value if isinstance(value, str) and media_type != "application/json" else json.dumps(value)
    return int(status), media_type, body.encode()


@dataclass
class ContractServer:
    """The running server. `requests` are those that arrived, `errors` what in them is not in the contract.

    `responses` replace examples: status, media type and body by `METHOD /path/{template}`.
    """

    contract: Contract
    url: str = ""
    requests: list[SentRequest] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    responses: dict[str, tuple[int, str, bytes]] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget what arrived."""
        self.requests.clear()
        self.errors.clear()
        self.responses.clear()

    def operations(self) -> set[str]:
        """Return the operations that were used, as `METHOD /path`."""
        found = (self.contract.find(request) for request in self.requests)
        return {operation.id for operation in found if operation is not None}

    def respond(self, request: SentRequest) -> tuple[int, str, bytes]:
        """Return status, media type and body; 404 where there is no such operation."""
        self.requests.append(request)
        self.errors += self.contract.errors(request)
        operation = self.contract.find(request)
        if operation is None:
            return 404, "application/problem+json", b'{"title":"Not found","status":404}'
        if operation.id in self.responses:
            return self.responses[operation.id]
        status, media_type, body = example(operation, request.headers.get("accept", ""))
        if "cursor=" in request.target:
            # Whoever follows next_cursor has to find an end.
            body = json.dumps(json.loads(body) | {"next_cursor": None}).encode()
        return status, media_type, body


@contextmanager
def serve_contract() -> Iterator[ContractServer]:
    """Serve the contract on a port of 127.0.0.1 until the block ends."""
    state = ContractServer(Contract(json.loads(CONTRACT_FILE.read_bytes())))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, media_type, content = state.respond(SentRequest(self.command, self.path, headers, body))
            self.send_response(status)
            if media_type:
                self.send_header("Content-Type", media_type)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _respond  # noqa: N815 - names of the base class

        def log_message(self, *arguments: Any) -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{([a-z_]+)\}", path)
    return re.compile(
        "".join(f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))
    )


def _sent_parameters(operation: Operation, request: SentRequest) -> dict[tuple[str, str], list[str]]:
    """Return the values of each parameter that the request has, by its place and name."""
    target = urlsplit(request.target)
    sent: dict[tuple[str, str], list[str]] = {}
    matched = _pattern(operation.path).fullmatch(target.path)
    for name, value in (matched.groupdict() if matched else {}).items():
        sent["path", name] = [unquote(value)]
    for name, value in (
        parse_qsl(target.query, keep_blank_values=True, strict_parsing=True) if target.query else ()
    ):
        sent.setdefault(("query", name), []).append(value)
    for name, value in request.headers.items():
        if name not in _HTTP_HEADERS:
            sent["header", name] = [value]
    return sent


def _readings(values: list[str]) -> Iterator[Any]:
    """Yield the values that a parameter may have: text or, as its schema says, a number, a boolean, a list."""
    yield values
    if len(values) == 1:
        yield values[0]
        try:
            yield json.loads(values[0])
        except ValueError:
            return
