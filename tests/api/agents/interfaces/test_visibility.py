"""The visibility matrix: every interface for agents x each kind of key, and an access token, x each address.

A tool that a key may not use at an address is unknown there: the response is that for a name which nobody has,
but for the name. Lists, searches, exports and manuals do not contain it. No call reaches the upstream.
"""

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from app.api.authorisation import declared_scope, iter_routes
from app.core.settings import Settings
from app.main import create_app
from app.storage.models import Key
from tests.harness.cases import for_each
from tests.harness.contract import CONTRACT

from .visibility import (
    EXPORT_FORMATS,
    NAMED,
    REGISTRY_NAMED,
    REGISTRY_SHOWN,
    SHOWN,
    export,
)

SCOPES = ("tools:read", "tools:call")
KEYS = {
    "provider": {"providers": ("mine",)},
    "tag": {"tags": ("team-a",)},
    "toolset": {"toolsets": ("view",)},
    "all": {},
}
"""The limits of keys, by kind."""
TOKEN_CLAIMS = {"apis": ["mine"]}
"""The claims that limit the access token, the principal of the kind `token`."""

REGISTRY, VIEW, MIXED, FOREIGN = "", "/toolsets/view", "/toolsets/mixed", "/toolsets/foreign"
CASES = [
    ("provider", REGISTRY, "hidden.qqqqqw"),
    ("tag", REGISTRY, "hidden.vvvvvk"),
    ("token", REGISTRY, "hidden.qqqqqw"),
    ("token", MIXED, "hidden.qqqqqw"),
    ("provider", MIXED, "hidden.qqqqqw"),
    ("tag", MIXED, "hidden.vvvvvk"),
    # A member for nobody, though the key sees it in the registry.
    ("all", VIEW, "mine.zzzzzq"),
    ("toolset", VIEW, "mine.zzzzzq"),
    ("toolset", VIEW, "hidden.qqqqqw"),
    # A key that is limited to toolsets uses nothing else by any address.
    ("toolset", REGISTRY, "mine.zzzzzq"),
    ("toolset", REGISTRY, "hidden.qqqqqw"),
]
"""Which key, at which address, may not use which tool."""
UNKNOWN_TOOL = "jjjjjx"
TEMPLATE_PART = re.compile(r"\{[^}]*\}")
ECHO = re.compile(r'\\?"unknown_words\\?":\[[^\]]*\]|no tool mentions [^.]*\.')
CHANGING = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\"id\":\"[^\"]*\"|\d+(\.\d+)?ms"
)


def paths_of_app():
    """The path of each route, without the names of its parameters, and the route's scope."""
    app = create_app(Settings(_env_file=None))
    return {
        TEMPLATE_PART.sub("{}", path): declared_scope(route)
        for route in iter_routes(app.routes)
        if (path := getattr(route, "path", None)) is not None
    }


ADDRESSES = [pytest.param(REGISTRY, id="registry"), pytest.param(VIEW, id="toolset")]


def named_rows(address):
    rows = NAMED if address else NAMED | REGISTRY_NAMED
    return [name for name in rows if name != "search" or address]


def shown_rows(address):
    rows = SHOWN if address else SHOWN | REGISTRY_SHOWN
    rows = rows | {f"export-{name}": export(name, is_toolset=bool(address)) for name in EXPORT_FORMATS}
    return {name: call for name, call in rows.items() if not name.startswith("search") or address}


NAMED_CASES = [
    pytest.param(*case, row, spelling, id="-".join((case[0], case[1].rpartition("/")[2] or "registry", case[2], row, spelling)))
    for case in CASES
    for row in named_rows(case[1])
    for spelling in ("canonical", "agent")
]  # fmt: skip
SHOWN_CASES = [
    pytest.param(*case, row, id="-".join((case[0], case[1].rpartition("/")[2] or "registry", case[2], row)))
    for case in CASES
    for row in shown_rows(case[1])
]


