"""A server in the role of a gateway with a tool for volumes: exports, streams of tool calls, and approvals."""

import json
import select
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from utcp_gateway_client.gateway import AsyncGateway, Gateway

SCHEMA = {"type": "object", "properties": {"value": {"type": "string"}}}
APPROVAL = UUID("019a0000-0000-7000-8000-000000000001")
KEY = "ugw_secret-key"


@dataclass
class ToolGateway:
    """Its only tool returns `Volume VALUE`, and an error without the argument `value`.

    The values "wait" have no result before `released` is set, or the client has `disconnected`; "end" ends the connection, and "approve" requires an
    approval, which has `state`. With `status`, tool calls are rejected.
    """

    name: str = "openlibrary_volumes"
    status: int = 200
    state: str = "pending"
    slow_export: bool = False
    released: threading.Event = field(default_factory=threading.Event)
    disconnected: threading.Event = field(default_factory=threading.Event)
    exports: list = field(default_factory=list)
    bodies: list = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)
    paths: list = field(default_factory=list)
    running: int = 0
    most: int = 0

    def __enter__(self):
        script = self
        self._lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
                script.paths.append(path)
                assert self.headers["Authorization"] == f"Bearer {KEY}"
                if path.endswith("/export"):
                    script.exports.append(query)
                    if script.slow_export:
                        script.released.wait()
                    self._json(script._export(query["format"][0]))
                elif path.endswith("/result"):
                    result = {"call_id": None, "upstream_status": 200, "media_type": "application/json"}
                    self._json(result | {"json": {"volume": "approved"}})
                else:
                    self._json(
                        approval(script.state) | dict.fromkeys(("arguments", "operations", "operation_count"))
                    )

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                target = urlsplit(self.path)
                if target.path.startswith("/approvals/"):
                    decision = target.path.rpartition("/")[2]
                    script.paths.append(target.path)
                    script.state = {"approve": "executed", "reject": "rejected"}[decision]
                    self._json(
                        approval(script.state) | dict.fromkeys(("arguments", "operations", "operation_count"))
                    )
                    return
                script.paths.append(target.path)
                script.bodies.append(body)
                script.arrived.set()
                if script.status != 200:
                    problem = {"type": "urn:utcp-gateway:problem:forbidden", "title": "Forbidden", "status": script.status,
                               "detail": "The key lacks the scope tools:call."}  # fmt: skip
                    self._json(problem, script.status, "application/problem+json")
                    return
                query = parse_qs(target.query)
                assert query["stream"] == ["true"]
                assert self.headers["Idempotency-Key"]
                assert int(self.headers["X-Timeout-Ms"]) > 0
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                with suppress(BrokenPipeError, ConnectionResetError):
                    script._run(self, query["format"][0], body)

            def event(self, name, data):
                self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()

            def _json(self, value, status=200, media_type="application/json"):
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_):
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def client(self, toolset=None, **options):
        return AsyncGateway(self.url, KEY, toolset, trust_env=False, **options)

    def blocking_client(self, toolset=None):
        return Gateway(self.url, KEY, toolset, trust_env=False)

    def _export(self, dialect):
        member = {"name": self.name, "description": "A volume by its ISBN"}
        tools = {
            "openai-chat": [{"type": "function", "function": member | {"parameters": SCHEMA}}],
            "openai-responses": [{"type": "function", **member, "parameters": SCHEMA, "strict": False}],
            "anthropic": [member | {"input_schema": SCHEMA}],
            "gemini": [{"functionDeclarations": [member | {"parametersJsonSchema": SCHEMA}]}],
            "json-prompt": [member | {"parameters": SCHEMA}],
        }[dialect]
        return {
            "format": dialect,
            "tools": tools,
            "aliases": {},
            "report": {"tools": [], "unknown": [], "omitted": 0, "limits": []},
        }

    def _run(self, connection, dialect, body):
        calls = _calls(dialect, body)
        quick = [each for each in calls if each[2].get("value") != "wait"]
        results = []
        with self._lock:
            self.running += len(calls)
            self.most = max(self.most, self.running)
        try:
            for position, call_id, arguments in quick + [each for each in calls if each not in quick]:
                if arguments.get("value") == "wait":
                    self._wait(connection)
                if arguments.get("value") == "end":
                    return
                text, is_error, error = self._outcome(arguments)
                facts = {
                    "id": call_id, "name": self.name, "tool": "openlibrary.volumes", "position": position, "is_error": is_error,
                    "repairs": [], "notes": [], "continuation": None, "call_id": None, "status": 200,
                } | ({"error": error} if error else {})  # fmt: skip
                part = _part(dialect, self.name, call_id, text, is_error)
                connection.event("result", facts | {"message": part})
                results.append(facts)
            connection.event("end", {"format": dialect, "messages": [], "results": results, "cut": None})
        finally:
            with self._lock:
                self.running -= len(calls)

    def _wait(self, connection):
        while not self.released.wait(0.02):
            if _is_closed(connection.connection):
                self.disconnected.set()
                raise BrokenPipeError

    def _outcome(self, arguments):
        if "value" not in arguments:
            return "/value is missing", True, {"status": 422}
        if arguments["value"] == "approve":
            url = f"{self.url}/approvals/{APPROVAL}"
            return f"Approve it at {url}", True, {"status": 202, "approval": approval("pending"), "url": url}
        return f"Volume {arguments['value']}", False, None


def _is_closed(connection):
    ready, _, _ = select.select([connection], [], [], 0)
    try:
        return bool(ready) and not connection.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


def approval(state):
    return {
        "id": str(APPROVAL), "kind": "call", "state": state, "requested_by": "AgentKey2346", "requester": None,
        "subject": {"type": "tool", "name": "openlibrary.volumes", "provider": "openlibrary"},
        "requested_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z", "decided_by": None, "decided_at": None,
        "comment": "Not today.", "ended_at": None, "call_id": None, "failure": None,
    }  # fmt: skip


def _calls(dialect, body):
    """Return (position, id, arguments) of each call."""
    if dialect == "openai-chat":
        return [
            (f"/tool_calls/{number}", each["id"], json.loads(each["function"]["arguments"]))
            for number, each in enumerate(body["tool_calls"])
        ]
    if dialect == "openai-responses":
        return [
            (f"/{number}", each["call_id"], json.loads(each["arguments"])) for number, each in enumerate(body)
        ]
    if dialect == "anthropic":
        return [
            (f"/content/{number}", each["id"], each["input"]) for number, each in enumerate(body["content"])
        ]
    if dialect == "gemini":
        return [
            (f"/parts/{number}/functionCall", f"call_{number}", each["functionCall"]["args"])
            for number, each in enumerate(body["parts"])
        ]
    return [("/text", "call_0", json.loads(body["text"])["arguments"])]


def _part(dialect, name, call_id, text, is_error):
    flagged = f"Error: {text}" if is_error else text
    if dialect == "openai-chat":
        return {"role": "tool", "tool_call_id": call_id, "content": flagged}
    if dialect == "openai-responses":
        return {"type": "function_call_output", "call_id": call_id, "output": flagged}
    if dialect == "anthropic":
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return block | {"is_error": True} if is_error else block
    if dialect == "gemini":
        return {"functionResponse": {"name": name, "response": {"error" if is_error else "output": text}}}
    outcome = "failed" if is_error else "returned"
    return {"role": "user", "content": f"The tool {name} {outcome}:\n{text}"}
