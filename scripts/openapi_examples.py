"""Record the examples of the OpenAPI document from a running gateway (`make examples`).

A gateway with servers of its own registers the sample API (`examples/library_api`) and a small weather API,
and each operation is sent once for each of its successful responses. Requests, responses and problems are
written to `app/server/openapi_examples.json`. What differs from run to run (identifiers, times, ports,
digests, durations, secrets) is replaced by fixed values of the same form: two recordings are equal.
"""

import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

from websockets.sync.client import ClientConnection, connect

from app.cli.sample import serve_sample_api
from app.core.errors import PROBLEM_TYPE
from app.formats.toolclad.envelope import MEDIA_TYPE as ENVELOPE
from tests.harness.gateway import RunningGateway, serve
from tests.harness.model_peers import ModelServer, Turn
from tests.harness.servers import Pair, pair

TARGET = Path(__file__).parents[1] / "app" / "server" / "openapi_examples.json"
GATEWAY, LIBRARY, WEATHER = "http://127.0.0.1:8000", "http://127.0.0.1:8001", "http://127.0.0.1:8002"
AGENT_KEY_ID, ADMIN_KEY_ID, CLERK_KEY_ID = "AgentKey2346", "AdminKey2346", "ClerkKey2346"
OLD_KEY_ID, SUCCESSOR_KEY_ID = "NightKey2346", "NightKey2347"
AGENT_KEY, SUCCESSOR_KEY = (f"ugw_{key_id}_{'x' * 38}" for key_id in (AGENT_KEY_ID, SUCCESSOR_KEY_ID))
"""They have the form of a key, and a checksum that is not valid."""
SETTINGS = {"CALL_LOG_BODIES": "all", "CALL_LOG_MODE": "strict", "MAX_REQUEST_BYTES": "1000000"}

Recording = dict[str, Any]


class Weather:
    """An API of one operation, whose OpenAPI document can move to another origin."""

    def __init__(self) -> None:
        weather = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                document = self.path == "/openapi.json"
                found = weather.document if document else {"city": "Oslo", "celsius": 4}
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.document: dict[str, Any] = {}
        self.serve_from(self.url)

    def serve_from(self, url: str) -> None:
        """Name `url` as the server of the API in its document."""
        city = {"name": "city", "in": "query", "required": True, "schema": {"type": "string"}}
        self.document = {
            "openapi": "3.1.0",
            "info": {"title": "Weather", "version": "1"},
            "servers": [{"url": url}],
            "paths": {
                "/current": {
                    "get": {
                        "operationId": "currentWeather",
                        "summary": "Get the weather of a city now.",
                        "parameters": [city],
                        "responses": {"200": {"description": "OK"}},
                    }
                }
            },
        }


@contextmanager
def weather_api() -> Iterator[Weather]:
    """Serve the weather API on a free port."""
    weather = Weather()
    thread = threading.Thread(target=weather.server.serve_forever)
    thread.start()
    try:
        yield weather
    finally:
        weather.server.shutdown()
        thread.join()
        weather.server.server_close()


