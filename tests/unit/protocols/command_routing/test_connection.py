"""The connection of an executor: which response belongs to which command, limits, cancellation, and its end."""

import asyncio
from uuid import uuid4

import pytest

from app.core.errors import UpstreamTimeout, UpstreamUnreachable
from app.formats.ubp.model import (
    REPLY_TO,
    Command,
    CommandResult,
    Event,
    JsonPayload,
    Message,
    Status,
)
from app.formats.ubp.values import build_value_payload, read_value
from app.protocols.command_routing import (
    Capability,
    CommandNotSent,
    CommandRouter,
    ExecutorConnection,
    MessageNotSent,
)
from app.protocols.command_routing.model import CANCEL_COMMAND, ExecutorDisconnected

TENANT = uuid4()
ORDERS = Capability(TENANT, "orders", "get_order_status")


class Peer:
    """The executor's end of a connection: what it was sent, and its responses."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.is_connected = True
        self.breaks: asyncio.Event | None = None
        """Messages are received; once it is set, the connection breaks before their sender knows that."""

    async def send(self, message: Message) -> None:
        if not self.is_connected:
            raise MessageNotSent
        self.messages.put_nowait(message)
        if self.breaks is not None:
            await self.breaks.wait()
            raise ConnectionResetError

    async def received(self) -> Message:
        return await self.messages.get()


def respond(connection: ExecutorConnection, message: Message, text: str, *, named: bool = True) -> bool:
    result = CommandResult(message.payload.command_id, Status.SUCCESS, build_value_payload(text).payload)
    return connection.receive(Message("r", result, {REPLY_TO: message.message_id} if named else {}))


@pytest.fixture
def peer():
    return Peer()


@pytest.fixture
def connection(peer):
    found = ExecutorConnection(peer, tenant_id=TENANT, executor="orders", key_id="k")
    found.register(["get_order_status"])
    return found


def command(command_id="c1", order_id=123):
    return Command(command_id, "get_order_status", JsonPayload({"order_id": order_id}), {"trace": "t"})


async def test_the_command_arrives_as_it_is_and_its_response_comes_back(connection, peer):
    sent = command()
    running = asyncio.create_task(connection.execute(sent))
    message = await peer.received()
    assert message.payload is sent
    assert respond(connection, message, "Shipped")
    result = await running
    assert (result.command_id, result.status, read_value(result.result)) == ("c1", Status.SUCCESS, "Shipped")


async def test_two_commands_of_one_id_get_their_own_responses_by_the_envelope(connection, peer):
    connection.register(["get_order_status"], names_envelopes=True)
    first = asyncio.create_task(connection.execute(command(order_id=1)))
    second = asyncio.create_task(connection.execute(command(order_id=2)))
    to_first, to_second = await peer.received(), await peer.received()
    assert respond(connection, to_second, "second")
    assert respond(connection, to_first, "first")
    assert read_value((await first).result) == "first"
    assert read_value((await second).result) == "second"


async def test_two_commands_of_one_id_are_serialised_for_an_executor_that_names_no_envelopes(
    connection, peer
):
    first = asyncio.create_task(connection.execute(command(order_id=1)))
    second = asyncio.create_task(connection.execute(command(order_id=2)))
    other = asyncio.create_task(connection.execute(command("c2", order_id=3)))
    to_first, to_other = await peer.received(), await peer.received()
    assert to_other.payload.command_id == "c2"
    assert peer.messages.empty()
    assert respond(connection, to_other, "other", named=False)
    assert respond(connection, to_first, "first", named=False)
    to_second = await peer.received()
    assert to_second.payload.arguments == JsonPayload({"order_id": 2})
    assert respond(connection, to_second, "second", named=False)
    assert [read_value((await one).result) for one in (first, second, other)] == ["first", "second", "other"]


async def test_a_response_to_an_abandoned_command_is_not_that_of_the_next_one(connection, peer):
    abandoned = asyncio.create_task(connection.execute(command(order_id=1)))
    to_abandoned = await peer.received()
    abandoned.cancel()
    with pytest.raises(asyncio.CancelledError):
        await abandoned
    cancelled = (await peer.received()).payload
    assert cancelled.command_name == CANCEL_COMMAND
    assert read_value(cancelled.arguments) == {"command_id": "c1", "message_id": to_abandoned.message_id}
    following = asyncio.create_task(connection.execute(command(order_id=2)))
    await asyncio.sleep(0)
    assert peer.messages.empty()
    assert respond(connection, to_abandoned, "late", named=False)
    to_following = await peer.received()
    assert respond(connection, to_following, "own", named=False)
    assert read_value((await following).result) == "own"


async def test_its_end_fails_open_and_waiting_commands(connection, peer):
    connection.register(["get_order_status"], max_commands=1)
    running = asyncio.create_task(connection.execute(command()))
    await peer.received()
    waiting = asyncio.create_task(connection.execute(command("c2")))
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(UpstreamUnreachable) as caught:
        await running
    assert caught.value.request_sent
    with pytest.raises(CommandNotSent):
        await waiting
    with pytest.raises(CommandNotSent):
        await connection.execute(command("c3"))


async def test_commands_wait_while_the_executor_takes_no_more(connection, peer):
    connection.register(["get_order_status"], max_commands=2)
    running = [asyncio.create_task(connection.execute(command(f"c{number}"))) for number in range(3)]
    first, second = await peer.received(), await peer.received()
    assert peer.messages.empty()
    assert connection.described("w").open_commands == 3
    assert connection.load == 1.5
    running[2].cancel()
    await asyncio.gather(running[2], return_exceptions=True)
    assert connection.load == 1.0
    replacing = asyncio.create_task(connection.execute(command("c4")))
    respond(connection, first, "1")
    assert (await peer.received()).payload.command_id == "c4"
    connection.close()
    await asyncio.gather(*running, replacing, return_exceptions=True)
    assert second.payload.command_id == "c1"


async def test_a_held_connection_sends_commands_once_it_is_released(connection, peer):
    connection.hold()
    running = [asyncio.create_task(connection.execute(command(f"c{number}"))) for number in range(2)]
    await asyncio.sleep(0)
    assert peer.messages.empty()
    assert connection.described("w").open_commands == 2
    connection.release()
    for number in range(2):
        message = await peer.received()
        assert message.payload.command_id == f"c{number}"
        respond(connection, message, "Shipped")
    await asyncio.gather(*running)


async def test_the_end_of_a_held_connection_fails_what_waits_for_it(connection):
    connection.hold()
    waiting = asyncio.create_task(connection.execute(command()))
    await asyncio.sleep(0)
    connection.close()
    with pytest.raises(CommandNotSent):
        await waiting


async def test_progress_reaches_who_waits(connection, peer):
    seen: list[Event] = []
    running = asyncio.create_task(connection.execute(command(), seen.append))
    message = await peer.received()
    event = Event("command.progress", JsonPayload({"progress": 1}))
    assert connection.receive(Message("e", event, {REPLY_TO: message.message_id}))
    assert not connection.receive(Message("e", event, {REPLY_TO: "unknown"}))
    respond(connection, message, "Shipped")
    await running
    assert seen == [event]


async def test_a_response_that_nobody_waits_for_is_dropped(connection):
    result = CommandResult("c9", Status.SUCCESS)
    assert not connection.receive(Message("r", result, {REPLY_TO: "m"}))
    assert not connection.receive(Message("r", result))


async def test_a_connection_that_breaks_before_anything_was_sent_has_not_received_the_command(
    connection, peer
):
    peer.is_connected = False
    with pytest.raises(CommandNotSent):
        await connection.execute(command())
    assert connection.is_closed


async def test_a_connection_that_breaks_while_sending_may_have_received_the_command(connection, peer):
    peer.breaks = asyncio.Event()
    peer.breaks.set()
    with pytest.raises(ExecutorDisconnected) as caught:
        await connection.execute(command())
    assert caught.value.request_sent
    assert connection.is_closed


async def test_a_response_counts_although_the_connection_breaks_while_its_command_is_sent(connection, peer):
    peer.breaks = asyncio.Event()
    running = asyncio.create_task(connection.execute(command()))
    assert respond(connection, await peer.received(), "Shipped")
    peer.breaks.set()
    assert read_value((await running).result) == "Shipped"
    assert connection.is_closed


async def test_a_command_that_may_have_arrived_is_sent_to_no_other_executor():
    router = CommandRouter()
    peers = [Peer(), Peer()]
    for peer in peers:
        one = ExecutorConnection(peer, tenant_id=TENANT, executor="orders", key_id="k")
        one.register(["get_order_status"])
        router.add(one)
    peers[0].breaks = asyncio.Event()
    peers[0].breaks.set()
    deadline = asyncio.get_running_loop().time() + 10
    with pytest.raises(ExecutorDisconnected):
        await router.execute(ORDERS, command(), deadline=deadline)
    assert peers[0].messages.qsize() == 1
    assert peers[1].messages.empty()
    await router.aclose()


async def test_the_router_takes_the_least_busy_and_replaces_one_that_breaks():
    router = CommandRouter()
    peers = [Peer(), Peer()]
    connections = [
        ExecutorConnection(peer, tenant_id=TENANT, executor="orders", key_id="k") for peer in peers
    ]
    for one in connections:
        one.register(["get_order_status"], names_envelopes=True)
        router.add(one)
    deadline = asyncio.get_running_loop().time() + 10
    first = asyncio.create_task(router.execute(ORDERS, command("c1"), deadline=deadline))
    second = asyncio.create_task(router.execute(ORDERS, command("c2"), deadline=deadline))
    sent = [await peer.received() for peer in peers]
    assert {message.payload.command_id for message in sent} == {"c1", "c2"}
    for one, message in zip(connections, sent, strict=True):
        respond(one, message, "done")
    await asyncio.gather(first, second)
    peers[0].is_connected = False
    third = asyncio.create_task(router.execute(ORDERS, command("c3"), deadline=deadline))
    respond(connections[1], await peers[1].received(), "done")
    assert (await third).status is Status.SUCCESS
    with pytest.raises(CommandNotSent, match=r"No executor of orders is connected"):
        await router.execute(Capability(TENANT, "orders", "other"), command(), deadline=deadline)
    with pytest.raises(CommandNotSent):
        await router.execute(Capability(uuid4(), "orders", "get_order_status"), command(), deadline=deadline)
    with pytest.raises(UpstreamTimeout):
        await router.execute(ORDERS, command(), deadline=asyncio.get_running_loop().time() + 0.02)
    assert (await peers[1].received()).payload.command_name == "get_order_status"
    assert (await peers[1].received()).payload.command_name == CANCEL_COMMAND
    await router.aclose()
