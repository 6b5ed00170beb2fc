"""The pool never opens more than it may, loses no place, and gives connections back to who waited longest."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from app.outbound.http1.connection import Http1Connection
from app.outbound.http1.pool import KEEP_ALIVE_SECONDS, REUSE_DELAY_SECONDS, ConnectionPool, PoolKey
from tests.unit.outbound.http1.test_connection import OK, Wire, hear


class Upstream:
    """Counts what is opened; `refuse` makes the next dial fail."""

    def __init__(self) -> None:
        self.opened = 0
        self.refuse = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def dial(self, make: Callable[[], Http1Connection]) -> Http1Connection:
        await self.gate.wait()
        if self.refuse:
            raise OSError("refused")
        self.opened += 1
        connection = make()
        Wire(connection)
        return connection


def key(origin: str, scope: bytes = b"one") -> PoolKey:
    return (origin, b"", scope)


def finish(connection: Http1Connection) -> None:
    connection.send(b"", None)
    hear(connection, OK)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_freed_connection_is_used_again_and_an_old_one_is_not() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0),
        Upstream(),
    )
    connection = await pool.acquire(key("a"), upstream.dial)
    assert pool.take_idle(key("a"), now()) is None
    finish(connection)
    assert pool.idle == 1
    assert pool.take_idle(key("b"), now()) is None
    assert pool.take_idle(key("a"), now()) is connection
    finish(connection)
    assert pool.take_idle(key("a"), now() + KEEP_ALIVE_SECONDS) is None
    assert (pool.open, pool.idle) == (0, 0)
    pool.close()


async def test_waiting_is_first_come_first_served_and_bounded_per_origin() -> None:
    pool, upstream = ConnectionPool(max_connections=10, max_connections_per_origin=1, probation=0), Upstream()
    first = await pool.acquire(key("a"), upstream.dial)
    order: list[int] = []

    async def wait(number: int) -> None:
        connection = await pool.acquire(key("a"), upstream.dial)
        order.append(number)
        finish(connection)

    waiting = [asyncio.create_task(wait(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert pool.waiting == 5
    other = await pool.acquire(key("b"), upstream.dial)
    finish(first)
    await asyncio.gather(*waiting)
    assert order == [0, 1, 2, 3, 4]
    assert upstream.opened == 2
    finish(other)
    pool.close()


@pytest.mark.parametrize("turn", ["before", "after"])
async def test_cancelled_waiter_releases_its_turn(turn: str) -> None:
    pool, upstream = ConnectionPool(max_connections=10, max_connections_per_origin=1, probation=0), Upstream()
    first = await pool.acquire(key("a"), upstream.dial)
    leaver = asyncio.create_task(pool.acquire(key("a"), upstream.dial))
    stayer = asyncio.create_task(pool.acquire(key("a"), upstream.dial))
    await asyncio.sleep(0)
    if turn == "before":
        leaver.cancel()
    finish(first)
    leaver.cancel()
    got = await stayer
    assert got is first
    with pytest.raises(asyncio.CancelledError):
        await leaver
    assert pool.open == 1
    pool.close()


async def test_failed_or_cancelled_dial_frees_its_room() -> None:
    pool, upstream = ConnectionPool(max_connections=1, max_connections_per_origin=1, probation=0), Upstream()
    upstream.refuse = True
    with pytest.raises(OSError, match="refused"):
        await pool.acquire(key("a"), upstream.dial)
    upstream.gate.clear()
    dialling = asyncio.create_task(pool.acquire(key("a"), upstream.dial))
    await asyncio.sleep(0)
    assert pool.open == 1
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    assert pool.open == 0
    upstream.gate.set()
    upstream.refuse = False
    assert (await pool.acquire(key("a"), upstream.dial)).usable
    pool.close()


async def test_full_pool_closes_the_longest_idle_connection_of_another_origin() -> None:
    pool, upstream = ConnectionPool(max_connections=2, max_connections_per_origin=2, probation=0), Upstream()
    old, young = await pool.acquire(key("a"), upstream.dial), await pool.acquire(key("b"), upstream.dial)
    finish(old)
    await asyncio.sleep(0.01)
    finish(young)
    await pool.acquire(key("c"), upstream.dial)
    assert not old.usable
    assert young.usable
    assert pool.open == 2
    pool.close()
    assert pool.open == 0


async def test_waiter_for_the_whole_pool_is_woken_by_another_origin() -> None:
    pool, upstream = ConnectionPool(max_connections=1, max_connections_per_origin=1, probation=0), Upstream()
    first = await pool.acquire(key("a"), upstream.dial)
    waiting = asyncio.create_task(pool.acquire(key("b"), upstream.dial))
    await asyncio.sleep(0)
    first.abort()
    assert (await waiting).usable
    finish(await_free := waiting.result())
    other = asyncio.create_task(pool.acquire(key("c"), upstream.dial))
    assert (await other).usable
    assert not await_free.usable
    pool.close()


async def test_connection_returned_to_a_full_pool_makes_room_for_another_origin() -> None:
    pool, upstream = ConnectionPool(max_connections=1, max_connections_per_origin=1, probation=0), Upstream()
    first = await pool.acquire(key("a"), upstream.dial)
    waiting = asyncio.create_task(pool.acquire(key("b"), upstream.dial))
    await asyncio.sleep(0)
    finish(first)
    assert (await waiting).usable
    pool.close()


async def test_cancelled_waiter_passes_its_turn_to_another_origin() -> None:
    pool, upstream = ConnectionPool(max_connections=1, max_connections_per_origin=1, probation=0), Upstream()
    first = await pool.acquire(key("a"), upstream.dial)
    leaver = asyncio.create_task(pool.acquire(key("a"), upstream.dial))
    stayer = asyncio.create_task(pool.acquire(key("b"), upstream.dial))
    await asyncio.sleep(0)
    finish(first)
    leaver.cancel()
    assert (await stayer).usable
    with pytest.raises(asyncio.CancelledError):
        await leaver
    pool.close()


async def test_idle_connections_are_closed_by_themselves() -> None:
    limits = {"max_connections": 2, "max_connections_per_origin": 2}
    pool, upstream = ConnectionPool(**limits, probation=0, keep_alive=0.05), Upstream()
    finish(await pool.acquire(key("a"), upstream.dial))
    await asyncio.sleep(0.2)
    assert (pool.open, pool.idle) == (0, 0)
    pool.close()


async def test_connections_belong_to_a_scope() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0),
        Upstream(),
    )
    connection = await pool.acquire(key("a", b"one"), upstream.dial)
    finish(connection)
    assert pool.take_idle(key("a", b"two"), now()) is None
    assert pool.take_idle(key("a", b"one"), now()) is connection
    pool.close()


async def test_a_connection_without_a_scope_is_used_once() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0),
        Upstream(),
    )
    connection = await pool.acquire(key("a", b""), upstream.dial, new_only=True)
    finish(connection)
    assert (pool.open, pool.idle, connection.usable) == (0, 0, False)
    assert pool.take_idle(key("a", b""), now()) is None
    pool.close()


async def test_an_origin_is_bounded_over_all_of_its_scopes_and_gives_way_to_the_one_that_waits() -> None:
    pool, upstream = ConnectionPool(max_connections=10, max_connections_per_origin=2, probation=0), Upstream()
    first, second = (
        await pool.acquire(key("a", b"one"), upstream.dial),
        await pool.acquire(key("a", b"two"), upstream.dial),
    )
    waiting = asyncio.create_task(pool.acquire(key("a", b"three"), upstream.dial))
    await asyncio.sleep(0)
    assert (pool.open, pool.waiting) == (2, 1)
    finish(first)
    third = await waiting
    assert (pool.open, first.usable, third.usable) == (2, False, True)
    finish(second)
    finish(third)
    fourth = await pool.acquire(key("a", b"four"), upstream.dial)
    assert (pool.open, second.usable, third.usable, fourth.usable) == (2, False, True, True)
    pool.close()


async def test_ten_thousand_scopes_hold_no_more_connections_than_the_pool_may() -> None:
    pool, upstream = ConnectionPool(max_connections=8, max_connections_per_origin=8, probation=0), Upstream()
    for number in range(10_000):
        finish(await pool.acquire(key("a", number.to_bytes(4, "big")), upstream.dial))
    assert (pool.open, pool.idle, len(pool._scope_pools)) == (8, 8, 8)
    pool.close()
    assert (pool.open, len(pool._scope_pools)) == (0, 0)


async def test_number_of_remembered_origins_is_bounded() -> None:
    limits = {"max_connections": 1, "max_connections_per_origin": 1}
    pool, upstream = ConnectionPool(**limits, max_origins=5), Upstream()
    for number in range(50):
        finish(await pool.acquire(key(f"o{number}"), upstream.dial))
    assert len(pool._origin_pools) == 5
    pool.close()


async def test_origin_on_probation_delays_reuse_and_is_then_trusted() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=1.0),
        Upstream(),
    )
    connection = await pool.acquire(key("a"), upstream.dial)
    began = now()
    connection.send(b"", b"{}")
    await asyncio.sleep(connection.body_delay + 0.05)
    hear(connection, OK)
    assert pool.idle == 1
    assert pool.take_idle(key("a"), began) is None
    assert pool.take_idle(key("a"), now() + REUSE_DELAY_SECONDS) is connection
    finish(connection)
    later = now() + 1.1
    assert pool.take_idle(key("a"), later) is connection
    assert connection.body_delay == 0
    pool.close()


async def test_unsolicited_bytes_end_all_reuse_of_the_origin_for_a_while() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0),
        Upstream(),
    )
    odd, other, scope = [await pool.acquire(key("a", scope), upstream.dial) for scope in (b"x", b"x", b"y")]
    elsewhere = await pool.acquire(key("b"), upstream.dial)
    for connection in (odd, scope, elsewhere):
        finish(connection)
    assert pool.idle == 3
    hear(odd, OK)
    assert (pool.idle, scope.usable, elsewhere.usable) == (1, False, True)
    finish(other)
    assert (pool.idle, other.usable) == (1, False)
    pool.close()


async def test_what_has_arrived_unread_keeps_a_connection_from_being_reused() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    pool = ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0)

    async def dial(make: Callable[[], Http1Connection]) -> Http1Connection:
        _, connection = await loop.create_connection(make, sock=ours)
        return connection

    connection = await pool.acquire(key("a"), dial)
    exchange = connection.send(b"x", None)
    theirs.send(OK)
    await exchange.head
    assert pool.idle == 1
    # The event loop has no chance to read this first.
    theirs.send(OK)
    assert connection.has_unread_data
    assert pool.take_idle(key("a"), now()) is None
    async with asyncio.timeout(5):
        while pool.open:  # noqa: ASYNC110 - the event loop reads, and nobody tells.
            await asyncio.sleep(0.001)
    assert connection.desynchronized
    theirs.close()
    pool.close()


async def test_requests_with_a_body_have_a_probation_of_their_own() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=60),
        Upstream(),
    )
    connection = await pool.acquire(key("a"), upstream.dial)
    finish(connection)
    trusted = now() + 61
    connection.idle_since = connection.reusable_from = trusted
    assert pool.take_idle(key("a"), trusted) is connection
    # Requests without a body say nothing about whether the upstream reads one.
    assert connection.body_delay > 0
    connection.send(b"", b"{}")
    await asyncio.sleep(connection.body_delay + 0.05)
    hear(connection, OK)
    assert connection.reusable_from > now()
    later = now() + 61
    connection.idle_since = connection.reusable_from = later
    assert pool.take_idle(key("a"), later) is connection
    assert connection.body_delay == 0
    pool.close()


async def test_probation_ends_where_the_upstream_closes_after_each_response() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=0.05),
        Upstream(),
    )
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
    held = []
    for _ in range(2):
        connection = await pool.acquire(key("a"), upstream.dial)
        held.append(connection.body_delay > 0)
        connection.send(b"", b"{}")
        hear(connection, closing)
        assert not connection.usable
        await asyncio.sleep(0.06)
    assert held == [True, False]
    pool.close()


async def test_an_interim_response_before_the_body_is_lawful() -> None:
    pool, upstream = (
        ConnectionPool(max_connections=10, max_connections_per_origin=10, probation=60),
        Upstream(),
    )
    other = await pool.acquire(key("a", b"two"), upstream.dial)
    finish(other)
    connection = await pool.acquire(key("a"), upstream.dial)
    assert connection.body_delay > 0
    connection.send(b"", b"{}")
    hear(connection, b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
    assert not connection.usable
    assert not connection.desynchronized
    assert other.usable
    pool.close()