class Recorder:
    """Sends operations of a gateway, and records each request and response."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway
        self.operations: dict[str, Any] = {}
        self.problems: dict[str, Any] = {}
        self.replacements: dict[str, str] = {gateway.url: GATEWAY, gateway.key: AGENT_KEY}
        self.replacements[gateway.key.split("_")[1]] = ADMIN_KEY_ID
        with gateway.client() as client:
            document = client.get("/openapi.json").json()
        self._routes = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, item in document["paths"].items()
            for method, operation in item.items()
        }

    def send(
        self,
        operation_id: str,
        status: int,
        *,
        path: dict[str, str] | None = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        key: str | None = None,
        is_example: bool = True,
    ) -> Any:
        """Send an operation and return its response; raise RuntimeError for another status than `status`.

        A problem is recorded by its slug, and any other response by operation, status and media type; neither
        replaces an earlier one. Without `is_example` only a problem is recorded.
        """
        method, template, operation = self._routes[operation_id]
        url = re.sub(r"\{(\w+)\}", lambda match: quote((path or {})[match[1]], safe=""), template)
        first = next(iter(operation.get("requestBody", {}).get("content", ())), "application/json")
        media_type = (headers or {}).get("Content-Type", first)
        content = None if body is None else body if isinstance(body, str | bytes) else json.dumps(body)
        sent = {"Content-Type": media_type} if content is not None else {}
        with self.gateway.client(key=key) as client:
            response = client.request(
                method, url, params=query, content=content, headers={**sent, **(headers or {})}
            )
        if response.status_code != status:
            message = f"{operation_id}: {response.status_code} in place of {status}: {response.text}"
            raise RuntimeError(message)
        found_type = response.headers.get("content-type", "").split(";")[0]
        if found_type == "application/problem+json":
            problem = response.json()
            self.problems.setdefault(problem["type"].removeprefix(PROBLEM_TYPE), problem)
            return response
        if not is_example:
            return response
        recorded = self.operations.setdefault(operation_id, {"responses": {}})
        if path or query:
            recorded.setdefault("parameters", {**(path or {}), **(query or {})})
        if body is not None:
            recorded.setdefault("request", {}).setdefault(media_type, body)
        if response.content:
            by_type = recorded["responses"].setdefault(str(status), {})
            is_json = found_type in ("application/json", ENVELOPE)
            by_type.setdefault(found_type, response.json() if is_json else response.text)
        return response

    def is_found(self, path: str) -> bool:
        """Return whether a GET of a path responds with 200."""
        with self.gateway.client() as client:
            return client.get(path).status_code == 200

    def recording(self) -> Recording:
        """Return what was recorded, with fixed values for what differs from run to run."""
        text = json.dumps({"operations": self.operations, "problems": self.problems}, ensure_ascii=False)
        return fixed(text, self.replacements)


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(Z|\+00:00)")
_SCAN_ID = re.compile(r"\b\d{10}-[0-9a-f]{5}\b")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_DURATION = re.compile(r'(\\?"(?:duration_ms|milliseconds)\\?": ?)[\d.]+')
_MILLISECONDS = re.compile(r'("durationMs": )\d+')
_JUNIT_TIME = re.compile(r'( time=\\")[\d.]+')
_JUNIT_TIMESTAMP = re.compile(r'(timestamp=\\")[^\\]+')
_DIGEST = re.compile(r'("(?:sha256|fingerprint|definition)": )"([0-9a-f]+)"')
_INSTANCE = re.compile(r'"utcp-gateway-[0-9a-f]{16}"')
_RETRY_AFTER = re.compile(r'("retry_after": |try again in )\d+')
_CURSOR = re.compile(r'("next_cursor": ")[^"]+')
_SIGN_IN_TOKEN = re.compile(r"\bugl_[\w-]{20,}")
_LAST_USED = re.compile(r'("last_used_at": )"[^"]+"')


def fixed(text: str, replacements: dict[str, str]) -> Recording:
    """Return the JSON `text` with the replacements, and fixed times, identifiers, digests and durations."""
    for found, replacement in sorted(replacements.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(found, replacement)
    identifiers: dict[str, str] = {}
    text = _INSTANCE.sub('"utcp-gateway-0123456789abcdef"', text)
    text = _RETRY_AFTER.sub(r"\g<1>3600", text)
    text = _CURSOR.sub(r"\g<1>WyJuYW1lIiwiLi4uIl0", text)
    text = _LAST_USED.sub(r"\1null", text)
    text = _SIGN_IN_TOKEN.sub("ugl_...", text)
    text = _SCAN_ID.sub("1795338000-0a1b2", text)
    text = _TIME.sub(r"2026-11-22T09:00:00\1", text)
    text = _UUID.sub(
        lambda match: identifiers.setdefault(match[0], f"019a0000-0000-7000-8000-{len(identifiers) + 1:012}"),
        text,
    )
    text = _DURATION.sub(r"\g<1>12.5", text)
    text = _MILLISECONDS.sub(r"\g<1>1250", text)
    text = _JUNIT_TIME.sub(r"\g<1>1.250", text)
    text = _JUNIT_TIMESTAMP.sub(r"\g<1>2026-11-22T09:00:00", text)
    text = _DIGEST.sub(lambda match: f'{match[1]}"{("0123456789abcdef" * 4)[: len(match[2])]}"', text)
    recording: Recording = json.loads(text)
    return recording


def record(servers: Pair, folder: Path) -> Recording:
    """Return the examples of every operation, recorded from a new gateway on `servers`."""
    with (
        serve_sample_api(folder / "data", port=0) as registration,
        weather_api() as weather,
        ModelServer(_model_turns()) as model,
        serve(
            servers,
            folder,
            database_url=None,
            workers=1,
            execute=True,
            **SETTINGS,
            OPENAI_BASE_URL=f"{model.url}/v1",
        ) as gateway,
    ):
        recorder = Recorder(gateway)
        library = registration["source"]["url"].removesuffix("/openapi.json")
        recorder.replacements |= {library: LIBRARY, weather.url: WEATHER}
        for slot, credential in registration["credentials"].items():
            for field in ("value", "password", "client_secret"):
                if field in credential:
                    recorder.replacements[credential[field]] = f"the-secret-of-{slot}"
        _record_operation(recorder)
        _record_variables(recorder)
        _record_weather(recorder, weather)
        _record_library(recorder, registration)
        key = _record_keys(recorder)
        _record_tools(recorder, library)
        _record_key_details(recorder, key)
        _record_sessions(recorder)
        _record_toolsets(recorder)
        _record_search_words(recorder)
        _record_recordings(recorder)
        _record_search_usage(recorder)
        _record_agent_tests(recorder)
        _record_plugins(recorder)
        _record_calls(recorder, registration["credentials"], key)
        _record_continuation(recorder, key)
        _record_approvals(recorder, key)
        _record_problems(recorder, key)
        _record_reference(recorder)
        _record_executors(recorder)
        _record_removals(recorder)
        return recorder.recording()


def _record_operation(recorder: Recorder) -> None:
    recorder.send("live", 200)
    recorder.send("ready", 200)
    recorder.send("metrics", 200)
    shown = recorder.operations["metrics"]["responses"]["200"]
    lines = shown["text/plain"].splitlines(keepends=True)
    shown["text/plain"] = "".join(line for line in lines if "utcp_gateway_workers" in line)


def _record_reference(recorder: Recorder) -> None:
    """Record the pages of problem types and scopes; of the lists, one item."""
    recorder.send("getProblemType", 200, path={"slug": "not-found"})
    recorder.send("getScope", 200, path={"scope": "tools:call"})
    for operation in ("listProblemTypes", "listScopes"):
        recorder.send(operation, 200)
        shown = recorder.operations[operation]["responses"]["200"]["application/json"]
        shown["items"] = shown["items"][:1]


def _record_keys(recorder: Recorder) -> str:
    """Record the operations of keys; return the text of one that reads and calls tools."""
    body = {
        "name": "support agent",
        "owner": "support@example.com",
        "purpose": "Answers questions about loans",
        "scopes": ["tools:read", "tools:call"],
        "providers": ["library"],
        "rate_limit": {"requests": 600, "per_seconds": 60, "burst": 50},
    }
    made = recorder.send("createKey", 201, body=body).json()
    recorder.replacements |= {made["key"]: AGENT_KEY, made["id"]: AGENT_KEY_ID}
    recorder.send("listKeys", 200, query={"limit": 1})
    return str(made["key"])


def _record_key_details(recorder: Recorder, key: str) -> None:
    """Record the operations on a key whose provider exists by now; `key` is the text of that key."""
    path = {"key_id": key.split("_")[1]}
    recorder.send("getKey", 200, path=path)
    recorder.send("updateKey", 200, path=path, body={"owner": "loans@example.com"})
    recorder.send("getMe", 200, key=key)
    recorder.send("explainAccess", 200, query={"tool": "library.searchBooks"}, key=key)
    body = {"name": "night run", "scopes": ["tools:call"], "providers": ["library"]}
    old = recorder.send("createKey", 201, body=body, is_example=False).json()
    new = recorder.send("rotateKey", 201, path={"key_id": old["id"]}, body={"overlap_seconds": 3600}).json()
    recorder.replacements |= {new["key"]: SUCCESSOR_KEY, new["id"]: SUCCESSOR_KEY_ID, old["id"]: OLD_KEY_ID}


def _record_sessions(recorder: Recorder) -> None:
    recorder.send("createSession", 201)
    recorder.send("createSession", 403, headers={"X-Real-IP": "198.51.100.7"})
    recorder.send("createSignInLink", 200)
    port = recorder.gateway.url.rpartition(":")[2]
    foreign = {"Cookie": f"utcp-session-{port}=ugs_unknown", "Origin": "https://evil.example"}
    recorder.send("deleteSession", 403, headers=foreign)
    recorder.send("deleteSession", 204)


def _record_variables(recorder: Recorder) -> None:
    for status in (201, 200):
        recorder.send(
            "putVariable", status, path={"variable": "REGION"}, body={"value": "eu", "secret": False}
        )
    text = {"Content-Type": "text/plain"}
    recorder.send("putVariable", 200, path={"variable": "REGION"}, body="eu", headers=text)
    recorder.send("importVariables", 200, body="REGION=eu\nSUPPORT_TOKEN=example-token\n", headers=text)
    given = {"REGION": {"value": "eu", "secret": False}, "SUPPORT_TOKEN": {"value": "example-token"}}
    recorder.send("importVariables", 200, body={"variables": given})
    recorder.send("listVariables", 200, query={"limit": 2})
    origins = {"allowed_origins": ["https://support.example"]}
    recorder.send("updateVariable", 200, path={"variable": "SUPPORT_TOKEN"}, body=origins)


def _record_weather(recorder: Recorder, weather: Weather) -> None:
    """Record the operations whose responses are shortest with a provider of one tool."""
    document = f"{weather.url}/openapi.json"
    body = {"name": "weather", "source": {"url": document}}
    recorder.send("previewProvider", 200, body=body)
    recorder.send("registerProvider", 201, body=body)
    path = {"name": "weather"}
    recorder.send("exportProviders", 200)
    recorder.send("getProvider", 200, path=path)
    recorder.send("listProviders", 200, query={"limit": 1})
    recorder.send("previewRefresh", 200, path=path)
    _settle(recorder, recorder.send("previewRefresh", 202, path=path, headers={"Prefer": "respond-async"}))
    recorder.send("refreshProvider", 200, path=path)
    _settle(recorder, recorder.send("refreshProvider", 202, path=path, headers={"Prefer": "respond-async"}))
    clerk = _clerk(recorder)
    weather.serve_from("http://localhost:8003")
    recorder.send("refreshProvider", 200, path=path)
    recorder.send("approveProvider", 403, path=path)
    recorder.send("refreshProvider", 200, path=path, key=clerk)
    recorder.send("approveProvider", 200, path=path)
    weather.serve_from(weather.url)
    recorder.send("refreshProvider", 200, path=path, key=clerk)
    recorder.send("approveProvider", 200, path=path)
    changes = {"description": "The weather of today.", "tags": ["public"], "limits": {"total": 10}}
    recorder.send("updateProvider", 200, path=path, body=changes)
    for status in (201, 200):
        value = {"value": "metric", "secret": False}
        recorder.send("putProviderVariable", status, path={**path, "variable": "UNITS"}, body=value)
    recorder.send(
        "putProviderVariable",
        200,
        path={**path, "variable": "UNITS"},
        body="metric",
        headers={"Content-Type": "text/plain"},
    )
    recorder.send("listProviderVariables", 200, path=path)
    entry = {"name": "forecast", "call_template_type": "http", "url": document}
    wrong = {"name": "archive", "call_template_type": "http", "url": "ftp://127.0.0.1/openapi.json"}
    for operation in ("previewProvider", "registerProvider"):
        recorder.send(operation, 207, body=[{**entry, "name": "forecast-7"}, wrong])
        _settle(
            recorder,
            recorder.send(
                operation, 202, body={**body, "name": "forecast-14"}, headers={"Prefer": "respond-async"}
            ),
        )
        recorder.send(operation, 200, body=[entry])
    exported = recorder.send("exportProviders", 200, is_example=False).json()
    one = [each for each in exported["providers"] if each["name"] == "weather"]
    imported = {"format": exported["format"], "providers": [{**one[0], "name": "weather-2"}]}
    recorder.send("importProviders", 200, body=imported)
    recorder.send("importProviders", 207, body={**imported, "providers": [{**one[0], "name": "weather 3"}]})
    third = {**imported, "providers": [{**one[0], "name": "weather-3"}]}
    _settle(recorder, recorder.send("importProviders", 202, body=third, headers={"Prefer": "respond-async"}))
    for name in ("forecast", "forecast-7", "forecast-14", "weather-2", "weather-3"):
        recorder.send("deleteProvider", 204, path={"name": name}, is_example=False)


def _clerk(recorder: Recorder) -> str:
    """Return the text of a key that refreshes providers, so that the admin key can approve their changes."""
    body = {"name": "clerk", "scopes": ["providers:write"]}
    made = recorder.send("createKey", 201, body=body, is_example=False).json()
    recorder.replacements |= {made["key"]: AGENT_KEY, made["id"]: CLERK_KEY_ID}
    return str(made["key"])


def _settle(recorder: Recorder, accepted: Any) -> None:
    """Wait until the import of a 202 has ended, and record it."""
    path = {"import_id": accepted.headers["location"].rpartition("/")[2]}
    _until(
        "the import has ended",
        lambda: recorder.send("getImport", 200, path=path, is_example=False).json()["state"] != "running",
    )
    recorder.send("getImport", 200, path=path)


def _until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait until a condition is true; raise RuntimeError, which says `what` it is, after 60 s."""
    deadline = time.monotonic() + 60
    while not is_so():
        if time.monotonic() > deadline:
            message = f"not within 60 s: {what}"
            raise RuntimeError(message)
        time.sleep(0.02)


