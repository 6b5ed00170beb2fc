"""Commands between workers through Redis: two routers that share one server."""

import asyncio
from contextlib import ExitStack, asynccontextmanager
from uuid import uuid4

import orjson
import pytest
import structlog

from app.core.errors import UpstreamTimeout, UpstreamUnreachable
from app.formats.ubp.model import (
    REPLY_TO,
    STRUCT,
    Command,
    CommandResult,
    Event,
    JsonPayload,
    Message,
    Status,
    WirePayload,
)
from app.formats.ubp.values import build_value_payload, read_value
from app.protocols.command_routing import Capability, CommandNotSent, CommandRouter, ExecutorConnection
from app.protocols.command_routing.model import CANCEL_COMMAND, ExecutorBusy, ExecutorDisconnected
from app.protocols.command_routing.relay import Renewal, WorkerRelay
from app.security.vault import KeyRing, Vault
from app.storage.redis import connect
from tests.harness.valkey import own_valkey

TENANT = uuid4()
ORDERS = Capability(TENANT, "orders", "get_order_status")
RENEWAL = Renewal()


class Executor:
    """A connected executor whose responses the test writes."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.connection = ExecutorConnection(self, tenant_id=TENANT, executor="orders", key_id="k")
        self.connection.register(["get_order_status"], names_envelopes=True)

    async def send(self, message: Message) -> None:
        self.messages.put_nowait(message)

    async def received(self) -> Message:
        return await self.messages.get()

    def respond(self, message: Message, value: object) -> None:
        result = CommandResult(message.payload.command_id, Status.SUCCESS, build_value_payload(value).payload)
        assert self.connection.receive(Message("r", result, {REPLY_TO: message.message_id}))


@pytest.fixture
def vault():
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("data"), vault.new_data_key("digest")])
    return vault


@pytest.fixture(scope="module")
def valkey():
    with own_valkey() as running:
        yield running


@pytest.fixture(autouse=True)
async def empty(valkey):
    """The server without what other tests have left."""
    async with raw(valkey) as client:
        await client.flushall()


@asynccontextmanager
async def worker(valkey, vault, renewal=RENEWAL):
    client = connect(valkey.url, timeout=5)
    router = CommandRouter()
    relay = WorkerRelay(client, vault, router, renewal=renewal)
    router.use(relay)
    try:
        yield router, relay
    finally:
        await router.aclose()
        await client.aclose()


@pytest.fixture
async def pair(valkey, vault):
    async with worker(valkey, vault) as near, worker(valkey, vault) as far:
        yield near[0], far[0]


def soon(seconds=10.0):
    return asyncio.get_running_loop().time() + seconds


def command(payload=None, command_id="c1"):
    return Command(command_id, "get_order_status", payload or JsonPayload({"order_id": 123}), {"a": "b"})


@pytest.mark.parametrize(
    "payload",
    [
        JsonPayload({"order_id": 123, "big": 2**62}),
        WirePayload(STRUCT, b"\xa2\x06\x01x"),
        WirePayload("type.example/acme.Order", b"\x08\x7b"),
    ],
)
async def test_a_command_reaches_the_executor_of_another_worker_unchanged(pair, payload):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    running = asyncio.create_task(near.execute(ORDERS, command(payload), deadline=soon()))
    message = await executor.received()
    assert message.payload == command(payload)
    executor.respond(message, "Shipped")
    result = await running
    assert (result.command_id, read_value(result.result)) == ("c1", "Shipped")


async def test_an_executor_is_found_that_connected_after_the_last_description(pair):
    near, far = pair
    assert await near.executors(TENANT) == []
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon()))
    executor.respond(await executor.received(), 1)
    await running
    [found] = await near.executors(TENANT)
    assert (found.executor, found.commands, found.key_id) == ("orders", {"get_order_status"}, "k")
    assert near.is_connected(ORDERS)
    assert await near.executors(uuid4()) == []


async def test_progress_and_cancellation_cross_workers(pair):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    seen: asyncio.Queue[Event] = asyncio.Queue()
    running = asyncio.create_task(
        near.execute(ORDERS, command(), deadline=soon(), on_progress=seen.put_nowait)
    )
    message = await executor.received()
    event = Event("command.progress", JsonPayload({"progress": 1}))
    executor.connection.receive(Message("e", event, {REPLY_TO: message.message_id}))
    assert await seen.get() == event
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await executor.received()).payload.command_name == CANCEL_COMMAND


async def test_of_events_that_come_at_once_the_latest_crosses_workers(pair, valkey):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    seen: asyncio.Queue[Event] = asyncio.Queue()
    running = asyncio.create_task(
        near.execute(ORDERS, command(), deadline=soon(), on_progress=seen.put_nowait)
    )
    message = await executor.received()
    async with raw(valkey) as client:
        added = (await client.info("commandstats"))["cmdstat_xadd"]["calls"]
        for number in range(1_000):
            event = Event("command.progress", JsonPayload({"progress": number}))
            executor.connection.receive(Message("e", event, {REPLY_TO: message.message_id}))
        last = Event("command.progress", JsonPayload({"progress": 999}))
        executor.respond(message, 1)
        await running
        found = [seen.get_nowait() for _ in range(seen.qsize())]
        assert found[-1] == last
        # Those are the events that were sent, and the response.
        assert (await client.info("commandstats"))["cmdstat_xadd"]["calls"] - added == len(found) + 1 <= 3


async def test_an_executor_that_disconnects_fails_its_open_commands_at_once(pair):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon(60)))
    await executor.received()
    far.remove(executor.connection)
    with pytest.raises(UpstreamUnreachable, match="disconnected") as caught:
        await running
    assert caught.value.request_sent
    # The other worker still believes in it, and is told that the command was not sent.
    with pytest.raises(CommandNotSent):
        await near.execute(ORDERS, command(), deadline=soon())


async def test_the_deadline_holds_across_workers(pair):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    with pytest.raises(UpstreamTimeout):
        await near.execute(ORDERS, command(), deadline=soon(0.1))
    assert (await executor.received()).payload.command_name == "get_order_status"
    assert (await executor.received()).payload.command_name == CANCEL_COMMAND


async def test_a_worker_that_has_gone_fails_what_it_was_given(valkey, vault):
    quick = Renewal(interval=0.05, expiry=0.5)
    async with worker(valkey, vault, quick) as (near, _), worker(valkey, vault, quick) as (far, far_relay):
        executor = Executor()
        far.add(executor.connection)
        await far.announce()
        running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon(60)))
        await executor.received()
        for task in far_relay._tasks:
            task.cancel()
        with pytest.raises(UpstreamUnreachable, match="worker"):
            await running
        assert not near.is_connected(ORDERS)
        with pytest.raises(CommandNotSent):
            await near.execute(ORDERS, command(), deadline=soon())


@pytest.mark.parametrize("asking", [0, 1], ids=["same worker", "another worker"])
async def test_a_command_that_waits_for_a_busy_executor_is_known_not_to_be_sent(pair, asking):
    executor = Executor()
    executor.connection.register(["get_order_status"], max_commands=1)
    pair[0].add(executor.connection)
    await pair[0].announce()
    first = asyncio.create_task(pair[asking].execute(ORDERS, command(command_id="c-1"), deadline=soon()))
    message = await executor.received()
    with pytest.raises(ExecutorBusy) as busy:
        await pair[asking].execute(ORDERS, command(command_id="c-2"), deadline=soon(1))
    assert (busy.value.request_sent, busy.value.counts_for_breaker) == (False, False)
    executor.respond(message, "Shipped")
    assert read_value((await first).result) == "Shipped"
    assert executor.messages.empty()
    silent = asyncio.create_task(pair[asking].execute(ORDERS, command(command_id="c-3"), deadline=soon(0.5)))
    await executor.received()
    with pytest.raises(UpstreamTimeout) as late:
        await silent
    assert (late.value.request_sent, late.value.counts_for_breaker) == (True, True)


async def test_without_redis_executors_of_this_worker_are_used(vault, tmp_path):
    client = connect(f"unix://{tmp_path / 'none.sock'}", timeout=0.2)
    router = CommandRouter()
    router.use(WorkerRelay(client, vault, router))
    executor = Executor()
    router.add(executor.connection)
    await router.announce()
    running = asyncio.create_task(router.execute(ORDERS, command(), deadline=soon()))
    executor.respond(await executor.received(), "Shipped")
    assert read_value((await running).result) == "Shipped"
    with pytest.raises(CommandNotSent):
        await router.execute(Capability(TENANT, "other", "x"), command(), deadline=soon())
    await router.aclose()
    await client.aclose()


async def test_nothing_of_a_command_is_readable_in_redis(pair, valkey):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    running = asyncio.create_task(
        near.execute(ORDERS, command(JsonPayload({"card": "canary-4111"})), deadline=soon())
    )
    message = await executor.received()
    client = connect(valkey.url, timeout=5)
    stored = b""
    for name in await client.keys("*"):
        if await client.type(name) == b"stream":
            stored += repr(await client.xrange(name)).encode()
        else:
            stored += repr(await client.hgetall(name)).encode()
    await client.aclose()
    assert stored
    assert b"canary" not in stored
    assert b"get_order_status" not in stored
    executor.respond(message, "Shipped")
    await running


async def test_an_entry_that_is_not_sealed_by_the_gateway_is_ignored(pair, valkey):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    client = connect(valkey.url, timeout=5)
    for name in await client.keys("utcp:ubp:inbox:*"):
        await client.xadd(name, {b"e": b"forged"})
        await client.xadd(name, {b"other": b"1"})
    await client.hset("utcp:ubp:workers", "forged", b"{}")
    await client.aclose()
    running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon()))
    executor.respond(await executor.received(), "Shipped")
    assert read_value((await running).result) == "Shipped"


async def test_the_commands_of_an_executor_are_known_at_other_workers_once_they_follow(pair):
    near, far = pair
    executor = Executor()
    far.add(executor.connection)
    await far.announce()
    assert not near.is_connected(ORDERS)
    await near.follow_workers()
    assert near.is_connected(ORDERS)
    assert near.connected_executors(TENANT) == {"orders"}
    assert near.connected_executors(uuid4()) == frozenset()
    assert not near.is_connected(Capability(TENANT, "orders", "cancel_order"))
    far.remove(executor.connection)
    await far.announce()
    await near.announce()
    assert not near.is_connected(ORDERS)
    assert near.connected_executors(TENANT) == frozenset()


async def test_the_commands_of_other_connections_are_read_from_all_workers(pair):
    near, far = pair
    own, other = Executor(), Executor()
    other.connection.register(["cancel_order"])
    near.add(own.connection)
    far.add(other.connection)
    await far.announce()
    found = [
        await near.commands_of_others(TENANT, "orders", connection_id=one.connection.id)
        for one in (own, other)
    ]
    assert found == [{"cancel_order"}, {"get_order_status"}]


async def test_without_redis_the_commands_of_other_connections_are_not_known(vault):
    with ExitStack() as redis:
        server = redis.enter_context(own_valkey())
        async with worker(server, vault) as (near, _), worker(server, vault) as (far, _):
            executor = Executor()
            far.add(executor.connection)
            await far.announce()
            await near.announce()
            assert near.is_connected(ORDERS)
            redis.close()
            assert await near.commands_of_others(TENANT, "orders", connection_id="") is None
            assert not near.is_connected(ORDERS)
            assert far.is_connected(ORDERS)


@asynccontextmanager
async def raw(valkey):
    """Yield a client of the server."""
    client = connect(valkey.url, timeout=5)
    try:
        yield client
    finally:
        await client.aclose()


def inbox(relay):
    return f"utcp:ubp:inbox:{relay.worker_id}"


def sealed(vault, worker_id, content):
    return {b"e": vault.seal(content, context=("command-relay", worker_id))}


def opened(vault, worker_id, fields):
    """Return the first line of an entry, and the rest."""
    line, _, body = vault.open(fields[b"e"], context=("command-relay", worker_id)).partition(b"\n")
    return orjson.loads(line), body


async def call_once(near, executor):
    running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon()))
    executor.respond(await executor.received(), "Shipped")
    assert read_value((await running).result) == "Shipped"


HEAD = b'"id":"e1","from":"probe","connection":"c","seconds":5}'
UNREADABLE = {
    "no JSON": b"canary",
    "no object": b"[1]",
    "no kind": b'{"id":"e1","from":"probe"}',
    "an id that is no text": b'{"kind":"command","id":7,"from":"probe"}',
    "no message": b'{"kind":"command",' + HEAD,
    "a message that is no JSON": b'{"kind":"command",' + HEAD + b"\njcanary",
    "bytes that are no message": b'{"kind":"command",' + HEAD + b"\nw\xff\xff\xff",
    "no connection": b'{"kind":"command","id":"e1","from":"probe"}\nj{"commandRequest":{"commandName":"x"}}',
    "no seconds": b'{"kind":"command","id":"e1","from":"probe","connection":"c"}\nj{"commandRequest":{}}',
    "an event in place of a command": b'{"kind":"command",' + HEAD + b'\nj{"event":{"eventName":"canary"}}',
}


async def test_entries_that_cannot_be_read_are_skipped_and_counted(valkey, vault):
    async with (
        worker(valkey, vault) as (near, _),
        worker(valkey, vault) as (far, relay),
        raw(valkey) as client,
    ):
        executor = Executor()
        far.add(executor.connection)
        await far.announce()
        with structlog.testing.capture_logs() as logs:
            for content in UNREADABLE.values():
                await client.xadd(inbox(relay), sealed(vault, relay.worker_id, content))
            await client.xadd(inbox(relay), sealed(vault, "another", b"{}"))
            await client.xadd(inbox(relay), {b"e": b"forged"})
            await call_once(near, executor)
        assert far.counts.unreadable == len(UNREADABLE) + 2
        assert len(logs) == len(UNREADABLE) + 2
        assert "canary" not in repr(logs)


async def test_the_sender_of_a_command_that_cannot_be_read_is_told_that_it_was_not_sent(valkey, vault):
    async with worker(valkey, vault) as (far, relay), raw(valkey) as client:
        await far.announce()
        first = await client.xadd("utcp:ubp:inbox:probe", {b"e": b""})
        content = b'{"kind":"command",' + HEAD + b"\nw\xff\xff\xff"
        await client.xadd(inbox(relay), sealed(vault, relay.worker_id, content))
        found = await client.xread({"utcp:ubp:inbox:probe": first}, block=5_000)
        [[_, [[_, fields]]]] = found
        head, _ = opened(vault, "probe", fields)
        assert (head["kind"], head["id"]) == ("not-sent", "e1")
        await client.delete("utcp:ubp:inbox:probe")


RESULTS = {
    "no JSON": {"kind": "result"},
    "no detail": {"kind": "failed"},
    "an unknown kind": {"kind": "postponed", "detail": "x"},
}


@pytest.mark.parametrize("head", RESULTS.values(), ids=RESULTS)
async def test_a_result_that_cannot_be_read_ends_its_command(valkey, vault, head):
    async with (
        worker(valkey, vault) as (near, own),
        worker(valkey, vault) as (far, relay),
        raw(valkey) as client,
    ):
        executor = Executor()
        far.add(executor.connection)
        await far.announce()
        running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon(60)))
        await executor.received()
        _, fields = (await client.xrange(inbox(relay)))[-1]
        sent, _ = opened(vault, relay.worker_id, fields)
        content = orjson.dumps({**head, "id": sent["id"], "from": relay.worker_id}) + b"\njcanary"
        await client.xadd(inbox(own), sealed(vault, own.worker_id, content))
        with pytest.raises(ExecutorDisconnected, match="cannot be read"):
            await running
        assert near.counts.unreadable == 1


async def test_descriptions_of_workers_that_cannot_be_read_are_skipped_and_counted_once(valkey, vault):
    async with worker(valkey, vault) as (near, _), worker(valkey, vault) as (far, _), raw(valkey) as client:
        executor = Executor()
        far.add(executor.connection)
        context = ("command-relay", "worker")
        contents = (b"canary", b"[]", b'{"number":1}', b'{"number":1,"executors":[{"id":"c"}]}')
        for number, content in enumerate(contents):
            await client.hset("utcp:ubp:workers", f"w{number}", vault.seal(content, context=context))
        await client.hset("utcp:ubp:workers", b"\xff\xfe", b"forged")
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                await far.announce()
                await near.announce()
            await call_once(near, executor)
        assert near.counts.unreadable == len(contents) + 1
        assert "canary" not in repr(logs)
        await client.hdel("utcp:ubp:workers", b"\xff\xfe", *(f"w{one}" for one in range(len(contents))))


async def test_what_redis_has_lost_ends_open_commands_and_later_ones_work(valkey, vault):
    quick = Renewal(interval=0.05, expiry=5)
    async with (
        worker(valkey, vault, quick) as (near, _),
        worker(valkey, vault, quick) as (far, _),
        raw(valkey) as client,
    ):
        executor = Executor()
        far.add(executor.connection)
        await far.announce()
        running = asyncio.create_task(near.execute(ORDERS, command(), deadline=soon(60)))
        message = await executor.received()
        await client.flushall()
        with pytest.raises(ExecutorDisconnected):
            await running
        # The response is too late for anybody.
        executor.respond(message, "late")
        while not near.is_connected(ORDERS):
            await near.announce()
        await call_once(near, executor)
        assert executor.messages.empty()
