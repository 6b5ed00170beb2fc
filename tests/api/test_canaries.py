"""Secrets are planted in every field that can hold one, then searched for in everything that comes out."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import asyncpg
import pytest
import redis

from app.formats.dialects.dialects import Format
from app.storage.database import asyncpg_dsn
from tests.harness.canaries import LeakSearch, canary, spellings
from tests.harness.gateway import RunningGateway, serve
from tests.harness.model_peers import ModelServer, Turn
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream


class Collected:
    """Everything that a client could see."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, bytes]] = []

    def response(self, response: Any) -> Any:
        """Records headers and body of a response."""
        where = f"{response.request.method} {response.request.url}"
        self.parts.append((where, response.content))
        self.parts.append((f"{where} headers", repr(sorted(response.headers.items())).encode()))
        return response

    def leaks(self, planted: dict[str, str]) -> list[str]:
        """Where a planted secret is found, in which spelling."""
        search = LeakSearch(planted)
        return [leak for where, text in self.parts for leak in search.leaks_in(where, text)]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    """A model that calls a tool with its own key, and then says its key."""

    def echo(body: dict[str, Any]) -> Any:
        key = running.heads[-1][1]["Authorization"]
        if body["messages"][-1]["role"] == "tool":
            return Turn(f"My key is {key}.")
        name = body["tools"][0]["function"]["name"]
        return Turn(f"I send {key}.", ((name, {"q": key}), (key, {})))

    with ModelServer([echo]) as running:
        yield running


MODEL_KEYS = {"model-key": canary("model-key"), "model-key-of-request": canary("model-key-of-request")}


@pytest.fixture(scope="module")
def own(servers: Pair, tmp_path_factory: pytest.TempPathFactory, model: Any) -> Iterator[RunningGateway]:
    """A gateway of its own, so that its log and its databases hold this test only."""
    settings = {"OPENAI_API_KEY": MODEL_KEYS["model-key"], "OPENAI_BASE_URL": model.url}
    with serve(servers, tmp_path_factory.mktemp("canary"), LOG_LEVEL="debug", **settings) as running:
        yield running


@pytest.fixture(scope="module")
def reflecting() -> Iterator[Upstream]:
    """An upstream that sends back whatever it got, as some really do."""
    with upstream() as running:
        yield running


def signing_auths(planted: dict[str, str], site: Upstream) -> dict[str, dict[str, str]]:
    """Auth objects whose secrets sign requests, or are exchanged for tokens."""
    return {
        "aws": {
            "auth_type": "aws_sigv4",
            "access_key_id": "AKID",
            "secret_access_key": planted["aws-key"],
            "session_token": planted["aws-session"],
            "region": "eu-central-1",
            "service": "execute-api",
        },
        "hmac": {"auth_type": "hmac", "secret": planted["hmac-key"]},
        "digest": {"auth_type": "digest", "username": "mufasa", "password": planted["digest-password"]},
        "refresh": {
            "auth_type": "oauth2",
            "grant_type": "refresh_token",
            "client_id": "client",
            "refresh_token": planted["refresh-token"],
            "token_url": f"{site.url}/token",
        },
    }


