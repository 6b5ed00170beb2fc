"""The spool mode: on the local disk before a call is made and before it is answered, in PostgreSQL later."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import pytest

from app.audit.calls import CallWriter
from app.audit.retention import maintain
from app.audit.spool import SpoolRecorder, decode, encode
from app.audit.spool_file import SpoolFile, left_behind, new_file
from app.database import Database
from app.errors import AuditUnavailable
from tests.unit.audit.test_calls import AWAY, entry, stored
from tests.unit.audit.test_strict import ended, intent, outcomes


@pytest.fixture
async def make(database, tmp_path):
    """Recorders on the test's folder; `away` is one without PostgreSQL."""
    await maintain(database, retention_days=30)
    opened = []

    async def make(*, away=False, most_bytes=1 << 20, drain_seconds=60.0):
        writer = CallWriter(Database(AWAY) if away else database, flush_seconds=60)
        recorder = SpoolRecorder(
            writer, folder=tmp_path / "spool", most_bytes=most_bytes, wait_seconds=5,
            drain_seconds=drain_seconds,
        )  # fmt: skip
        await recorder.start()
        opened.append(recorder)
        return recorder

    yield make
    for recorder in opened:
        if recorder._file is not None:
            await recorder.aclose()


def spooled(folder):
    """What lies in the files that nobody has open."""
    found = {}
    while (file := left_behind(folder, None)) is not None:
        for _, record in file.read(10_000):
            one = decode(record)
            found.setdefault(one.id, set()).add(one.outcome)
        file.remove()
    return found


def test_a_record_comes_back_as_it_was(call_id):
    whole = entry(
        attempts=2,
        safe=False,
        deadline=datetime.now(UTC),
        arguments=b"\x00\xff",
        result=b"",
        upstream_status=None,
    )
    assert decode(encode(whole)) == whole
    assert decode(encode(entry(tool="\ud800"))).tool == "?"
    driver = asyncpg.pgproto.pgproto.UUID(str(whole.tenant_id))
    assert decode(encode(replace(whole, tenant_id=driver))) == whole
    newer = encode(whole)[:-1] + b',"added_later":1}'
    assert decode(newer) == whole


async def test_a_call_is_in_the_file_before_it_is_made_and_in_postgres_later(make, database, tmp_path):
    recorder = await make()
    begun = intent()
    await recorder.intend(begun)
    assert await outcomes(database) == {}
    waiting = recorder.record(ended(begun))
    await recorder.kept(waiting)
    assert waiting.result() is True
    safe = entry(safe=True)
    await recorder.kept(recorder.record(safe))
    assert await recorder.flush()
    assert await outcomes(database) == {begun.id: "ok", safe.id: "ok"}
    await recorder.aclose()
    assert list((tmp_path / "spool").glob("*.spool*")) == []


async def test_records_come_to_postgres_in_the_background(make, database):
    recorder = await make(drain_seconds=0.02)
    one = entry()
    await recorder.kept(recorder.record(one))
    async with asyncio.timeout(10):
        while await outcomes(database) != {one.id: "ok"}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert len(recorder) == 0


async def test_without_postgres_nothing_is_lost_and_the_next_start_stores_it(make, database, tmp_path):
    recorder = await make(away=True)
    begun, unfinished, safe = intent(), intent(), entry(safe=True)
    await asyncio.gather(recorder.intend(begun), recorder.intend(unfinished))
    await recorder.kept(recorder.record(ended(begun)))
    await recorder.kept(recorder.record(safe))
    await recorder.aclose()
    (left,) = (tmp_path / "spool").glob("*.spool")
    assert left.stat().st_mode & 0o777 == 0o600
    again = await make()
    async with asyncio.timeout(10):
        while left.exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert await outcomes(database) == {begun.id: "ok", unfinished.id: "running", safe.id: "ok"}
    await again.aclose()


async def test_a_file_that_is_in_use_is_left_alone(make, tmp_path):
    first = await make(away=True)
    one = entry()
    await first.kept(first.record(one))
    assert left_behind(tmp_path / "spool", None) is None
    await first.aclose()
    assert spooled(tmp_path / "spool") == {one.id: {"ok"}}


async def test_a_full_spool_refuses_calls_with_effects_only(make, tmp_path):
    recorder = await make(away=True, most_bytes=1 << 20)
    kept, refused = [], None
    while refused is None and len(kept) < 2_000:
        one = intent(arguments=b"x" * 4096)
        try:
            await recorder.intend(one)
            kept.append(one.id)
        except AuditUnavailable as error:
            refused = error
    assert refused is not None
    assert len(kept) > 50
    # Records of calls that are over go on, in memory.
    waiting = recorder.record(ended(one))
    await recorder.kept(waiting)
    assert waiting.result() is False
    assert len(recorder._writer) == 1
    await recorder.aclose()
    assert set(spooled(tmp_path / "spool")) == set(kept)


async def test_after_room_was_made_calls_are_accepted_again(make, database):
    recorder = await make(most_bytes=1 << 20)
    big = [intent(arguments=b"x" * 4096) for _ in range(400)]
    results = await asyncio.gather(*(recorder.intend(one) for one in big), return_exceptions=True)
    assert any(isinstance(result, AuditUnavailable) for result in results)
    assert await recorder.flush()
    last = intent()
    await recorder.intend(last)
    assert await recorder.flush()
    assert last.id in await outcomes(database)


