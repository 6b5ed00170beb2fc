"""Tools of executors that are not connected: what a call says, and what happens when they are back."""

import asyncio

import pytest

from tests.harness.gateway import serve
from tests.harness.ubp_peers import ORDER_STATUS, connected


@pytest.fixture(scope="module")
def gateway(servers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    with serve(servers, folder, BREAKER_FAILURES="2", BREAKER_OPEN_SECONDS="30") as running:
        yield running


def defined(name):
    return {**ORDER_STATUS, "name": name}


async def request(gateway, method, path, **options):
    def send():
        with gateway.client() as client:
            return client.request(method, path, **options)

    return await asyncio.to_thread(send)


async def call(gateway, tool):
    return await request(gateway, "POST", f"/tools/{tool}/call", json={"order_id": 1})


async def until_away(gateway, executor):
    """Wait until a gateway has noticed the end of a connection."""
    while True:
        found = (await request(gateway, "GET", "/executors")).json()["items"]
        if executor not in {one["executor"] for one in found}:
            return


async def test_a_call_names_the_executor_and_since_when_it_is_away(gateway):
    async with connected(gateway) as executor:
        await executor.register("leaving", defined("leaving_status"))
    await until_away(gateway, "leaving")
    response = await call(gateway, "leaving.leaving_status")
    problem = response.json()
    assert (response.status_code, response.headers["Retry-After"]) == (502, "5")
    assert problem["type"] == "urn:utcp-gateway:problem:upstream-unreachable"
    assert (problem["executor"], problem["command_name"]) == ("leaving", "leaving_status")
    assert problem["detail"] == (
        "No executor of leaving is connected that executes leaving_status. "
        f"The last one has disconnected at {problem['away_since']}."
    )
    assert problem["retryable"]


async def test_calls_while_an_executor_is_away_do_not_open_its_breaker(gateway):
    async with connected(gateway) as executor:
        await executor.register("pausing", defined("pausing_status"))
    await until_away(gateway, "pausing")
    slugs = {(await call(gateway, "pausing.pausing_status")).json()["type"] for _ in range(6)}
    assert slugs == {"urn:utcp-gateway:problem:upstream-unreachable"}
    async with connected(gateway) as executor:
        await executor.register("pausing", defined("pausing_status"))
        response = await call(gateway, "pausing.pausing_status")
        assert (response.status_code, response.json()) == (200, "Shipped")


async def test_calls_that_wait_for_a_busy_executor_do_not_open_its_breaker(gateway):
    begun, free = asyncio.Event(), asyncio.Event()

    async def once_free(request):
        begun.set()
        await free.wait()
        return "Shipped"

    async with connected(gateway, handler=once_free) as executor:
        await executor.register("busy", defined("busy_status"), max_commands="1")
        running = asyncio.create_task(call(gateway, "busy.busy_status"))
        await begun.wait()
        limits = {"limits": {"total": 0.5}}
        assert (await request(gateway, "PATCH", "/providers/busy", json=limits)).status_code == 200
        waiting = await asyncio.gather(*(call(gateway, "busy.busy_status") for _ in range(4)))
        for response in waiting:
            problem = response.json()
            assert problem["type"] == "urn:utcp-gateway:problem:upstream-timeout", problem
            assert problem["detail"] == "The executor was busy until the deadline."
            assert problem["retryable"]
        free.set()
        assert (await running).json() == "Shipped"
        response = await call(gateway, "busy.busy_status")
        assert (response.status_code, response.json()) == (200, "Shipped")
    assert sum(executor.executed.values()) == 2


async def test_an_executor_that_connects_again_closes_the_breaker(gateway):
    forever = asyncio.Event()

    async def never(request):
        await forever.wait()

    async with connected(gateway, handler=never) as executor:
        await executor.register("hanging", defined("hanging_status"))
        limits = {"limits": {"total": 0.2}}
        patched = await request(gateway, "PATCH", "/providers/hanging", json=limits)
        assert patched.status_code == 200, patched.text
        types = [(await call(gateway, "hanging.hanging_status")).json()["type"] for _ in range(4)]
        assert types[-1] == "urn:utcp-gateway:problem:circuit-open", types
    async with connected(gateway) as executor:
        await executor.register("hanging", defined("hanging_status"))
        response = await call(gateway, "hanging.hanging_status")
        assert (response.status_code, response.json()) == (200, "Shipped")
