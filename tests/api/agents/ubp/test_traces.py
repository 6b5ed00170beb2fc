"""The trace of a call reaches the executor, at the same worker and at another one."""

import asyncio
from contextlib import AsyncExitStack
from types import SimpleNamespace

import pytest

from app.core.settings import Settings
from app.security.vault import KeyRing
from tests.harness.application import run_application
from tests.harness.collector import collector
from tests.harness.ubp_peers import ORDER_STATUS, connected

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def spans():
    """The collector of the traces."""
    with collector() as running:
        yield running


@pytest.fixture(scope="module")
async def workers(database_url, redis_url, spans):
    """Two workers with traces, and one without, on one database and one Redis."""
    common = {
        "_env_file": None,
        "database_url": database_url,
        "redis_url": redis_url,
        "sealing_keys": KeyRing.generate("test"),
        "log_level": "error",
    }
    async with AsyncExitStack() as stack:
        environment = stack.enter_context(pytest.MonkeyPatch.context())
        environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        running = [
            await stack.enter_async_context(run_application(Settings(**common, **settings)))
            for settings in (*[{"otel_exporter_otlp_endpoint": spans.url}] * 2, {})
        ]
        client = await running[0].client("admin")
        authorization = client.headers["authorization"]
        yield [
            SimpleNamespace(
                url=one.url,
                key=authorization.removeprefix("Bearer "),
                client=await one.client("admin"),
            )
            for one in running
        ]


def call(worker, tool, **headers):
    return worker.client.post(f"/tools/{tool}/call", json={"order_id": 1}, headers=headers)


async def span_of(spans, span_id):
    """Return the span of this id once it has been exported."""
    while not (found := [one for one in spans.spans() if one.span_id == span_id]):  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return found[0]


@pytest.mark.parametrize("asking", [0, 1], ids=["same worker", "another worker"])
async def test_the_trace_of_a_rest_call_reaches_the_executor(workers, spans, asking):
    async with connected(workers[0]) as executor:
        await executor.register("traced", {**ORDER_STATUS, "name": "traced_status"})
        headers = {"traceparent": PARENT, "tracestate": "vendor=value"}
        response = await call(workers[asking], "traced.traced_status", **headers)
        assert response.status_code == 200, response.text
        version, trace_id, parent, flags = executor.metadata["traceparent"].split("-")
        assert (version, trace_id, flags) == ("00", TRACE_ID, "01")
        assert executor.metadata["tracestate"] == "vendor=value"
        assert parent not in PARENT
    sent = await span_of(spans, parent)
    assert (sent.kind, sent.trace_id) == ("client", TRACE_ID)
    server = await span_of(spans, sent.parent)
    assert (server.kind, server.attributes["utcp.tool"]) == ("server", "traced.traced_status")


async def test_the_command_of_an_agent_arrives_unchanged_beside_the_trace(workers):
    received = []

    async def handle(request):
        received.append(request)
        return "Shipped"

    async with connected(workers[0], handler=handle) as executor, connected(workers[0]) as agent:
        await executor.register("traced", {**ORDER_STATUS, "name": "traced_status"})
        metadata = {"traceparent": PARENT, "another": "member"}
        response = await agent.request("traced_status", {"order_id": 1}, "c-1", **metadata)
        assert response["status"] == "SUCCESS"
        assert received[0] == {
            "commandId": "c-1",
            "commandName": "traced_status",
            "arguments": {"order_id": 1},
            "metadata": metadata,
        }
        assert executor.metadata["traceparent"].split("-")[1] == TRACE_ID
        assert executor.metadata["traceparent"] != PARENT


async def test_without_traces_the_envelope_has_none(workers):
    async with connected(workers[2]) as executor:
        await executor.register("traced", {**ORDER_STATUS, "name": "traced_status"})
        assert (await call(workers[2], "traced.traced_status", traceparent=PARENT)).status_code == 200
        assert sum(executor.executed.values()) == 1
        assert executor.metadata == {}