def test_a_torn_end_loses_nothing_that_was_committed(tmp_path):
    file = new_file(tmp_path, most_bytes=1 << 20)
    for number in range(20):
        file.append([f"record {number}".encode()])
    log = Path(f"{file.path}-wal")
    whole = log.read_bytes()
    copy = tmp_path / "copies"
    copy.mkdir()
    for cut in (1, 100, 4095, 4096, 9000):
        torn = copy / f"torn-{cut}.spool"
        torn.write_bytes(file.path.read_bytes())
        Path(f"{torn}-wal").write_bytes(whole[:-cut] + b"\xa5" * (cut // 2))
        opened = SpoolFile(torn)
        records = [record.decode() for _, record in opened.read(100)]
        assert records == [f"record {number}" for number in range(len(records))]
        assert len(records) >= 20 - 1 - cut // 4096 * 2
        opened.remove()
    file.remove()


def test_a_file_that_is_no_spool_is_put_aside(tmp_path):
    (tmp_path / "odd.spool").write_bytes(b"no database at all" * 1000)
    good = new_file(tmp_path, most_bytes=1 << 20)
    good.append([b"x"])
    good.close()
    found = left_behind(tmp_path, None)
    assert found is not None
    assert found.path == good.path
    found.remove()
    assert left_behind(tmp_path, None) is None
    assert (tmp_path / "odd.spool.damaged").exists()


async def test_a_failing_disk_is_told_and_a_new_file_is_begun(make, tmp_path):
    recorder = await make(away=True)
    first = recorder._file.path
    # As a disk that fails does: the connection is good for nothing any more.
    recorder._file._connection.execute("DROP TABLE records")
    with pytest.raises(AuditUnavailable):
        await recorder.intend(intent())
    one = intent()
    await recorder.intend(one)
    assert recorder._file.path != first
    await recorder.aclose()
    assert set(spooled(tmp_path / "spool")) == {one.id}


def test_concurrent_calls_share_a_sync(tmp_path):
    async def run():
        recorder = SpoolRecorder(
            CallWriter(Database(AWAY)), folder=tmp_path, most_bytes=64 << 20, wait_seconds=5, drain_seconds=60
        )
        await recorder.start()
        commits = []
        recorder._file._connection.set_trace_callback(
            lambda statement: commits.append(statement) if statement == "COMMIT" else None
        )
        await asyncio.gather(*(recorder.intend(intent()) for _ in range(500)))
        recorder._file._connection.set_trace_callback(None)
        await recorder.aclose()
        return len(commits)

    assert asyncio.run(run()) < 50


_CHILD = """
import asyncio, sys
from pathlib import Path
from app.audit.calls import CallWriter
from app.audit.spool import SpoolRecorder
from app.database import Database
from tests.unit.audit.test_calls import AWAY
from tests.unit.audit.test_strict import ended, intent

async def caller(recorder):
    while True:
        begun = intent()
        await recorder.intend(begun)
        print("made", begun.id, flush=True)
        await recorder.kept(recorder.record(ended(begun)))
        print("answered", begun.id, flush=True)

async def run():
    recorder = SpoolRecorder(
        CallWriter(Database(AWAY)), folder=Path(sys.argv[1]), most_bytes=64 << 20, wait_seconds=30, drain_seconds=0.05
    )
    await recorder.start()
    await asyncio.gather(*(caller(recorder) for _ in range(8)))

asyncio.run(run())
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_process_killed_at_any_moment_has_recorded_what_it_did(tmp_path, seed, repository_root):
    dice = random.Random(seed)
    process = subprocess.Popen(
        [sys.executable, "-c", _CHILD, str(tmp_path / "spool")],
        stdout=subprocess.PIPE, cwd=repository_root, env={**os.environ, "PYTHONPATH": str(repository_root)},
    )  # fmt: skip
    lines = []
    for line in process.stdout:
        lines.append(line.decode().split())
        if len(lines) >= dice.randrange(50, 400):
            process.send_signal(signal.SIGKILL)
            break
    lines += [line.decode().split() for line in process.stdout]
    process.wait()
    process.stdout.close()
    recorded = {str(call): names for call, names in spooled(tmp_path / "spool").items()}
    complete = [words for words in lines if len(words) == 2 and len(words[1]) == 36]
    assert len(complete) >= 50
    for what, call in complete:
        assert "running" in recorded[call]
        if what == "answered":
            assert "ok" in recorded[call]


def test_sqlite_errors_that_are_not_about_use_do_not_stop_the_others(tmp_path):
    """A folder in place of a file cannot be opened, and is passed over."""
    (tmp_path / "a.spool").mkdir()
    good = new_file(tmp_path, most_bytes=1 << 20)
    good.append([b"x"])
    good.close()
    found = left_behind(tmp_path, None)
    assert found is not None
    assert found.read(5) == [(1, b"x")]
    found.remove()
    with pytest.raises(sqlite3.Error):
        SpoolFile(tmp_path / "a.spool")


async def test_records_that_cannot_be_read_are_counted_and_lose_no_other(make, database):
    recorder = await make()
    one = entry()
    await recorder.kept(recorder.record(one))
    recorder._file.append([b"{}", b"not json"])
    assert await recorder.flush()
    assert {row.id for row in await stored(database)} == {one.id}
    assert recorder._writer.lost == 2
