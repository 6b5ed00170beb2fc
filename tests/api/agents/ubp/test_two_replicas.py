"""Executors and agents at different replicas: two gateways on one database and one Redis."""

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace

import pytest

from tests.harness.gateway import serve
from tests.harness.ubp_peers import ORDER_STATUS, connected
from tests.harness.valkey import own_valkey


@contextmanager
def two_replicas(servers, folder, **settings):
    """Yield two gateways on one database, with one key: the name of an executor belongs to a key."""
    dsn = servers.create_database()
    try:
        with serve(servers, folder, database_url=dsn, **settings) as first:
            settings = {**settings, "SEALING_KEYS": first.environment["SEALING_KEYS"]}
            with serve(servers, folder, database_url=dsn, **settings) as second:
                yield first, replace(second, key=first.key)
    finally:
        servers.drop_database(dsn)


@pytest.fixture(scope="module")
def replicas(servers, tmp_path_factory):
    with two_replicas(servers, tmp_path_factory.mktemp("replicas")) as running:
        yield running


def arguments_of(request):
    """Return the arguments of a command; those of a call by REST are a Struct."""
    return request["arguments"].get("value", request["arguments"])


@pytest.fixture
def own_replicas(servers, tmp_path):
    """Two replicas for one test, which may kill them."""
    with two_replicas(servers, tmp_path) as running:
        yield running


@pytest.fixture
def valkey():
    with own_valkey() as running:
        yield running


@pytest.fixture
def replicas_with_own_valkey(servers, valkey, tmp_path):
    with two_replicas(servers, tmp_path, REDIS_URL=valkey.url) as running:
        yield running


@pytest.fixture
def gateway_of_two_workers(servers, tmp_path):
    with serve(servers, tmp_path, workers=2) as running:
        yield running


async def slowly(request):
    """Execute a command in 20 ms."""
    await asyncio.sleep(0.02)
    return arguments_of(request)["order_id"]


async def until(condition):
    """Wait until a condition holds; the time limit of the test ends what never does."""
    while not condition():  # noqa: ASYNC110 - the peer's counts have no event.
        await asyncio.sleep(0.02)


def call_by_rest(gateway, tool, arguments):
    with gateway.client() as client:
        return client.post(f"/tools/{tool}/call", json=arguments)


async def test_the_order_example_with_the_agent_and_the_executor_at_different_replicas(replicas):
    first, second = replicas
    async with connected(first) as executor, connected(second) as agent:
        await executor.register("orders")
        declared = await agent.request("agent.register_tools", {"tools": [ORDER_STATUS]}, role="reasoner")
        assert declared["result"]["value"]["tools"] == [
            {"name": "get_order_status", "status": "known", "tool": "orders.get_order_status"}
        ]
        response = await agent.request("get_order_status", {"order_id": 123}, "c-1")
        assert (response["commandId"], response["status"]) == ("c-1", "SUCCESS")
        assert response["result"]["value"] == "Shipped"
        called = await asyncio.to_thread(call_by_rest, second, "orders.get_order_status", {"order_id": 123})
        assert (called.status_code, called.json()) == (200, "Shipped")
        assert executor.executed["c-1"] == 1


async def test_no_command_is_lost_or_executed_twice_while_the_executor_is_restarted(replicas):
    first, second = replicas
    executed: Counter[str] = Counter()
    async with AsyncExitStack() as stack:
        near = await stack.enter_async_context(connected(first))
        far = await stack.enter_async_context(connected(second))
        executor = await stack.enter_async_context(connected(first, handler=slowly))
        await executor.register("restarted", {**ORDER_STATUS, "name": "restarted_status"})
        sent = [
            asyncio.ensure_future(
                (near if number % 2 else far).request("restarted_status", {"order_id": number}, f"c{number}")
            )
            for number in range(200)
        ]
        await until(lambda: len(executor.executed) > 40)
        executor.abort()
        again = await stack.enter_async_context(connected(second, handler=slowly))
        await again.register("restarted", {**ORDER_STATUS, "name": "restarted_status"})
        responses = await asyncio.gather(*sent)
        executed.update(executor.executed)
        executed.update(again.executed)
        statuses = Counter(response["status"] for response in responses)
        assert statuses.keys() == {"SUCCESS", "UNAVAILABLE"}
        assert max(executed.values()) == 1
        for number, response in enumerate(responses):
            assert response["commandId"] == f"c{number}"
            if response["status"] == "SUCCESS":
                assert response["result"]["value"] == number
                assert executed[f"c{number}"] == 1
        late = await near.request("restarted_status", {"order_id": 7}, "after")
        assert (late["status"], again.executed["after"]) == ("SUCCESS", 1)


async def test_the_least_busy_of_several_executors_is_used_at_both_replicas(replicas):
    async with AsyncExitStack() as stack:
        executors = [
            await stack.enter_async_context(connected(replicas[number % 2], handler=slowly))
            for number in range(4)
        ]
        definition = {**ORDER_STATUS, "name": "shared_status"}
        for executor in executors:
            await executor.register("shared", definition, max_commands="8")
        agents = [await stack.enter_async_context(connected(gateway)) for gateway in replicas]
        sent = [
            agents[number % 2].request("shared_status", {"order_id": number}, f"s{number}")
            for number in range(80)
        ]
        responses = await asyncio.gather(*sent)
        assert {response["status"] for response in responses} == {"SUCCESS"}
        counts = [sum(executor.executed.values()) for executor in executors]
        assert sum(counts) == 80
        assert min(counts) >= 8, counts


