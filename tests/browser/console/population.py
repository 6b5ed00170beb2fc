"""A gateway as its operators have it: many tools, broken providers, pending approvals, calls of all outcomes, hostile texts."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from aiohttp import web

from benchmarks.population import population
from tests.harness.beside import beside, web_server
from tests.harness.canaries import canary
from tests.harness.gateway import RunningGateway

ROOT = Path(__file__).parents[3]
FLEETS = 4
"""Providers that the generated tools are spread over."""
TOOLS = 10_000
HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script> \u202eevil\u202c a\u200bb \U000e0041"
"""A text that tries to be markup, and hides characters."""
LONG_NAME = "a_very_long_name_of_a_tool_that_no_table_was_made_for_".ljust(64, "x")

KEYS: Mapping[str, Mapping[str, Any]] = {
    "admin": {"scopes": ["admin"]},
    "reader": {"scopes": ["tools:read"]},
    "caller": {"scopes": ["tools:read", "tools:call"], "providers": ["library"]},
    "providers": {"scopes": ["providers:read", "providers:write", "credentials:write", "tools:read"]},
    "auditor": {"scopes": ["calls:read", "calls:bodies", "metrics:read"]},
    "keys": {"scopes": ["keys:manage", "tools:read", "calls:read"]},
    "toolset": {"scopes": ["tools:read", "tools:call"], "toolsets": ["reading"]},
}
"""The bodies of the keys that tests sign in with, by name."""


@dataclass(slots=True)
class Upstreams:
    """What the providers of a populated gateway are: the sample API, and a server whose document may change."""

    url: str
    library: Mapping[str, Any]
    document: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Populated:
    """A gateway with data. `keys` are the texts of KEYS; `secrets` are those that were stored, by what they are;
    `addresses` are pages to which only a form leads, by the name of the key that has submitted it.
    """

    gateway: RunningGateway
    upstreams: Upstreams
    keys: Mapping[str, str] = field(repr=False)
    secrets: Mapping[str, str] = field(repr=False)
    addresses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def client(self, key: str = "admin", **options: Any) -> httpx2.Client:
        """Return a client of the API with a key of KEYS."""
        return self.gateway.client(self.keys[key], **options)


@contextmanager
def upstreams(folder: Path) -> Iterator[Upstreams]:
    """Run the sample API in a process of its own, and another upstream in a thread."""
    with ExitStack() as stack:
        command = ["-m", "examples.library_api", "--port", "0", "--credentials", str(folder / "sample.json")]
        process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, *command, "--end-with-stdin"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
            )
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        stack.callback(process.stdin.close)
        running = Upstreams("", json.loads(process.stdout.readline()))
        running.url = stack.enter_context(beside(web_server(_application(running))))
        yield running


def _application(running: Upstreams) -> web.Application:
    async def document(_: web.Request) -> web.Response:
        return web.json_response(running.document)

    async def fail(request: web.Request) -> web.Response:
        status = int(request.match_info["status"])
        return web.json_response({"detail": HOSTILE}, status=status)

    async def respond(_: web.Request) -> web.Response:
        return web.json_response(
            {"ok": True, "text": HOSTILE, "items": [{"id": n, "name": "x" * 40} for n in range(30)]}
        )

    application = web.Application()
    application.router.add_get("/openapi.json", document)
    application.router.add_route("*", "/status/{status}", fail)
    application.router.add_route("*", "/{rest:.*}", respond)
    return application


def populate(gateway: RunningGateway, running: Upstreams, *, tools: int = TOOLS) -> Populated:
    """Fill a gateway with everything; every call is made for real."""
    secrets = {
        name: canary(name) for name in ("api-key", "user", "password", "client-secret", "variable", "static")
    }
    with gateway.client() as admin:
        client = _Checked(admin)
        client.post("/providers", json=running.library)
        _fill_moving(client, running, secrets)
        _fill_broken(client, running)
        _fill_texts(client, running, secrets)
        for number in range(FLEETS if tools else 0):
            document = json.loads(population(tools // FLEETS, server=running.url, seed=number))
            client.post("/providers", json={"name": f"fleet{number}", "source": {"document": document}})
        client.put("/variables/CANARY", json={"value": secrets["variable"], "secret": True})
        definition = {"tools": ["library.searchBooks", "library.getBook"]}
        client.post("/toolsets", json={"name": "reading", "title": "Reading", "definition": definition})
        keys = {
            name: client.post("/keys", json={"name": f"{name} key", "owner": "tests", **body}).json()["key"]
            for name, body in KEYS.items()
        }
        revoked = client.post("/keys", json={"name": "revoked key", "scopes": ["tools:read"]}).json()
        client.delete(f"/keys/{revoked['id']}")
        limited = {"requests": 1, "per_seconds": 3600}
        once = client.post(
            "/keys", json={"name": "once an hour", "scopes": ["tools:call"], "rate_limit": limited}
        ).json()["key"]
        agent = client.post("/keys", json={"name": "agent", "scopes": ["tools:read", "tools:call"]}).json()[
            "key"
        ]
    populated = Populated(
        gateway, running, keys, secrets, {name: tuple(_begin(gateway, running, keys[name])) for name in keys}
    )
    _make_calls(populated, agent, once)
    return populated


class _Checked:
    """A client whose unsuccessful responses fail the test."""

    def __init__(self, client: httpx2.Client) -> None:
        self._client = client

    def __getattr__(self, method: str) -> Any:
        def send(path: str, **options: Any) -> httpx2.Response:
            response = self._client.request(method.upper(), path, **options)
            assert response.is_success, f"{method} {path}: {response.status_code} {response.text[:500]}"
            return response

        return send


def _operation(name: str, **members: Any) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": f"The {name} of things.",
        "responses": {"200": {"description": "ok"}},
        **members,
    }


def _fill_moving(client: _Checked, running: Upstreams, secrets: Mapping[str, str]) -> None:
    """A provider whose document has moved to another origin: its changes wait for approval."""
    running.document.update(
        {
            "openapi": "3.1.0",
            "info": {"title": "Moving", "version": "1"},
            "servers": [{"url": running.url}],
            "security": [{"key": []}],
            "components": {
                "securitySchemes": {
                    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                    "login": {"type": "http", "scheme": "basic"},
                    "oauth": {
                        "type": "oauth2",
                        "flows": {"clientCredentials": {"tokenUrl": f"{running.url}/token", "scopes": {}}},
                    },
                }
            },
            "paths": {
                "/a": {"get": _operation("listA"), "delete": _operation("deleteA")},
                "/b": {"get": _operation("listB", deprecated=True, security=[{"login": []}])},
                "/c": {"get": _operation("listC", security=[{"oauth": []}])},
            },
        }
    )
    client.post(
        "/providers",
        json={
            "name": "moving",
            "source": {"url": f"{running.url}/openapi.json"},
            "credentials": {
                "key": {"kind": "api_key", "value": secrets["api-key"]},
                "login": {"kind": "basic", "username": secrets["user"], "password": secrets["password"]},
                "oauth": {
                    "kind": "oauth2", "client_id": "client", "client_secret": secrets["client-secret"],
                    "token_url": f"{running.url}/token",
                },
            },
        },
    )  # fmt: skip
    running.document["servers"] = [{"url": running.url.replace("127.0.0.1", "127.0.0.2")}]
    running.document["paths"]["/d"] = {"post": _operation("createD")}
    client.post("/providers/moving/refresh")


def _fill_broken(client: _Checked, running: Upstreams) -> None:
    """A provider at a port where nobody listens, and one that only fails."""
    for name, url in (("gone", "http://127.0.0.1:9"), ("failing", running.url)):
        paths = {
            f"/status/{status}": {"get": _operation(f"fail{status}", security=[])}
            for status in (400, 401, 404, 409, 429, 500, 503)
        }
        document = {
            "openapi": "3.1.0", "info": {"title": name, "version": "1"}, "servers": [{"url": url}], "paths": paths
        }  # fmt: skip
        client.post("/providers", json={"name": name, "source": {"document": document}})


def _fill_texts(client: _Checked, running: Upstreams, secrets: Mapping[str, str]) -> None:
    """Custom tools: hostile and long texts, inputs of every type, one that waits for approval, one that is disabled."""
    every = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": HOSTILE, "examples": ["sea"]},
            "secret": {"type": "string", "writeOnly": True},
            "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
            "share": {"type": "number"},
            "flag": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["novel", "play", "poem"]},
            "day": {"type": ["string", "null"], "format": "date"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "either": {
                "oneOf": [{"title": "By id", "type": "integer"}, {"title": "By name", "type": "string"}]
            },
        },
        "required": ["text", "kind"],
    }
    template = {
        "call_template_type": "http", "http_method": "POST", "url": f"{running.url}/things",
        "headers": {"X-Static": secrets["static"]},
    }  # fmt: skip
    for name, description in (
        ("everyInput", HOSTILE),
        (LONG_NAME, "word " * 1500),
        ("needsApproval", "Waits until somebody has approved the call."),
        ("disabled", "A tool that is disabled."),
    ):
        tool = {
            "provider": "custom",
            "name": name,
            "description": description,
            "inputs": every,
            "call_template": template,
        }
        client.post("/tools", json=tool)
    client.patch("/tools/custom.needsApproval", json={"requires_approval": True})
    client.patch("/tools/custom.disabled", json={"enabled": False})


def _begin(gateway: RunningGateway, running: Upstreams, key: str) -> Iterator[str]:
    """Begin with a key what takes longer than a page waits, and yield the addresses of the pages that show it."""
    yield "/console/add/done?provider=moving"
    background = {"Prefer": "respond-async"}
    with gateway.client(key) as client:
        body = {"name": "moving", "source": {"url": f"{running.url}/openapi.json"}}
        begun = client.post("/providers/preview", json=body, headers=background)
        if begun.is_success:
            yield f"/console{begun.headers['location']}"
        begun = client.post("/providers/library/refresh/preview", headers=background)
        if begun.is_success:
            yield f"/console/providers/library/refresh?import={begun.json()['id']}"


def _make_calls(populated: Populated, agent: str, once: str) -> None:
    """Make calls of every outcome that an upstream and a client can cause."""
    calls: list[tuple[str, dict[str, Any]]] = [
        *(("library.searchBooks", {"q": word}) for word in ("sea", "moon", "time", "sea", "rue", "wonder")),
        ("library.getOpeningHours", {"day": "monday"}),
        ("library.getBook", {"book_id": "no-such-book"}),
        ("library.getBook", {}),
        ("library.listMembers", {}),
        *((f"failing.fail{status}", {}) for status in (400, 401, 404, 409, 429, 500, 503)),
        *(("gone.fail404", {}) for _ in range(3)),
        ("custom.everyInput", {"text": HOSTILE, "kind": "poem", "secret": populated.secrets["static"]}),
        ("custom.everyInput", {"text": 1, "kind": "song"}),
        ("custom.disabled", {"text": "x", "kind": "poem"}),
        ("moving.listA", {}),
        ("fleet0.get1", {"id": 1}),
        ("fleet1.get7", {"id": 7, "q": "sea"}),
    ]  # fmt: skip
    with populated.client() as client:
        for name, arguments in calls:
            client.post(f"/tools/{name}/call", json=arguments)
    with populated.client("caller") as client:
        for _ in range(3):
            client.post("/tools/library.searchBooks/call", json={"q": "sea"})
    with populated.gateway.client(agent) as client:
        # They wait for the decision of another key.
        for text, kind in (("please", "poem"), (HOSTILE, "play")):
            client.post("/tools/custom.needsApproval/call", json={"text": text, "kind": kind})
    with populated.gateway.client(once) as client:
        for _ in range(2):
            client.post("/tools/library.listMembers/call", json={})
    _await_records(populated, len(calls))


def _await_records(populated: Populated, calls: int) -> None:
    """Wait until the calls are recorded: that happens in batches."""
    deadline = time.monotonic() + 30
    with populated.client() as client:
        while len(found := client.get("/calls?limit=200").json()["items"]) < calls - 3:
            assert time.monotonic() < deadline, f"{len(found)} calls are recorded"
            time.sleep(0.1)