def _record_library(recorder: Recorder, registration: dict[str, Any]) -> None:
    recorder.send("registerProvider", 201, body=registration)
    path = {"name": "library", "slot": "memberKey"}
    recorder.send("deleteCredential", 204, path=path)
    credential = registration["credentials"]["memberKey"]
    for status in (201, 200):
        recorder.send("putCredential", status, path=path, body=credential)
    recorder.send("listCredentials", 200, path={"name": "library"})
    recorder.send("checkProvider", 200, path={"name": "library"}, body={"probe": True})
    recorder.send("listProviderHealth", 200, query={"provider": "library"})


def _record_tools(recorder: Recorder, library: str) -> None:
    recorder.send("searchTools", 200, query={"q": "find a book", "limit": 1})
    recorder.send("exportTools", 200, query={"format": "openai-chat", "q": "find a book", "limit": 1})
    recorder.send("listTools", 200, query={"provider": "library", "limit": 2})
    path = {"name": "library.searchBooks"}
    recorder.send("getTool", 200, path=path)
    recorder.send("updateTool", 200, path=path, body={"tags": ["books", "public"]})
    recorder.send("getToolHistory", 200, path=path)
    described = {"tool": "library.getPopularBooks", "patch": {"description": "Report what is read most."}}
    selected = {"filter": {"provider": "library", "q": "reservation"}, "patch": {"enabled": False}}
    recorder.send("updateTools", 200, body={"operations": [described, selected], "dry_run": True})
    unknown = {"tool": "library.lendBook", "patch": {"enabled": False}}
    recorder.send("updateTools", 207, body={"operations": [described, unknown], "atomic": True})
    query = {"q": "opening hours", "version": "1"}
    for operation, parameters in (("getManual", {}), ("getProviderManual", {"name": "library"})):
        recorder.send(operation, 200, path=parameters, query={**query, "tag": "visit"})
    template = {"call_template_type": "http", "http_method": "GET", "url": f"{library}/books/{{book_id}}"}
    inputs = {"type": "object", "properties": {"book_id": {"type": "string"}}, "required": ["book_id"]}
    body = {
        "provider": "library",
        "name": "findById",
        "description": "Get a book by its id.",
        "inputs": inputs,
        "tags": ["books"],
        "call_template": template,
    }
    recorder.send("createTool", 201, body=body)


