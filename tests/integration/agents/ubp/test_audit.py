"""Audit events of executors: those of a loop of reconnections are counted, and none is lost."""

import asyncio
from contextlib import asynccontextmanager

from app.access.events import EventFilters, list_events
from app.agents.ubp.audit import OBJECT_TYPE, ConnectionAudit, ExecutorAudit
from app.protocols.command_routing import ExecutorConnection
from app.storage.database import Database
from app.storage.models import TENANT
from tests.harness.postgres_proxy import postgres_proxy

CONNECTIONS = 20


class Nowhere:
    """A transport that sends nothing."""

    async def send(self, message):
        """Accept a message."""


def connection(executor, key_id="key-1"):
    return ExecutorConnection(
        Nowhere(), tenant_id=TENANT, executor=executor, key_id=key_id, transport="websocket"
    )


async def stored(database, executor):
    """Return the actions of the events of an executor with how often each is repeated, the oldest first."""
    async with database.read_session() as session:
        page = await list_events(session, filters=EventFilters(object_type=OBJECT_TYPE, object_name=executor))
    return [(row.action, row.actor, row.detail.get("repeated")) for row in reversed(page.rows)]


async def until_stored(database, executor, count):
    while len(found := await stored(database, executor)) < count:  # noqa: ASYNC110 - written in the background
        await asyncio.sleep(0.01)
    return found


@asynccontextmanager
async def recording(database, **options):
    audit = ExecutorAudit(database, **options)
    try:
        yield audit, ConnectionAudit(audit, transport="websocket", address="192.0.2.1")
    finally:
        await audit.aclose()


async def test_repeated_events_are_counted_and_written_as_one(database):
    async with recording(database) as (_, events):
        for _ in range(CONNECTIONS):
            one = connection("looping")
            events.connected(one)
            events.disconnected(one, "lost")
        assert await until_stored(database, "looping", 2) == [
            ("connected", "key-1", None),
            ("disconnected", "key-1", None),
        ]
    assert (await stored(database, "looping"))[2:] == [
        ("connected", "key-1", CONNECTIONS - 1),
        ("disconnected", "key-1", CONNECTIONS - 1),
    ]


async def test_executors_and_keys_are_counted_for_themselves(database):
    async with recording(database) as (_, events):
        for executor, key_id in (("first", "key-1"), ("first", "key-2"), ("second", "key-1")):
            events.connected(connection(executor, key_id))
    assert await stored(database, "first") == [("connected", "key-1", None), ("connected", "key-2", None)]
    assert await stored(database, "second") == [("connected", "key-1", None)]


async def test_counted_events_are_written_at_the_end_of_their_time(database):
    async with recording(database, repeat_seconds=0.01) as (_, events):
        written = 0
        while written < 3:
            events.connected(connection("timed"))
            await asyncio.sleep(0)
            found = await stored(database, "timed")
            written = sum(repeated is not None for _, _, repeated in found)
    assert found[0] == ("connected", "key-1", None)


async def test_an_executor_that_stays_connected_is_forgotten(database):
    async with recording(database, repeat_seconds=0.01) as (audit, events):
        events.connected(connection("quiet"))
        while audit.counted:  # noqa: ASYNC110 - a timer of the event loop
            await asyncio.sleep(0.01)
    assert await stored(database, "quiet") == [("connected", "key-1", None)]


async def test_events_wait_while_postgresql_is_unavailable(database, database_url):
    with postgres_proxy(database_url) as proxy:
        proxy.is_open = False
        distant = Database(proxy.dsn, pool_size=1)
        try:
            async with recording(distant, retry_seconds=0.01) as (_, events):
                events.connected(connection("patient"))
                while not proxy.rejected:  # noqa: ASYNC110 - counted in another thread
                    await asyncio.sleep(0.01)
                assert await stored(database, "patient") == []
                proxy.is_open = True
                assert await until_stored(database, "patient", 1) == [("connected", "key-1", None)]
        finally:
            await distant.aclose()
