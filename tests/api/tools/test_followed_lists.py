"""A list and its stream have every record, whenever it is written: calls, changes, and the console's pages of both."""

import asyncio
import html
import random
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from uuid import UUID

from app.access.events import record_event
from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import CallLogEntry
from app.calls.log.store import insert_statement, records_json
from app.core.uuid7 import uuid7
from app.storage.database import Database
from app.storage.models import TENANT

SEED = 25
LISTS = 8
BATCHES = (32, 31, 31, 31)
"""How many records are written after each list, 1,000 in total. An update of the console has at most 50 rows: the
next batch follows when all of one have been delivered."""
LISTED = 5
LISTS_AT_A_TIME = 3
SECONDS = 120


async def write_calls(database, names, series):
    """Store calls as a worker does."""
    log = BatchCallLog(database)
    for name in names:
        log.record(call(name, series))
    assert await log.flush()


@asynccontextmanager
async def uncommitted_calls(database, names, series):
    """Store calls that are committed at the end of the block."""
    async with database.transaction() as session:
        connection = await session.connection()
        entries = [call(name, series) for name in names]
        await connection.exec_driver_sql(insert_statement(), (records_json(entries),))
        yield


def call(name, series):
    return CallLogEntry(
        id=UUID(name), at=datetime.now(UTC), tenant_id=TENANT, key_id="k", provider="site", tool=series,
        outcome="ok", status=200, duration_ms=5.0,
    )  # fmt: skip


@asynccontextmanager
async def uncommitted_changes(database, names, series):
    """Record changes that are committed at the end of the block."""
    async with database.transaction() as session:
        for name in names:
            await record_event(
                session, actor=series, action="updated", object_type="variable", object_name=name
            )
        yield


async def write_changes(database, names, series):
    async with uncommitted_changes(database, names, series):
        pass


KINDS = {
    "calls": (("/calls", "/console/calls"), "tool", write_calls, uncommitted_calls),
    "changes": (("/events", "/console/changes"), "actor", write_changes, uncommitted_changes),
}
STREAMS = {"/calls": "/calls/stream", "/events": "/changes/stream"}
NAME = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{8}feed\b")
"""The id of a call, or the name of what has changed: the changes themselves have other ids."""


def new_name():
    return str(UUID(int=uuid7().int & ~0xFFFF | 0xFEED))


async def read_list(client, path, query):
    """Return the names in a list, and the request that follows it."""
    if path in STREAMS:
        response = await client.get(path, params=query)
        assert response.status_code == 200, response.text
        found = response.json()
        follow = {"url": STREAMS[path], "params": query, "headers": {"Last-Event-ID": found["position"]}}
        return set(NAME.findall(str(found["items"]))), follow
    response = await client.get(path, params={**query, "follow": "1"})
    assert response.status_code == 200, response.text
    text = response.text
    rows = text[text.index("<tbody") :]
    source = html.unescape(re.search(r'<live-tail src="([^"]*)"', text)[1])
    return set(NAME.findall(rows)), {"url": source}


class Reader:
    """Reads a stream, without the records that are known; `delivered` has the others, each once."""

    def __init__(self, known):
        self._known = set(known)
        self._arrived = asyncio.Event()
        self.delivered = []

    async def follow(self, client, request, *, number):
        """Read until so many records have been delivered."""
        async with client.stream("GET", **request) as response:
            assert response.status_code == 200
            async for line in response.aiter_lines():
                assert "gateway-error" not in line
                assert "left-out" not in line
                new = set(NAME.findall(line)) - self._known
                self._known |= new
                self.delivered += new
                self._arrived.set()
                if len(self.delivered) >= number:
                    return
        raise AssertionError(f"The stream ended after {len(self.delivered)} records.")

    async def wait(self, number):
        """Wait until so many records have been delivered."""
        while len(self.delivered) < number:
            self._arrived.clear()
            await self._arrived.wait()


async def write_at_any_moment(random_, databases, names, series, kind):
    """Write records in groups; some groups are committed only after later ones."""
    _, _, write, uncommitted = KINDS[kind]
    left = list(names)
    while left:
        await asyncio.sleep(random_.random() * 0.1)
        group, left = left[: (size := random_.randint(1, 12))], left[size:]
        if random_.random() < 0.4:
            later, left = left[: (size := random_.randint(1, 4))], left[size:]
            async with uncommitted(databases[0], group, series):
                await write(databases[1], later, series)
        else:
            await write(databases[1], group, series)


async def show_list_and_stream(client, databases, turns, kind, number):
    """Read a list by both interfaces, write records from then on, and follow both."""
    paths, column, write, _ = KINDS[kind]
    random_ = random.Random(f"{SEED} {kind} {number}")
    series = f"site.{kind}{number}"
    listed, *batches = [[new_name() for _ in range(size)] for size in (LISTED, *BATCHES)]
    await write(databases[1], listed, series)
    async with turns:
        lists = [await read_list(client, path, {column: series}) for path in paths]
    readers = [Reader(names) for names, _ in lists]

    async def follow(reader, request):
        await asyncio.sleep(random_.random() * 0.2)
        await reader.follow(client, request, number=sum(BATCHES))

    async with asyncio.TaskGroup() as tasks:
        for reader, (names, request) in zip(readers, lists, strict=True):
            assert names == set(listed)
            tasks.create_task(follow(reader, request))
        written = 0
        for batch in batches:
            await write_at_any_moment(random_, databases, batch, series, kind)
            written += len(batch)
            for reader in readers:
                await reader.wait(written)
    for reader in readers:
        assert sorted(reader.delivered) == sorted(name for batch in batches for name in batch)


async def test_each_of_a_thousand_records_is_in_a_list_or_in_the_stream_that_follows_it(api):
    client = await api.application.client("calls:read", seconds=SECONDS)
    databases = (Database(api.services.database.dsn), Database(api.services.database.dsn))
    turns = asyncio.Semaphore(LISTS_AT_A_TIME)
    try:
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as tasks:
            for number in range(LISTS):
                for kind in KINDS:
                    tasks.create_task(show_list_and_stream(client, databases, turns, kind, number))
    finally:
        for database in databases:
            await database.aclose()