def _record_toolsets(recorder: Recorder) -> None:
    """Record a toolset, its manual, its search, and a call of one of its tools."""
    path = {"name": "support"}
    definition = {
        "tools": ["library.searchBooks", "library.getStock"],
        "changes": {"library.searchBooks": {"name": "find_books", "presets": {"limit": 2}}},
        "read_only": True,
    }
    body = {"name": "support", "title": "Support", "definition": definition}
    recorder.send("createToolset", 201, body=body)
    recorder.send("getToolset", 200, path=path)
    recorder.send("listToolsets", 200)
    recorder.send("putToolset", 200, path=path, body={"title": "Customer support", "definition": definition})
    recorder.send("putToolset", 201, path={"name": "desk"}, body={"definition": {"providers": ["library"]}})
    recorder.send("searchToolset", 200, path=path, query={"q": "find a book", "limit": 1})
    recorder.send("exportToolset", 200, path=path, query={"format": "anthropic", "limit": 1})
    recorder.send("getToolsetManual", 200, path=path, query={"q": "find_books", "version": "1"})
    called = {**path, "tool": "find_books"}
    recorder.send("callToolsetTool", 200, path=called, body={"q": "sea"})
    for media_type in ("text/event-stream", "application/x-ndjson"):
        recorder.send("callToolsetTool", 200, path=called, body={"q": "sea"}, headers={"Accept": media_type})
    recorder.send("deleteToolset", 204, path={"name": "desk"})


