"""What goes on after its request ends once its key has lost the right: each long-lived interface of one worker, with each change of a key by
another one.
"""

import asyncio
import threading
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import httpx2
import pytest
import websockets
from aiohttp import web
from pydantic import SecretStr

from tests.api.agents.mcp.test_streams import listening
from tests.api.agents.ubp.test_grpc import STATUS, definitions
from tests.api.agents.ubp.test_grpc import connected as connected_by_grpc
from tests.api.session.conftest import PlainBrowser
from tests.harness.application import Application, run_application
from tests.harness.beside import web_server
from tests.harness.cases import for_each
from tests.harness.model_peers import ModelServer, Turn
from tests.harness.ubp_peers import connected
from tests.protocols.kits.base import free_port
from tests.stored import store_provider, store_tool

SECONDS = 12
"""The limit of what the rule ends within 5 seconds, less than that of an idle stream's heartbeat."""
TOOLSETS = ("mine", "other")


@dataclass
class World:
    """A gateway of two workers: keys are changed at the first, the second serves."""

    admin: httpx2.AsyncClient
    serving: Application
    grpc_port: int
    upstream: str

    def client(self, key: str) -> httpx2.AsyncClient:
        """A client of the worker that serves, with a key."""
        made = httpx2.AsyncClient(
            base_url=self.serving.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=30
        )
        self.serving.clients.append(made)
        return made