def plant(client: Any, seen: Collected, site: Upstream) -> dict[str, str]:
    """Registers providers whose every secret field holds a canary."""
    planted = {
        name: canary(name)
        for name in (
            "api-key", "basic-password", "basic-user", "bearer", "client-secret", "static-header",
            "url-query", "inline-auth", "variable", "put-key", "url-password", "aws-key", "aws-session",
            "hmac-key", "digest-password", "refresh-token",
        )
    }  # fmt: skip
    document = site.openapi()
    send = lambda method, path, **kw: seen.response(client.request(method, path, **kw))  # noqa: E731
    made = send("PUT", "/variables/CANARY", json={"value": planted["variable"], "secret": True})
    assert made.status_code in (200, 201, 204), made.text
    made = send(
        "POST",
        "/providers",
        json={
            "name": "spec",
            "source": {"document": document},
            "credentials": {
                "key": {"kind": "api_key", "value": planted["api-key"]},
                "login": {
                    "kind": "basic",
                    "username": planted["basic-user"],
                    "password": planted["basic-password"],
                },
                "token": {"kind": "bearer", "token": planted["bearer"]},
                "oauth": {
                    "kind": "oauth2",
                    "client_id": "client",
                    "client_secret": planted["client-secret"],
                    "token_url": f"{site.url}/token",
                },
            },
        },
    )
    assert made.status_code == 201, made.text
    for name, auth, headers, query in (
        ("inline", {"auth_type": "api_key", "api_key": planted["inline-auth"], "var_name": "X-Key"}, {}, ""),
        ("static", None, {"X-Static": planted["static-header"]}, ""),
        ("query", None, {}, f"?token={quote(planted['url-query'], safe='')}"),
        (
            "variables",
            {"auth_type": "api_key", "api_key": "Bearer ${CANARY}", "var_name": "Authorization"},
            {},
            "",
        ),
        *((name, auth, {}, "") for name, auth in signing_auths(planted, site).items()),
    ):
        template: dict[str, Any] = {
            "call_template_type": "http",
            "http_method": "POST",
            "url": f"{site.url}/echo{query}",
            "headers": headers,
        }
        if auth:
            template["auth"] = auth
        made = send(
            "POST",
            "/tools",
            json={
                "provider": f"custom-{name}",
                "name": "echo",
                "description": "Echoes",
                "inputs": {"type": "object", "properties": {"body": {}}},
                "call_template": template,
            },
        )
        assert made.status_code == 201, made.text
    made = send(
        "PUT",
        "/providers/custom-static/credentials/default",
        json={"kind": "api_key", "location": "header", "name": "X-Put", "value": planted["put-key"]},
    )
    assert made.status_code in (200, 201, 204), made.text
    # Rejected, and the response must not repeat what was wrong.
    send(
        "POST",
        "/providers",
        json={"name": "bad name!", "credentials": {"a": {"kind": "bearer", "token": planted["bearer"]}}},
    )
    send("PUT", "/providers/spec/credentials/key", json={"kind": "api_key", "valeu": planted["put-key"]})
    send("PUT", "/variables/CANARY", json={"value": [planted["variable"]]})
    userinfo = f"//me:{quote(planted['url-password'], safe='')}@"
    rejected = {"call_template_type": "http", "url": site.url.replace("//", userinfo) + "/missing"}
    send("POST", "/providers?name=userinfo", json=rejected)
    return planted


def visit_everything(client: Any, seen: Collected) -> list[str]:
    """Reads every list and calls every tool, plainly, dry, and wrongly."""
    for path in ("/providers", "/variables", "/keys", "/calls", "/calls.csv", "/stats", "/stats?group=key", "/events", "/utcp", "/utcp?version=0",
                 "/tools/search?q=echo", "/metrics", "/export", "/openapi.json", "/providers/spec",
                 "/providers/spec/credentials", "/providers/custom-static/credentials",
                 "/providers/custom-variables/variables"):  # fmt: skip
        seen.response(client.get(path))
    names = [tool["name"] for tool in seen.response(client.get("/tools?limit=200")).json()["items"]]
    outcomes = []
    for name in names:
        seen.response(client.get(f"/tools/{name}"))
        for query in ("", "?dry_run=true"):
            response = seen.response(client.post(f"/tools/{name}/call{query}", json={}))
            outcomes.append(f"{name}{query} {response.status_code}")
        seen.response(client.post(f"/tools/{name}/call", json={"nonsense": 1, "body": [1]}))
    seen.response(client.post("/providers/spec/refresh"))
    return outcomes


def visit_agent_interfaces(client: Any, seen: Collected) -> list[str]:
    """Reads and calls every tool over MCP, as tool calls of models, and in a toolset, whole and cut."""
    tools = seen.response(client.get("/tools?limit=200")).json()["items"]
    providers = sorted({tool["provider"] for tool in tools})
    made = client.put("/toolsets/every", json={"definition": {"providers": providers}})
    assert made.json()["tools"] == len(tools), made.text
    names = [tool["agent_name"] for tool in tools]
    outcomes = []
    for address in ("", "/toolsets/every"):
        for path in ("/utcp", "/utcp?version=0", "/search?q=echo") if address else ():
            seen.response(client.get(f"{address}{path}"))
        for file_format in get_args(Format):
            path = f"{address or '/tools'}/export?format={file_format}"
            assert seen.response(client.get(path)).status_code == 200
        seen.response(client.post(f"{address}/mcp", json=_message("tools/list", {})))
        described = {"names": names[:5], "query": "echo"}
        for meta, wanted in (("describe_tools", "names"), ("find_tools", "query")):
            params = {"name": meta, "arguments": {wanted: described[wanted]}}
            seen.response(client.post(f"{address}/mcp", json=_message("tools/call", params)))
        for name in names:
            for arguments in ({}, {"nonsense": 1, "body": [1]}):
                inner = {"name": name, "arguments": arguments, "fields": ["/detail"]}
                for params in (
                    {"name": name, "arguments": arguments},
                    {"name": "call_tool", "arguments": inner},
                ):
                    called = seen.response(client.post(f"{address}/mcp", json=_message("tools/call", params)))
                    outcomes.append(f"{address} {name} {called.json()['result']['isError']}")
            seen.response(client.post(f"/tools/{name}/call", json={}, headers={"Prefer": "max-bytes=1"}))
        calls = [
            {"id": f"{name}-{at}", "type": "function", "function": {"name": name, "arguments": text}}
            for name in names
            for at, text in enumerate(("{}", '{"nonsense": 1}', "{broken"))
        ]
        for query in ("?max_bytes=256", "?stream=true"):
            answered = seen.response(client.post(f"{address}/tool-calls{query}", json={"tool_calls": calls}))
            assert answered.status_code == 200, answered.text
    return outcomes