def _record_search_words(recorder: Recorder) -> None:
    """Record synonyms and pinned results, and a search that uses them."""
    synonyms = {"terms": ["novel", "book", "work of fiction"]}
    made = recorder.send("createSynonyms", 201, body=synonyms).json()
    path = {"id": made["id"]}
    recorder.send("createSynonyms", 409, body=synonyms)
    recorder.send("getSynonyms", 200, path=path)
    recorder.send("listSynonyms", 200)
    recorder.send("putSynonyms", 200, path=path, body={"terms": ["tome"], "expand_to": ["book"]})
    recorder.send("importSynonyms", 200, body="tome => book\nnovel, book\n")
    recorder.send("exportSynonyms", 200)
    pin = {"query": "is it on the shelf", "tools": ["library.getStock", "library.removed"]}
    pinned = {"id": recorder.send("createPin", 201, body=pin).json()["id"]}
    recorder.send("getPin", 200, path=pinned)
    recorder.send("listPins", 200)
    recorder.send("putPin", 200, path=pinned, body={**pin, "tools": ["library.getStock"]})
    recorder.send("deletePin", 204, path=pinned)
    recorder.send("deleteSynonyms", 204, path=path)


def _record_recordings(recorder: Recorder) -> None:
    """Record a recording with one call, and what replays and documents make of it."""
    path = {"name": "checkout"}
    body = {"name": "checkout", "options": {"ignored": ["/requested_at"]}}
    recorder.send("createRecording", 201, body=body)
    keys = {}
    for mode in ("record", "replay"):
        given = {"name": mode, "scopes": ["tools:call"], "upstream": {"mode": mode, "recording": "checkout"}}
        keys[mode] = recorder.send("createKey", 201, body=given, is_example=False).json()
        recorder.replacements[keys[mode]["id"]] = f"{mode.title()}Key234"
    called = {"name": "library.searchBooks"}
    search = {"q": "sea", "limit": 1}
    recorder.send("callTool", 200, path=called, body=search, key=keys["record"]["key"], is_example=False)
    recorder.send("callTool", 409, path=called, body={"q": "lake"}, key=keys["replay"]["key"])
    recorder.send("getRecording", 200, path=path)
    recorder.send("listRecordings", 200)
    recorder.send("updateRecording", 200, path=path, body={"description": "Calls of the checkout agent"})
    found = recorder.send("listInteractions", 200, path=path, query={"limit": 1}).json()["items"][0]
    recorder.send("getInteraction", 200, path={**path, "id": found["id"]})
    document = recorder.send("exportRecording", 200, path=path).json()
    recorder.send("putRecording", 201, path={"name": "ci"}, body=document)
    recorder.send("putRecording", 200, path={"name": "ci"}, body=document)
    run = recorder.send("beginRun", 200, path=path, body={}).json()["run"]
    recorder.replacements[run] = "019a7f2f4f0e7c2f8b1f0a1b2c3d4e5f"
    recorder.send("deleteInteraction", 204, path={**path, "id": found["id"]})
    recorder.send("deleteRecording", 204, path=path)
    recorder.send("callTool", 409, path=called, body=search, key=keys["replay"]["key"])
    for key in keys.values():
        recorder.send("revokeKey", 204, path={"key_id": key["id"]}, is_example=False)


