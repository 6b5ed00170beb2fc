"""The child process: its limits, its end, what it is told, and that it answers like `convert`."""

import asyncio
import contextlib
import functools
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from app.core.errors import InvalidDocument, TooLarge
from app.formats.archive import DocumentLimits
from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.convert import convert
from app.openapi.process.client import ChildLimits, convert_in_child
from app.openapi.process.workers import ForkServer, WorkerStarter, start_worker
from tests.unit.openapi.conftest import document

pytestmark = pytest.mark.process

SAMPLES = Path(__file__).parents[3] / "openapi" / "samples"


@functools.cache
def write_long_document() -> bytes:
    """Return a document that takes seconds to convert."""
    operations = ({"get": {"operationId": f"o {i}", "description": f"d{i} " * 100}} for i in range(4_000))
    return orjson.dumps(document({f"/{i}/{{id}}": item for i, item in enumerate(operations)}))


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_CANARY", "canary-secret")


@pytest.fixture(params=["new interpreter", "fork"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[WorkerStarter]:
    if request.param == "new interpreter":
        yield start_worker
        return
    server = ForkServer()
    await server.start()
    yield server.process
    await server.aclose()
    assert server.pid is None


def children() -> list[int]:
    """The processes that convert: new interpreters, and forks of a fork server of this process."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command, parent = child.cmdline(), child.ppid()
            # A gateway that another test has started has a fork server, too.
            is_fork = parent != os.getpid() and psutil.Process(parent).ppid() == os.getpid()
            if "app.openapi.process.child" in command or (
                is_fork
                and "app.openapi.process.server" in command
                and command == psutil.Process(parent).cmdline()
            ):
                found.append(child.pid)
    return found


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; processes set no event."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def started() -> None:
    await until(children)


def process_limit(pid: int, name: str) -> str:
    text = Path(f"/proc/{pid}/limits").read_text()
    found = re.search(rf"^Max {name} +(\S+) ", text, re.MULTILINE)
    assert found is not None
    return found[1]


def open_sockets(pid: int) -> list[Path]:
    return [one for one in Path(f"/proc/{pid}/fd").iterdir() if "socket" in str(one.readlink())]


@pytest.mark.parametrize("name", ["petstore-2.0.json", "library-3.0.json", "parcels-3.1.yaml"])
async def test_it_returns_what_convert_returns(name: str, start: WorkerStarter) -> None:
    content = (SAMPLES / name).read_bytes()
    options = ConvertOptions(url="https://docs.example.com/a.json")
    assert await convert_in_child(content, start=start, options=options) == convert(content, options=options)


async def test_large_responses_come_whole(start: WorkerStarter) -> None:
    assert await convert_in_child(write_long_document(), start=start) == convert(write_long_document())


async def test_errors_come_as_the_same_errors(start: WorkerStarter) -> None:
    with pytest.raises(InvalidDocument) as refused:
        await convert_in_child(orjson.dumps(document([])), start=start)
    assert refused.value.errors[0].pointer == "/paths"
    with pytest.raises(TooLarge):
        await convert_in_child(
            write_long_document(), start=start, options=ConvertOptions(limits=DocumentLimits(operations=10))
        )
    with pytest.raises(TooLarge):
        await convert_in_child(
            write_long_document(), start=start, options=ConvertOptions(limits=DocumentLimits(size=10))
        )


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ChildLimits(wall_seconds=0.01), "0.01 seconds"),
        (ChildLimits(memory=150 * 2**20), "memory"),
        (ChildLimits(memory=220 * 2**20), "memory"),
        (ChildLimits(output_bytes=10_000), "too large together"),
    ],
)
async def test_limits_end_the_process(limits: ChildLimits, words: str, start: WorkerStarter) -> None:
    big = orjson.dumps(document({}, x=[["a"] * 10 for _ in range(200_000)]))
    with pytest.raises(TooLarge, match=words):
        await convert_in_child(
            big if "memory" in words else write_long_document(), start=start, limits=limits
        )
    assert children() == []


async def test_cpu_time_is_limited(start: WorkerStarter) -> None:
    endless = orjson.dumps(document({f"/{i}": {"get": {"operationId": "x" * 60}} for i in range(49_000)}))
    with pytest.raises(TooLarge, match="time"):
        await convert_in_child(endless, start=start, limits=ChildLimits(cpu_seconds=1))


async def test_a_cancelled_conversion_leaves_no_process_behind(start: WorkerStarter) -> None:
    task = asyncio.create_task(convert_in_child(write_long_document(), start=start))
    await started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []


async def test_the_event_loop_keeps_turning(start: WorkerStarter) -> None:
    longest = 0.0

    async def heart() -> None:
        nonlocal longest
        while True:
            # The loop's own CPU time: what else the machine does is not its fault.
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    beating = asyncio.create_task(heart())
    await convert_in_child(write_long_document(), start=start)
    beating.cancel()
    # In the loop itself it takes seconds.
    assert longest < 0.5


async def test_many_at_a_time(start: WorkerStarter) -> None:
    content = (SAMPLES / "petstore-2.0.json").read_bytes()
    made = await asyncio.gather(*(convert_in_child(content, start=start) for _ in range(6)))
    assert len({one.to_bytes() for one in made}) == 1


async def run_python(code: str, *arguments: str, seed: str = "random") -> bytes:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments,
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed},
    )  # fmt: skip
    answer, _ = await child.communicate()
    assert child.returncode == 0
    return answer


async def test_the_worker_imports_neither_frameworks_nor_network() -> None:
    code = "import sys, app.openapi.process.child; print(' '.join(sys.modules))"
    loaded = set((await run_python(code)).decode().split())
    assert not loaded & {
        "pydantic",
        "fastapi",
        "starlette",
        "sqlalchemy",
        "asyncio",
        "aiohttp",
        "ssl",
        "app.core.settings",
    }


async def test_the_same_bytes_for_every_hash_seed() -> None:
    code = (
        "import hashlib, sys; from pathlib import Path; from app.openapi import *\n"
        "for name in sys.argv[1:]:\n"
        "    made = convert(Path(name).read_bytes(), options=ConvertOptions(url='https://d.example/a'))\n"
        "    print(hashlib.sha256(made.to_bytes()).hexdigest())"
    )
    names = [str(path) for path in sorted(SAMPLES.iterdir()) if path.suffix in {".json", ".yaml"}]
    answers = {await run_python(code, *names, seed=seed) for seed in ("0", "1", "4711")}
    assert len(answers) == 1
    assert len(answers.pop().split()) == len(names) >= 3


async def test_no_secret_of_ours_reaches_the_child(canary: None, start: WorkerStarter) -> None:
    task = asyncio.create_task(convert_in_child(write_long_document(), start=start))
    await started()
    await asyncio.sleep(0.02)
    told = psutil.Process(children()[0]).environ()
    await task
    assert told
    assert "GATEWAY_CANARY" not in told


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_fork_has_its_own_limits_and_no_descriptor_of_another() -> None:
    server = ForkServer()
    await server.start()
    limits = ChildLimits(memory=3 * 2**30, cpu_seconds=77)
    tasks = [
        asyncio.create_task(convert_in_child(write_long_document(), limits=limits, start=server.process))
        for _ in range(2)
    ]
    await until(lambda: len(children()) == 2)
    await asyncio.sleep(0.05)
    for pid in children():
        assert len(open_sockets(pid)) == 1
        assert process_limit(pid, "address space") == str(3 * 2**30)
        assert process_limit(pid, "cpu time") == "77"
        assert process_limit(pid, "file size") == process_limit(pid, "core file size") == "0"
    assert server.pid is not None
    assert process_limit(server.pid, "file size") == process_limit(server.pid, "core file size") == "0"
    await asyncio.gather(*tasks)
    await server.aclose()


async def test_documents_do_not_share_a_process() -> None:
    server = ForkServer()
    await server.start()
    content = (SAMPLES / "petstore-2.0.json").read_bytes()
    seen = set()
    for _ in range(3):
        async with server.process() as process:
            await started()
            seen |= set(children())
            await convert_in_child(content, start=lambda: contextlib.nullcontext(process))
    assert len(seen) == 3
    assert children() == []
    await server.aclose()


async def test_fork_server_that_was_killed_is_replaced() -> None:
    server = ForkServer()
    await server.start()
    content = (SAMPLES / "petstore-2.0.json").read_bytes()
    killed = server.pid
    assert killed is not None
    psutil.Process(killed).kill()
    await until(lambda: not psutil.pid_exists(killed))
    assert await convert_in_child(content, start=server.process) == convert(content)
    await until(lambda: server.pid not in {None, killed})
    assert await convert_in_child(content, start=server.process) == convert(content)
    await server.aclose()


async def test_conversion_whose_fork_server_is_killed_fails_and_leaves_no_process() -> None:
    server = ForkServer()
    await server.start()
    task = asyncio.create_task(convert_in_child(write_long_document(), start=server.process))
    await started()
    assert server.pid is not None
    psutil.Process(server.pid).kill()
    with pytest.raises(TooLarge):
        await task
    await server.aclose()
    await until(lambda: not children())


async def test_fork_server_ends_with_the_gateway() -> None:
    code = (
        "import asyncio, os\nfrom app.openapi.process.workers import ForkServer\n"
        "async def main():\n    server = ForkServer()\n    await server.start()\n"
        "    print(server.pid, flush=True)\n    os.kill(os.getpid(), 9)\nasyncio.run(main())"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    pid = int(await child.stdout.readline())
    await child.wait()
    await until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_conversions_survive_the_way_through_json(converted: Callable[..., Any]) -> None:
    made: Conversion = converted({"/a/{b}": {"post": {"tags": ["x"], "security": [{"k": []}]}}})
    assert Conversion.from_json(orjson.loads(made.to_bytes())) == made