def visit_agent_tests(client: Any, seen: Collected, model: Any) -> None:
    """Run agent tests with the key of the gateway, with a key of the request, and with one that is rejected."""
    key = MODEL_KEYS["model-key-of-request"]
    own_key = {"model": "gpt-4o", "name": "own", "api_key": key}
    assertions = [{"type": "contains", "value": "nothing"}, {"type": "tool_called", "tool": "x"}]
    body = {"input": "Hi", "toolsets": ["every"], "models": ["gpt-4o", own_key], "assertions": assertions}
    ran = seen.response(client.post("/agent-tests", json=body)).json()
    assert [one["response"] for one in ran["results"]] == ["My key is Bearer ***."] * 2, ran
    for suffix in ("", "?format=junit"):
        seen.response(client.get(f"/agent-tests/{ran['id']}{suffix}"))
    wrong = {**own_key, "api_key": [key]}
    seen.response(client.post("/agent-tests", json={**body, "models": [wrong]}))
    blocked = {**own_key, "base_url": f"http://10.0.0.1/{'x' * 10}"}
    seen.response(client.post("/agent-tests", json={**body, "models": [blocked]}))
    sent = {headers["Authorization"].removeprefix("Bearer ") for _, headers in model.heads}
    assert sent == set(MODEL_KEYS.values())


def _message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def dump_postgres(dsn: str) -> bytes:
    """Every row of every table."""
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    rows = [
        str(tuple(row.values())).encode() + b"".join(v for v in row.values() if isinstance(v, bytes))
        for table in tables
        for row in await connection.fetch(f'SELECT * FROM "{table["tablename"]}"')
    ]
    await connection.close()
    return b"\n".join(rows)


def dump_redis(url: str) -> bytes:
    """Every key and value."""
    client = redis.Redis.from_url(url)
    parts = [name + b"=" + (client.dump(name) or b"") for name in client.scan_iter()]
    client.close()
    return b"\n".join(parts)


def test_planted_secrets_are_in_no_output(own: RunningGateway, reflecting: Upstream, model: Any) -> None:
    seen = Collected()
    with own.client() as client:
        planted = plant(client, seen, reflecting)
        outcomes = visit_everything(client, seen)
        called = visit_agent_interfaces(client, seen)
        visit_agent_tests(client, seen, model)
    planted["admin-key"] = own.key
    planted |= MODEL_KEYS
    # The upstream did get them: the tools really ran with the secrets that are searched for.
    wire = reflecting.wire()
    sent = {
        name for name, value in planted.items() if any(needle in wire for needle in spellings(value).values())
    }
    assert {"api-key", "basic-password", "bearer", "client-secret", "static-header", "url-query",
            "inline-auth", "variable", "aws-session", "refresh-token"} <= sent, outcomes  # fmt: skip
    assert {one.rpartition(" ")[2] for one in called} == {"True", "False"}, called
    seen.parts.append(("the log", own.log.read_bytes()))
    seen.parts.append(("PostgreSQL", asyncio.run(dump_postgres(own.database_url))))
    seen.parts.append(("Redis", dump_redis(own.redis_url)))
    assert seen.leaks(planted) == []


def test_the_search_itself_finds_a_leak() -> None:
    """The check can fail: a leak in any spelling is reported."""
    value = canary("self")
    for needle in spellings(value).values():
        seen = Collected()
        seen.parts.append(("somewhere", b"before " + needle + b" after"))
        assert seen.leaks({"self": value})


def test_nothing_is_written_beside_the_log(own: RunningGateway) -> None:
    assert {path.suffix for path in Path(own.log).parent.iterdir()} <= {".log"}