async def tick(request):
    """Send an event, and then none."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(b"data: 1\n\n")
    await asyncio.Event().wait()
    return response


async def hang(_request):
    await asyncio.Event().wait()


def sent_once():
    """A handler that sends a manual, and hangs from the second request on."""
    sent = []

    async def send(request):
        if sent:
            await asyncio.Event().wait()
        sent.append(request)
        template = {"call_template_type": "http", "url": f"{request.url.origin()}/wait"}
        tool = {"name": "wait", "description": "Wait.", "tool_call_template": template}
        return web.json_response({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]})

    return send


@pytest.fixture(scope="module")
async def world(applications):
    application = web.Application()
    application.router.add_get("/ticks", tick)
    application.router.add_get("/document", hang)
    application.router.add_get("/manual", sent_once())
    first = await applications.get()
    port = free_port()
    with ModelServer([Turn("Hello.")]) as models:
        models.held = threading.Event()
        settings = first.services.settings.model_copy(
            update={
                "ubp_grpc_port": port,
                "openai_base_url": f"{models.url}/v1",
                "openai_api_key": SecretStr("k"),
            }
        )
        async with AsyncExitStack() as stack:
            upstream = await stack.enter_async_context(
                web_server(application, handler_cancellation=True, shutdown_timeout=0.1)
            )
            serving = await stack.enter_async_context(run_application(settings))
            database = first.services.database
            await store_tool(
                database,
                await store_provider(database, "clock"),
                "ticks",
                call_template={"call_template_type": "sse", "url": f"{upstream}/ticks"},
            )
            await first.services.feed.catch_up()
            admin = await first.client("admin")
            body = {"name": "stuck", "url": f"{upstream}/manual"}
            made = await admin.post("/providers", json=body)
            assert made.status_code == 201, made.text
            for name in TOOLSETS:
                made = await admin.put(f"/toolsets/{name}", json={"definition": {"providers": ["clock"]}})
                assert made.status_code == 201, made.text
            try:
                yield World(admin, serving, port, upstream)
            finally:
                models.held.set()


async def read_to_end(lines):
    async for _ in lines:
        pass


@asynccontextmanager
async def executor_by_websocket(world, key):
    async with connected(world.serving, key["key"]) as peer:
        await peer.register(f"bot-{key['id']}")

        async def end():
            await peer._socket.wait_closed()
            assert peer._socket.close_code == 1008
            found = await world.admin.get("/executors", params={"executor": f"bot-{key['id']}"})
            assert found.json()["items"] == []

        yield end


@asynccontextmanager
async def running_command(world, key):
    """A command for a tool that is being called, on a connection that goes on."""
    async with connected(world.serving, key["key"]) as peer:
        command = asyncio.ensure_future(peer.request("clock.ticks"))

        async def end():
            try:
                response = await command
            except ConnectionError:
                assert peer._socket.close_code == 1008
                return
            if response["status"] == "CANCELLED":
                await peer.wait_closed()
                assert peer._socket.close_code == 1008
                return
            assert response["status"] in ("PERMISSION_DENIED", "NOT_FOUND"), response
            assert (await peer.request("agent.ping"))["status"] == "SUCCESS"

        try:
            yield end
        finally:
            command.cancel()


@asynccontextmanager
async def executor_by_grpc(world, key):
    async with connected_by_grpc(world.grpc_port, key["key"]) as stream:
        answer = await stream.request(
            "agent.register_tools", definitions(), role="executor", executor=f"stream-{key['id']}"
        )
        assert answer.status == STATUS.SUCCESS, answer

        async def end():
            code, _ = await stream.ended()
            assert code in (grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)

        yield end


@asynccontextmanager
async def subscription(world, key, path="/mcp"):
    async with listening(world.client(key["key"]), path) as (messages, _):
        yield lambda: read_to_end(messages)


def subscription_of_a_toolset(world, key):
    return subscription(world, key, "/toolsets/mine/mcp")


@asynccontextmanager
async def events_of(client, method, path, **options):
    """A stream of events that has begun, and what reads it to its end; its last event is an error."""
    async with client.stream(method, path, **options) as response:
        assert response.status_code == 200, await response.aread()
        lines = response.aiter_lines()
        await anext(lines)

        async def end():
            rest = [line async for line in lines]
            assert any(line.startswith(("event: gateway-error", "event: end")) for line in rest), rest

        yield end


def stream_of_calls(world, key):
    return events_of(world.client(key["key"]), "GET", "/calls/stream")


def stream_of_changes(world, key):
    return events_of(world.client(key["key"]), "GET", "/changes/stream")


@asynccontextmanager
async def stream_of_the_console(world, key):
    async with PlainBrowser(world.serving.url) as browser:
        assert (await browser.sign_in(key["key"])).status_code == 303
        async with events_of(browser, "GET", "/console/calls/stream") as end:
            yield end


def streamed_call(world, key):
    client = world.client(key["key"])
    headers = {"Accept": "text/event-stream"}
    return events_of(client, "POST", "/tools/clock.ticks/call", json={}, headers=headers)


@asynccontextmanager
async def background(world, path, key, method_path, states, *, statuses=(401, 403), **options):
    """What was started with `Prefer: respond-async`, until it is in one of these states, with a problem."""
    client = world.client(key["key"])
    started = await client.post(method_path, headers={"Prefer": "respond-async"}, **options)
    assert started.status_code == 202, started.text

    async def end():
        found = {"state": "running"}
        while found["state"] == "running":
            await asyncio.sleep(0.05)
            found = (await world.admin.get(f"{path}/{started.json()['id']}")).json()
        assert found["state"] in states, found
        problem = found.get("problem") or found["result"]
        assert problem["status"] in statuses, found

    yield end


def agent_test(world, key):
    body = {"input": "Hi", "models": ["gpt-4o"], "tools": ["clock.ticks"]}
    return background(world, "/agent-tests", key, "/agent-tests", ("cancelled",), json=body)


def registration(world, key):
    body = {"name": f"api-{key['id']}", "url": f"{world.upstream}/document"}
    return background(world, "/imports", key, "/providers", ("failed",), json=body)


ELSEWHERE = {"providers": ["elsewhere"], "allow_unknown_providers": True}
INTERFACES: dict[Any, tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None]] = {
    executor_by_websocket: (
        {"scopes": ["executors:connect", "tools:call"]},
        {"scopes": ["tools:call"]},
        ELSEWHERE,
    ),
    executor_by_grpc: (
        {"scopes": ["executors:connect", "tools:call"]},
        {"scopes": ["tools:call"]},
        ELSEWHERE,
    ),
    running_command: (
        {"scopes": ["executors:connect", "tools:call"]},
        {"scopes": ["executors:connect"]},
        ELSEWHERE,
    ),
    subscription: ({"scopes": ["tools:read", "tools:call"]}, {"scopes": ["tools:call"]}, None),
    subscription_of_a_toolset: (
        {"scopes": ["tools:read", "tools:call"], "toolsets": ["mine"]},
        {"scopes": ["tools:call"]},
        {"toolsets": ["other"]},
    ),
    # A restriction filters what these send: tests/api/tools/test_record_streams.py.
    stream_of_calls: ({"scopes": ["calls:read"]}, {"scopes": ["tools:read"]}, None),
    stream_of_changes: ({"scopes": ["calls:read"]}, {"scopes": ["tools:read"]}, None),
    stream_of_the_console: (
        {"scopes": ["calls:read", "tools:read"]},
        {"scopes": ["tools:read"]},
        None,
    ),
    streamed_call: ({"scopes": ["tools:call"]}, {"scopes": ["tools:read"]}, ELSEWHERE),
    agent_test: (
        {"scopes": ["agent-tests:run", "tools:call"]},
        {"scopes": ["agent-tests:run"]},
        ELSEWHERE,
    ),
    registration: ({"scopes": ["providers:write"]}, {"scopes": ["providers:read"]}, ELSEWHERE),
}
"""Of each interface its key at first, without the scope that admits it, and with other restrictions."""


def cases():
    for interface, (key, without_scope, restricted) in INTERFACES.items():
        for change, patch in (("revoked", None), ("scope", without_scope), ("restriction", restricted)):
            if change == "revoked" or patch is not None:
                yield pytest.param(interface, key, patch, id=f"{interface.__name__}-{change}")


@pytest.mark.time_limit(240)
@for_each(("interface", "given", "patch"), cases)
async def test_what_goes_on_ends_once_its_key_has_lost_the_right(world, interface, given, patch):
    made = await world.admin.post("/keys", json={"name": "k", **given})
    assert made.status_code == 201, made.text
    key = made.json()
    async with interface(world, key) as end:
        ending = asyncio.ensure_future(end())
        # Longer than between two checks: nothing ends while the key has its rights.
        done, _ = await asyncio.wait([ending], timeout=1.3)
        assert not done, ending.result()
        if patch is None:
            changed = await world.admin.delete(f"/keys/{key['id']}")
        else:
            changed = await world.admin.patch(f"/keys/{key['id']}", json=patch)
        assert changed.is_success, changed.text
        async with asyncio.timeout(SECONDS):
            await ending


def toolset_call(world, key):
    client = world.client(key["key"])
    headers = {"Accept": "text/event-stream"}
    return events_of(client, "POST", "/toolsets/mine/tools/clock_ticks/call", json={}, headers=headers)


def toolset_test(world, key):
    body = {"input": "Hi", "models": ["gpt-4o"], "toolsets": ["mine"]}
    return background(world, "/agent-tests", key, "/agent-tests", ("cancelled",), json=body)


def refresh(world, key):
    return background(world, "/imports", key, "/providers/stuck/refresh", ("failed",), statuses=(404,))


async def take_the_tag(world):
    for name in ("clock", "stuck"):
        changed = await world.admin.patch(f"/providers/{name}", json={"tags": []})
        assert changed.status_code == 200, changed.text


async def take_the_tool(world):
    changed = await world.admin.put("/toolsets/mine", json={"definition": {"providers": ["stuck"]}})
    assert changed.status_code == 200, changed.text


CALLS = {"scopes": ["tools:call"]}
TESTS = {"scopes": ["agent-tests:run", "tools:call"]}
TAGGED = {"tags": ["blue"]}


@pytest.mark.time_limit(120)
@for_each(
    ("interface", "given", "change"),
    [
        pytest.param(streamed_call, CALLS | TAGGED, take_the_tag, id="streamed_call"),
        pytest.param(toolset_call, CALLS, take_the_tool, id="toolset_call"),
        pytest.param(agent_test, TESTS | TAGGED, take_the_tag, id="agent_test"),
        pytest.param(toolset_test, TESTS, take_the_tool, id="toolset_test"),
        pytest.param(refresh, {"scopes": ["providers:write"]} | TAGGED, take_the_tag, id="refresh"),
    ],
)
async def test_what_goes_on_ends_once_what_its_key_is_limited_to_has_changed(world, interface, given, change):
    """The key stays as it is: a provider loses its tag, or a toolset its tool."""
    made = await world.admin.post("/keys", json={"name": "k", **given})
    assert made.status_code == 201, made.text
    for name in ("clock", "stuck"):
        assert (await world.admin.patch(f"/providers/{name}", json={"tags": ["blue"]})).status_code == 200
    restored = await world.admin.put("/toolsets/mine", json={"definition": {"providers": ["clock"]}})
    assert restored.is_success, restored.text
    await world.serving.services.feed.catch_up()
    async with interface(world, made.json()) as end:
        ending = asyncio.ensure_future(end())
        done, _ = await asyncio.wait([ending], timeout=1.3)
        assert not done, ending.result()
        await change(world)
        async with asyncio.timeout(SECONDS):
            await ending


async def test_an_executor_whose_name_was_given_to_another_provider_is_disconnected(world):
    """Also one that was deleted, and whose name another key has registered since."""
    keys = [
        (await world.admin.post("/keys", json={"name": "k", "scopes": ["executors:connect"]})).json()
        for _ in range(2)
    ]
    async with (
        connected(world.serving, keys[0]["key"]) as old,
        connected(world.serving, keys[1]["key"]) as new,
    ):
        await old.register("moved")
        assert (await world.admin.delete("/providers/moved")).status_code == 204
        await new.register("moved")
        async with asyncio.timeout(SECONDS):
            await old._socket.wait_closed()
        assert (old._socket.close_code, new._socket.state) == (1008, websockets.State.OPEN)