def _record_search_usage(recorder: Recorder) -> None:
    """Record what was learned from use: nothing, since when it is matched with calls depends on the time."""
    recorder.send("deleteSearchUsage", 204)
    recorder.send("getSearchUsage", 200)
    recorder.send("listSearchQueries", 200)


def _model_turns() -> list[Any]:
    """Return what the model of the agent tests responds: a call, and a text once there is a result."""

    def respond(body: dict[str, Any]) -> Any:
        if body["messages"][-1]["role"] == "tool":
            return Turn("We have The Sea-Wolf by Jack London.")
        return Turn("", (("find_books", {"q": "sea"}),))

    return [respond]


def _record_agent_tests(recorder: Recorder) -> None:
    """Record an agent test with the tools of a toolset: while it runs, and its results in both forms."""
    called = {"type": "tool_called", "tool": "find_books", "arguments": {"q": "sea"}}
    case = {
        "name": "finds a book",
        "input": "Which books about the sea do you have?",
        "assertions": [{"type": "contains", "value": "Sea-Wolf"}, called],
    }
    body = {
        "name": "books",
        "models": ["gpt-4o"],
        "prompt": "You help readers of a library.",
        "plugins": ["support"],
        "cases": [case],
        "prices": {"gpt-4o": {"input": 2.5, "output": 10}},
    }
    recorder.send("runAgentTest", 200, body=body)
    started = recorder.send("runAgentTest", 202, body=body, headers={"Prefer": "respond-async"}).json()
    path = {"id": started["id"]}
    _until(
        "the test has ended",
        lambda: recorder.send("getAgentTest", 200, path=path, is_example=False).json()["state"] != "running",
    )
    recorder.send("getAgentTest", 200, path=path)
    recorder.send("cancelAgentTest", 200, path=path)
    xml = {"Accept": "application/xml"}
    recorder.send("getAgentTest", 200, path=path, headers=xml)
    recorder.send("runAgentTest", 200, body=body, headers=xml)


def _record_plugins(recorder: Recorder) -> None:
    """Record the catalogue, and a plugin that is enabled and disabled."""
    path = {"name": "github"}
    body = {"credentials": {"token": "ghp_example"}}
    recorder.send("listPlugins", 200, query={"q": "repository files"})
    recorder.send("enablePlugin", 422, path=path, body={})
    recorder.send("enablePlugin", 201, path=path, body=body)
    recorder.send("enablePlugin", 200, path=path, body={})
    recorder.send("getPlugin", 200, path=path)
    recorder.send("disablePlugin", 204, path=path)


MANIFEST = """
[tool]
name = "findBooks"
description = "Find books by words in their title or author."

[args.words]
type = "string"
required = true

[http]
url = "URL/books?q={words}&limit=1"

[output]
format = "json"

[output.schema]
type = "object"
"""


def _record_evidence(recorder: Recorder) -> None:
    with recorder.gateway.client() as client:
        url = client.get("/tools/library.searchBooks").json()["call_template"]["url"].removesuffix("/books")
    body = {"name": "catalogue", "source": {"document": MANIFEST.replace("URL", url)}}
    recorder.send("registerProvider", 201, body=body, is_example=False)
    path = {"name": "catalogue.findBooks"}
    called = recorder.send("callTool", 200, path=path, body={"words": "sea"}, headers={"Accept": ENVELOPE})
    call = {"call_id": called.headers["x-call-id"]}
    _until("the call is recorded", lambda: recorder.is_found(f"/calls/{call['call_id']}/envelope"))
    recorder.send("getCallEnvelope", 200, path=call)
    member = {"name": "reading", "tool": "catalogue.findBooks"}
    definition = {"tools": [member["tool"]]}
    recorder.send(
        "putToolset", 201, path={"name": "reading"}, body={"definition": definition}, is_example=False
    )
    envelope = {"Accept": ENVELOPE}
    recorder.send("callToolsetTool", 200, path=member, body={"words": "sea"}, headers=envelope)
    recorder.send("deleteToolset", 204, path={"name": "reading"}, is_example=False)
    recorder.send("deleteProvider", 204, path={"name": "catalogue"}, is_example=False)


