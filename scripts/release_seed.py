"""The data that the gateway of a release is given before its rows are stored (scripts/release_data.py).

Providers of several protocols, credentials, variables, keys, overrides, calls, and a change that waits for
approval: all through the API, as clients would.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from tests.harness.release_upstream import URL, ReleaseUpstream, shop_document

Json = dict[str, Any]

_SETTLE_SECONDS: Final = 60.0

MANUAL: Final[Json] = {
    "utcp_version": "1.0.1",
    "manual_version": "1.0.0",
    "tools": [
        {
            "name": name,
            "description": description,
            "inputs": {"type": "object", "properties": properties, "required": list(properties)},
            "tags": ["imported"],
            "tool_call_template": template,
        }
        for name, description, properties, template in (
            (
                "weather", "Get the weather of a city.", {"city": {"type": "string"}},
                {
                    "call_template_type": "http", "http_method": "GET", "url": f"{URL}/weather/{{city}}",
                    "headers": {"X-Region": "${REGION}"},
                },
            ),
            ("ticks", "Get ticks.", {}, {"call_template_type": "sse", "url": f"{URL}/ticks"}),
            (
                "lines", "Get lines.", {},
                {"call_template_type": "streamable_http", "http_method": "GET", "url": f"{URL}/lines"},
            ),
            (
                "feed", "Get a quote.", {"symbol": {"type": "string"}},
                {
                    "call_template_type": "websocket", "url": f"{URL.replace('http', 'ws')}/feed",
                    "message": {"symbol": "UTCP_ARG_symbol_UTCP_ARG"}, "response_format": "json",
                },
            ),
            ("rules", "Read the rules.", {}, {"call_template_type": "text", "content": "Be kind."}),
            (
                "closed", "Get an error.", {},
                {"call_template_type": "http", "http_method": "GET", "url": f"{URL}/fail"},
            ),
        )
    ],
}  # fmt: skip

CALLS: Final[list[tuple[str, Json, int]]] = [
    ("shop.listItems", {}, 200),
    ("shop.getProfile", {}, 200),
    ("shop.getInvoice", {}, 200),
    ("mixed.weather", {"city": "Oslo"}, 200),
    ("mixed.ticks", {}, 200),
    ("mixed.lines", {}, 200),
    ("mixed.feed", {"symbol": "A"}, 200),
    ("mixed.rules", {}, 200),
    ("graph.shelf", {"name": "B"}, 200),
    ("custom.findWeather", {"city": "Rome"}, 200),
    ("mixed.weather", {}, 422),
    ("mixed.closed", {}, 502),
]
"""Calls that are made and recorded: the tool, its arguments, and the status of the response."""
ORDER: Final = ("shop.orderItem", {"quantity": 2}, '"order-1"')


class Seed:
    """Gives data to a gateway through its API."""

    def __init__(self, client: Any, upstream: ReleaseUpstream) -> None:
        self._client = client
        self._upstream = upstream

    def store(self) -> Json:
        """Store the data of every kind, and return what a test must know of it."""
        self._variables()
        self._providers()
        imported = self._import()
        self._overrides()
        toolset = self._toolset()
        words = self._search_words()
        keys = self._keys()
        calls = self._calls()
        approval = self._call_that_waits(keys["agent_key"])
        self._pending_changes()
        return {**imported, **toolset, **words, **keys, **calls, **approval}

    def _variables(self) -> None:
        self._send("PUT", "/variables/REGION", 201, {"value": "eu", "secret": False})
        self._send("PUT", "/variables/TOKEN", 201, {"value": "a-token-of-the-seed"})

    def _providers(self) -> None:
        self._upstream.document = shop_document(operations=("items", "login", "oauth", "order", "old"))
        client = {"client_id": "seed", "client_secret": "oauth-of-the-seed"}
        credentials = {
            "key": {"kind": "api_key", "value": "key-of-the-seed"},
            "login": {"kind": "basic", "username": "seed", "password": "password-of-the-seed"},
            "oauth": {"kind": "oauth2", "token_url": f"{URL}/token", **client},
        }
        shop = {
            "name": "shop",
            "source": {"url": f"{URL}/shop.json"},
            "credentials": credentials,
            "tags": ["public"],
        }
        self._send("POST", "/providers", 201, shop)
        self._send("POST", "/providers", 201, {"name": "mixed", "source": {"document": MANUAL}})
        graph = {"call_template_type": "graphql", "url": f"{URL}/graphql", "headers": {"X-Key": "${TOKEN}"}}
        self._send("POST", "/providers", 201, {"name": "graph", "source": {"call_template": graph}})
        first = MANUAL["tools"][0]
        custom = {"name": "custom", "source": {"document": {**MANUAL, "tools": [first]}}}
        self._send("POST", "/providers", 201, custom)
        tool = {
            "provider": "custom",
            "name": "findWeather",
            "description": "Get the weather.",
            "inputs": first["inputs"],
            "call_template": first["tool_call_template"],
        }
        self._send("POST", "/tools", 201, tool)
        limits = {"total": 20, "rate": {"requests": 600, "per_seconds": 60}}
        changed = {"description": "A manual.", "limits": limits, "language": "en"}
        self._send("PATCH", "/providers/mixed", 200, changed)
        self._send("PUT", "/providers/mixed/variables/REGION", 201, {"value": "north", "secret": False})

    def _import(self) -> Json:
        job = self._send("POST", "/providers/shop/refresh", 202, headers={"Prefer": "respond-async"})
        path = job.headers["location"]
        _until("the import has ended", lambda: self._send("GET", path, 200).json()["state"] != "running")
        return {"import_id": path.rpartition("/")[2]}

    def _overrides(self) -> None:
        text = {"description": "Our items.", "tags": ["books", "public"], "keywords": ["stock"]}
        self._send("PATCH", "/tools/shop.listItems", 200, text)
        self._send("PATCH", "/tools/mixed.closed", 200, {"tags": ["errors"]})
        self._send("PATCH", "/tools/shop.listOldItems", 200, {"enabled": False})
        # Its source loses a tool, whose override is retained.
        self._upstream.document = shop_document()
        self._send("POST", "/providers/shop/refresh", 200)

    def _keys(self) -> Json:
        agent = {
            "name": "agent",
            "owner": "team-shop",
            "purpose": "Orders items.",
            "scopes": ["tools:read", "tools:call"],
            "providers": ["shop"],
            "rate_limit": {"requests": 100, "per_seconds": 60, "burst": 20},
        }
        made = self._send("POST", "/keys", 201, agent, headers={"Idempotency-Key": '"seed-1"'}).json()
        other = {"name": "former agent", "scopes": ["tools:read"], "tags": ["public"]}
        revoked = self._send("POST", "/keys", 201, other).json()
        self._send("DELETE", f"/keys/{revoked['id']}", 204)
        return {"agent_key": made["key"], "revoked_key": revoked["key"]}

    def _calls(self) -> Json:
        calls = []
        for name, arguments, status in CALLS:
            response = self._send("POST", f"/tools/{name}/call", status, arguments)
            body = None if status >= 400 else _body(response)
            calls.append({"tool": name, "arguments": arguments, "status": status, "body": body})
        name, body, key = ORDER
        ordered = self._send(
            "POST", f"/tools/{name}/call", 200, {"body": body}, headers={"Idempotency-Key": key}
        )
        order = {
            "tool": name,
            "arguments": {"body": body},
            "key": key,
            "body": ordered.json(),
            "call_id": ordered.headers["x-call-id"],
        }
        return {"stored_on": f"{datetime.now(UTC):%Y-%m-%d}", "calls": calls, "order": order}

    def _toolset(self) -> Json:
        """Store a toolset with a rename, a preset argument, and a former name, and a key limited to it."""
        former, present = "report", "get_weather"
        for name in (former, present):
            change = {"name": name, "presets": {"city": "Oslo"}}
            definition = {"tools": ["mixed.weather"], "changes": {"mixed.weather": change}}
            status = 201 if name == former else 200
            self._send("PUT", "/toolsets/travel", status, {"title": "Travel", "definition": definition})
        limited = {"name": "traveller", "scopes": ["tools:read", "tools:call"], "toolsets": ["travel"]}
        key = self._send("POST", "/keys", 201, limited).json()["key"]
        called = self._send("POST", f"/toolsets/travel/tools/{present}/call", 200, {})
        toolset = {
            "name": "travel",
            "title": "Travel",
            "tool": present,
            "canonical_name": "mixed.weather",
            "former_name": former,
            "preset": "city",
            "body": _body(called),
        }
        return {"toolset_key": key, "toolset": toolset}

    def _search_words(self) -> Json:
        """Store synonyms and pinned results, for all searches and for the toolset."""
        synonyms = {"terms": ["zebra", "list items"], "expand_to": None, "toolset": None}
        pin = {"query": "zebra crossing", "tools": ["shop.listItems"], "toolset": "travel"}
        self._send("POST", "/search/synonyms", 201, synonyms)
        self._send("POST", "/search/pins", 201, pin)
        return {"search_words": {"synonyms": synonyms, "pin": pin}}

    def _call_that_waits(self, agent_key: str) -> Json:
        """Let the agent call a tool that requires approval at that time."""
        name, body, _ = ORDER
        self._send("PATCH", f"/tools/{name}", 200, {"requires_approval": True})
        headers = {"Authorization": f"Bearer {agent_key}"}
        waiting = self._send("POST", f"/tools/{name}/call", 202, {"body": body}, headers=headers).json()
        self._send("PATCH", f"/tools/{name}", 200, {"requires_approval": None})
        return {"approval": {"id": waiting["approval"]["id"], "quantity": body["quantity"]}}

    def _pending_changes(self) -> None:
        """Let the document name another origin, which waits for the approval of another key."""
        self._upstream.document = shop_document(server=URL.replace("127.0.0.1", "localhost"))
        refresher = {"name": "refresher", "scopes": ["providers:read", "providers:write"]}
        key = self._send("POST", "/keys", 201, refresher).json()["key"]
        self._send("POST", "/providers/shop/refresh", 200, headers={"Authorization": f"Bearer {key}"})

    def _send(
        self, method: str, path: str, status: int, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Any:
        response = self._client.request(method, path, json=body, headers=headers)
        if response.status_code != status:
            message = f"{method} {path}: {response.status_code} in place of {status}: {response.text}"
            raise RuntimeError(message)
        return response


def _body(response: Any) -> Any:
    media_type = response.headers.get("content-type", "").partition(";")[0]
    return response.json() if media_type == "application/json" else response.text


def _until(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            message = f"not within {_SETTLE_SECONDS:.0f} s: {what}"
            raise RuntimeError(message)
        time.sleep(0.02)