async def test_relayed_commands_are_counted_by_the_replica_that_asks(replicas):
    async def counts(gateway):
        def read():
            with gateway.client() as client:
                text = client.get("/metrics").text
            lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
            return {name: float(value) for name, value in lines}

        found = await asyncio.to_thread(read)
        return [
            found["utcp_gateway_commands_relayed_total"],
            found['utcp_gateway_commands_total{outcome="success"}'],
        ]

    before = [await counts(gateway) for gateway in replicas]
    async with connected(replicas[0]) as executor:
        await executor.register("relayed", {**ORDER_STATUS, "name": "relayed_status"})
        called = await asyncio.to_thread(call_by_rest, replicas[1], "relayed.relayed_status", {"order_id": 1})
        assert called.status_code == 200
    after = [await counts(gateway) for gateway in replicas]
    assert after[0] == before[0]
    assert after[1] == [one + 1 for one in before[1]]


async def test_deadlines_and_cancellation_cross_replicas(replicas):
    first, second = replicas
    begun, forever = asyncio.Event(), asyncio.Event()

    async def never(request):
        begun.set()
        await forever.wait()

    async with connected(first, handler=never) as executor, connected(second) as agent:
        await executor.register("silent", {**ORDER_STATUS, "name": "silent_status"})
        response = await agent.request("silent_status", {"order_id": 1}, "late", timeout_ms="500")
        assert response["status"] == "TIMEOUT"
        await until(lambda: executor.cancelled == ["late"])
        begun.clear()
        running = asyncio.ensure_future(agent.request("silent_status", {"order_id": 2}, "unwanted"))
        await begun.wait()
        answer = await agent.request("command.cancel", {"command_id": "unwanted"})
        assert answer["result"]["value"] == {"cancelled": True}
        assert (await running)["status"] == "CANCELLED"
        await until(lambda: executor.cancelled == ["late", "unwanted"])


async def test_a_killed_replica_fails_its_open_commands_and_its_executors_are_gone(own_replicas):
    first, second = own_replicas
    begun, forever = asyncio.Event(), asyncio.Event()

    async def never(request):
        begun.set()
        await forever.wait()

    async with connected(second) as agent, connected(first, handler=never) as executor:
        await executor.register("orders")
        running = asyncio.ensure_future(agent.request("get_order_status", {"order_id": 1}, "open"))
        await begun.wait()
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
        assert (await running)["status"] == "UNAVAILABLE"
        assert executor.executed["open"] == 1
        gone = await agent.request("get_order_status", {"order_id": 1}, "gone")
        assert gone["status"] == "UNAVAILABLE"
        assert gone["result"]["value"]["executor"] == "orders"
        assert gone["result"]["value"]["away_since"] in gone["error"]
        async with connected(second) as again:
            await again.register("orders")
            response = await agent.request("get_order_status", {"order_id": 1}, "back")
            assert (response["status"], again.executed["back"]) == ("SUCCESS", 1)


async def test_local_commands_go_on_without_redis_and_others_afterwards(replicas_with_own_valkey, valkey):
    first, second = replicas_with_own_valkey
    async with connected(first) as executor, connected(first) as near, connected(second) as far:
        await executor.register("orders")
        assert (await far.request("get_order_status", {"order_id": 1}, "before"))["status"] == "SUCCESS"
        valkey.freeze()
        try:
            local = await near.request("get_order_status", {"order_id": 1}, "local")
            assert local["status"] == "SUCCESS"
            remote = await far.request("get_order_status", {"order_id": 1}, "remote")
            assert remote["status"] == "UNAVAILABLE"
            # Known by now: nothing is waited for.
            again = await far.request("get_order_status", {"order_id": 1}, "again", timeout_ms="2000")
            assert again["status"] == "UNAVAILABLE"
        finally:
            valkey.thaw()
        statuses = []
        while not statuses or statuses[-1] != "SUCCESS":
            response = await far.request("get_order_status", {"order_id": 1}, f"after{len(statuses)}")
            statuses.append(response["status"])
            await asyncio.sleep(0.1)
        assert set(statuses) <= {"UNAVAILABLE", "SUCCESS"}
        assert max(executor.executed.values()) == 1


async def test_commands_cross_the_workers_of_one_gateway(gateway_of_two_workers):
    gateway = gateway_of_two_workers
    async with AsyncExitStack() as stack:
        executor = await stack.enter_async_context(connected(gateway))
        await executor.register("orders")
        # The kernel distributes connections over the workers; all 16 at one worker would be rare.
        agents = [await stack.enter_async_context(connected(gateway)) for _ in range(16)]
        responses = await asyncio.gather(
            *(
                agent.request("get_order_status", {"order_id": 1}, f"c{number}")
                for number, agent in enumerate(agents)
            )
        )
        assert {response["status"] for response in responses} == {"SUCCESS"}
        assert sorted(executor.executed.values()) == [1] * 16