def _record_calls(recorder: Recorder, credentials: dict[str, Any], key: str) -> None:
    path = {"name": "library.searchBooks"}
    body = {"q": "sea", "limit": 1}
    called = recorder.send("callTool", 200, path=path, body=body, key=key)
    for media_type in ("text/event-stream", "application/x-ndjson"):
        recorder.send("callTool", 200, path=path, body=body, headers={"Accept": media_type})
    call = {"call_id": called.headers["x-call-id"]}
    _until("the call is recorded", lambda: recorder.is_found(f"/calls/{call['call_id']}/bodies"))
    recorder.send("getCall", 200, path=call)
    recorder.send("getCallBodies", 200, path=call)
    _record_evidence(recorder)
    recorder.send("listCalls", 200, query=call)
    recorder.send("listEvents", 200, query={"object_type": "key", "limit": 1})
    recorder.send("callTool", 422, path=path, body={"limit": 0})
    recorder.send("callTool", 404, path={"name": "library.getBook"}, body={"book_id": "bk-999"})
    named = {"Idempotency-Key": '"loan-1"'}
    members = {"name": "library.listMembers"}
    recorder.send("callTool", 200, path=path, body=body, headers=named)
    recorder.send("callTool", 422, path=path, body={"q": "storm"}, headers=named)
    slot = {"name": "library", "slot": "memberKey"}
    recorder.send("putCredential", 200, path=slot, body={"kind": "api_key", "value": "another-key"})
    recorder.send("callTool", 502, path=members, body={})
    recorder.send("deleteCredential", 204, path=slot)
    recorder.send("callTool", 424, path=members, body={})
    recorder.send("putCredential", 201, path=slot, body=credentials["memberKey"], is_example=False)
    once = {"name": "one call", "scopes": ["tools:call"], "rate_limit": {"requests": 1, "per_seconds": 3600}}
    limited = recorder.send("createKey", 201, body=once, is_example=False).json()
    recorder.send("callTool", 200, path=path, body=body, key=limited["key"], is_example=False)
    recorder.send("callTool", 429, path=path, body=body, key=limited["key"])


def _record_continuation(recorder: Recorder, key: str) -> None:
    """Record a result that is cut, and its rest."""
    response = recorder.send(
        "callTool",
        200,
        path={"name": "library.searchBooks"},
        body={},
        headers={"Prefer": "max-bytes=500"},
        key=key,
        is_example=False,
    )
    handle = response.headers["X-Continuation"]
    recorder.replacements[handle] = "c_AbCdEfGhJkMnPqRsTuVwXy"
    recorder.send("readContinuation", 200, path={"handle": handle}, query={"max_bytes": 500}, key=key)


def _record_approvals(recorder: Recorder, key: str) -> None:
    """Record calls that wait for approval, and the decisions about them."""
    path, body = {"name": "library.getStock"}, {"book_id": "bk-001"}

    def requested(*, is_example: bool = False) -> dict[str, str]:
        response = recorder.send("callTool", 202, path=path, body=body, key=key, is_example=is_example)
        return {"id": response.json()["approval"]["id"]}

    recorder.send("updateTool", 200, path=path, body={"requires_approval": True}, is_example=False)
    in_toolset = {"name": "support", "tool": "library_getStock"}
    waiting = recorder.send("callToolsetTool", 202, path=in_toolset, body=body, key=key).json()["approval"]
    recorder.send("rejectApproval", 200, path={"id": waiting["id"]}, is_example=False)
    approval = requested(is_example=True)
    recorder.send("getApproval", 200, path=approval)
    recorder.send("getApprovalRequest", 200, path=approval)
    recorder.send("listApprovals", 200, query={"state": "pending", "kind": "call"})
    recorder.send("approveApproval", 200, path=approval, body={"comment": "Ordered by phone."})
    recorder.send("getApprovalResult", 200, path=approval, key=key)
    recorder.send("rejectApproval", 200, path=requested(), body={"comment": "Not today."})
    outdated = requested()
    recorder.send("updateTool", 200, path=path, body={"enabled": False}, is_example=False)
    recorder.send("approveApproval", 409, path=outdated)
    (kept,) = recorder.send("listApprovalRequirements", 200).json()["items"]
    recorder.send("getApprovalRequirement", 200, path={"id": kept["id"]})
    recorder.send("deleteApprovalRequirement", 409, path={"id": kept["id"]})
    plain = {"enabled": None, "requires_approval": None}
    recorder.send("updateTool", 200, path=path, body=plain, is_example=False)
    template = {"call_template_type": "http", "http_method": "POST", "url": "https://bank.example/transfers"}
    tool = {"provider": "bank", "name": "transfer", "call_template": template}
    recorder.send("createTool", 201, body=tool, is_example=False)
    recorder.send(
        "updateTool", 200, path={"name": "bank.transfer"}, body={"requires_approval": True}, is_example=False
    )
    recorder.send("deleteProvider", 204, path={"name": "bank"}, is_example=False)
    (kept,) = recorder.send("listApprovalRequirements", 200, is_example=False).json()["items"]
    recorder.send("deleteApprovalRequirement", 204, path={"id": kept["id"]})