@pytest.fixture(scope="module")
async def clients(gateway_app, world, issuer):
    found = {kind: await client_of(gateway_app, world, **limits) for kind, limits in KEYS.items()}
    found["token"] = await gateway_app.client()
    audience = gateway_app.services.settings.base_url
    token = issuer.token(aud=audience, exp=4_000_000_000, **TOKEN_CLAIMS)
    found["token"].headers["authorization"] = f"Bearer {token}"
    return found


async def client_of(gateway_app, world, **limits):
    """A client with a new key of these limits."""
    body = {"name": "k", "scopes": SCOPES, **limits}
    made = await world.post("/keys", json=body)
    assert made.status_code == 201, made.text
    client = await gateway_app.client()
    client.headers["authorization"] = f"Bearer {made.json()['key']}"
    return client


def without_echo(text):
    """A response without the words of the text of a search that no tool has, which it repeats."""
    return ECHO.sub("#", text)


def comparable(response, name):
    """What a client can compare: status, headers, and body without the name and without ids."""
    spellings = (name, name.replace(".", "_"))

    def neutral(text):
        for spelling in spellings:
            text = text.replace(spelling, "NAME")
        return CHANGING.sub("#", without_echo(text))

    headers = {
        key: neutral(value)
        for key, value in response.headers.items()
        if key not in ("date", "content-length", "etag", "x-call-id")
    }
    return response.status_code, headers, neutral(response.text)


@for_each(("key", "address", "tool", "row", "spelling"), NAMED_CASES)
async def test_a_tool_that_a_key_may_not_use_is_unknown(key, address, tool, row, spelling, clients, upstream):
    absent = f"{tool.partition('.')[0]}.{UNKNOWN_TOOL}"
    build = (NAMED | REGISTRY_NAMED)[row]
    before = list(upstream.paths)
    seen = []
    for name in (tool, absent):
        spelled = name if spelling == "canonical" else name.replace(".", "_")
        response = await build(spelled).send(clients[key], address)
        seen.append(comparable(response, spelled))
    assert seen[0] == seen[1]
    assert upstream.paths == before


@for_each(("key", "address", "tool", "row"), SHOWN_CASES)
async def test_a_tool_that_a_key_may_not_use_is_not_shown(key, address, tool, row, clients):
    response = await shown_rows(address)[row].send(clients[key], address)
    assert response.status_code == 200, response.text
    for spelling in (tool, tool.replace(".", "_"), tool.partition(".")[2]):
        assert spelling not in response.text
    if tool.startswith("hidden."):
        assert "hidden" not in without_echo(response.text)


@for_each(
    "row",
    [
        pytest.param(name, id=name)
        for name in named_rows(REGISTRY)
        if name in NAMED or name.startswith("ubp-")
    ],
)
async def test_a_tool_that_a_key_may_use_is_found_by_the_same_request(row, clients, upstream):
    """The requests of the matrix are right: with the right key, they find the tool."""
    before = len(upstream.paths)
    response = await (NAMED | REGISTRY_NAMED)[row]("mine_listPlanets").send(clients["provider"], REGISTRY)
    assert response.status_code == 200, response.text
    assert "listPlanets" in response.text
    assert "NOT_FOUND" not in response.text
    is_call = "call" in row
    assert (len(upstream.paths) > before) == is_call


@for_each("key", ["toolset", "provider", "tag"])
@for_each("row", [*named_rows(VIEW), *shown_rows(VIEW)])
async def test_a_toolset_that_a_key_may_not_use_is_unknown(key, row, clients):
    """For a key that is limited to providers or tags: a toolset of which it may use no tool."""
    call = shown_rows(VIEW)[row] if row in shown_rows(VIEW) else NAMED[row]("hidden_qqqqqw")
    seen = []
    for name in ("foreign", "nothing"):
        response = await call.send(clients[key], f"/toolsets/{name}")
        status, headers, body = comparable(response, "hidden.qqqqqw")
        seen.append((status, headers, body.replace(name, "NAME")))
    assert seen[0] == seen[1]
    assert seen[0][0] == 404