def _record_executors(recorder: Recorder) -> None:
    """Record a command of an executor that connects meanwhile."""
    with _orders_executor(recorder.gateway):
        (connected,) = recorder.send("listExecutors", 200, query={"sort": "executor"}).json()["items"]
        recorder.replacements[connected["id"]] = "019a00000000700080000000000000e1"
        arguments = {"order_id": 123}
        command = {"commandId": "c-1", "commandName": "get_order_status", "arguments": arguments}
        answer = recorder.send("runCommand", 200, body=command).json()
    if answer["status"] != "SUCCESS":
        message = f"runCommand: {answer}"
        raise RuntimeError(message)
    recorder.send("deleteProvider", 204, path={"name": "orders"}, is_example=False)


@contextmanager
def _orders_executor(gateway: RunningGateway) -> Iterator[None]:
    """Connect an executor, of which order 123 is shipped."""
    order_id = {"name": "order_id", "type": "integer", "description": "Its number.", "required": True}
    tool = {
        "name": "get_order_status",
        "description": "Return the status of an order.",
        "parameters": [order_id],
    }
    registration = {
        "commandName": "agent.register_tools",
        "arguments": {"tools": [tool]},
        "metadata": {"role": "executor", "executor": "orders"},
    }
    url = f"{gateway.url.replace('http', 'ws', 1)}/ubp"
    with connect(url, additional_headers={"Authorization": f"Bearer {gateway.key}"}) as socket:
        socket.send(json.dumps({"messageId": "m1", "commandRequest": registration}))
        answer = json.loads(socket.recv(timeout=30))
        if answer["commandResponse"]["status"] != "SUCCESS":
            message = f"The executor could not register: {answer}"
            raise RuntimeError(message)
        thread = threading.Thread(target=_execute, args=(socket,))
        thread.start()
        try:
            yield
        finally:
            socket.close()
            thread.join()


def _execute(socket: ClientConnection) -> None:
    """Execute commands until the connection ends."""
    shipped = {"@type": "type.googleapis.com/google.protobuf.Value", "value": "Shipped"}
    for text in socket:
        message = json.loads(text)
        request = message.get("commandRequest")
        if request is not None:
            response = {"commandId": request["commandId"], "status": "SUCCESS", "result": shipped}
            socket.send(json.dumps({"messageId": f"r-{message['messageId']}", "commandResponse": response}))


def _record_problems(recorder: Recorder, key: str) -> None:
    recorder.send("listTools", 401, key="")
    recorder.send("listKeys", 403, key=key)
    recorder.send("getTool", 404, path={"name": "library.lendBook"})
    weather = {"name": "weather", "source": {"url": f"{WEATHER}/openapi.json"}}
    recorder.send("registerProvider", 409, body=weather)
    stale = {"If-Match": '"999"'}
    recorder.send("updateProvider", 412, path={"name": "weather"}, body={"enabled": False}, headers=stale)
    recorder.send("createKey", 400, body='{"name": ')
    recorder.send("createKey", 413, body=json.dumps({"name": "x" * 1_100_000, "scopes": []}))
    recorder.send("createKey", 415, body="name=x", headers={"Content-Type": "text/plain"})
    recorder.send("createKey", 422, body={"name": "agent", "scopes": ["tools:write-everything"]})
    document = {"name": "broken", "source": {"document": {"swagger": "1.2", "apis": []}}}
    recorder.send("registerProvider", 422, body=document)
    metadata = {"name": "cloud", "source": {"url": "http://169.254.169.254/openapi.json"}}
    recorder.send("registerProvider", 403, body=metadata)
    closed = {"name": "closed", "source": {"url": "http://127.0.0.1:9/openapi.json"}}
    recorder.send("registerProvider", 502, body=closed)


def _record_removals(recorder: Recorder) -> None:
    recorder.send("deleteTool", 204, path={"name": "library.findById"})
    recorder.send("deleteVariable", 204, path={"variable": "REGION"})
    recorder.send("deleteProviderVariable", 204, path={"name": "weather", "variable": "UNITS"})
    recorder.send("deleteProvider", 204, path={"name": "weather"})
    keys = recorder.send("listKeys", 200, is_example=False).json()["items"]
    agent = next(key["id"] for key in keys if key["name"] == "support agent")
    recorder.send("revokeKey", 204, path={"key_id": agent})


def rendered(recording: Recording) -> str:
    """Return the text of the file that holds a recording."""
    return json.dumps(recording, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the examples anew."""
    with pair() as servers, tempfile.TemporaryDirectory() as folder:
        TARGET.write_text(rendered(record(servers, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    main()