@for_each("kind", ["no key", "revoked", "expired", "rotated"])
@for_each("address", ADDRESSES)
async def test_a_key_that_is_not_valid_gets_nothing(kind, address, gateway_app, world, invalid_clients):
    rows = {name: NAMED[name]("mine_listPlanets") for name in named_rows(address) if name in NAMED}
    for row, call in (rows | shown_rows(address)).items():
        response = await call.send(invalid_clients[kind], address)
        assert response.status_code == 401, row
        assert "listPlanets" not in response.text, row
        assert response.headers["www-authenticate"].startswith("Bearer"), row


@pytest.fixture(scope="module")
async def invalid_clients(gateway_app, world):
    """Clients whose keys are no longer valid, by the reason."""
    found = {}
    for kind in ("revoked", "expired", "rotated"):
        body = {"name": kind, "scopes": list(SCOPES)}
        made = (await world.post("/keys", json=body)).json()
        client = await gateway_app.client(*SCOPES)
        client.headers["authorization"] = f"Bearer {made['key']}"
        if kind == "revoked":
            await world.delete(f"/keys/{made['id']}")
        elif kind == "rotated":
            rotated = await world.post(f"/keys/{made['id']}/rotate", json={"overlap_seconds": 0})
            assert rotated.status_code in (200, 201), rotated.text
        else:
            async with gateway_app.services.database.transaction() as session:
                past = datetime.now(UTC) - timedelta(seconds=1)
                await session.execute(update(Key).where(Key.key_id == made["id"]).values(expires_at=past))
        found[kind] = client
    client = await gateway_app.client(*SCOPES)
    del client.headers["authorization"]
    found["no key"] = client
    return found


@pytest.mark.parametrize("missing", SCOPES)
@pytest.mark.parametrize("address", ADDRESSES)
async def test_a_key_without_the_scope_gets_nothing(missing, address, gateway_app, world, upstream):
    client = await gateway_app.client(*(scope for scope in SCOPES if scope != missing))
    before = list(upstream.paths)
    reads = {*shown_rows(address), *REGISTRY_NAMED, "search", "find_tools", "describe_tools"}
    rows = {name: NAMED[name]("mine_listPlanets") for name in named_rows(address) if name in NAMED}
    chosen = {
        name: call
        for name, call in (rows | shown_rows(address)).items()
        # These show no tool, and clients that only call begin with them.
        if name not in ("mcp-discover", "mcp-initialize") and (name in reads) == (missing == "tools:read")
    }
    for row, call in chosen.items():
        response = await call.send(client, address)
        assert response.status_code == 403 or _is_error(response), (row, response.text)
        assert "listPlanets" not in response.text.replace("mine_listPlanets", "NAME"), row
    assert upstream.paths == before


def _is_error(response):
    if "insufficient_scope" in response.headers.get("www-authenticate", ""):
        return True
    return response.url.path == "/ubp/commands" and response.json()["status"] == "PERMISSION_DENIED"


OUTSIDE = {
    "/approvals", "/approvals/{}", "/approvals/{}/approve", "/approvals/{}/reject", "/approvals/{}/result",
    "/providers/{}/utcp", "/toolsets", "/toolsets/{}", "/continuations/{}",
}  # fmt: skip
OUTSIDE |= {"/ubp"}  # A WebSocket: its commands are those of /ubp/commands, see tests/api/agents/ubp.
"""Paths that need tools:read or tools:call, and name no tool: other tests cover what they show."""


def test_every_address_of_tools_is_in_the_matrix():
    """A new route that reads or calls tools has to be entered here."""
    covered = set()
    for address in (REGISTRY, VIEW):
        prefix = "/toolsets/{}" if address else ""
        rows = [build("x") for build in (NAMED if address else NAMED | REGISTRY_NAMED).values()]
        rows += shown_rows(address).values()
        covered |= {prefix + TEMPLATE_PART.sub("{}", call.path) for call in rows}
    needing = {
        TEMPLATE_PART.sub("{}", path)
        for path, item in CONTRACT["paths"].items()
        for operation in item.values()
        if {"tools:read", "tools:call"} & set(operation.get("x-required-scopes", ()))
    }
    # The addresses of MCP are served with a slash, too.
    needing |= {
        path.rstrip("/") for path, scope in paths_of_app().items() if scope in ("tools:read", "tools:call")
    }
    assert needing - covered - OUTSIDE == set()
