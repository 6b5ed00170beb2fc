"""Child processes end, also those that flood a pipe which nobody reads: on both event loops, and without a trace."""

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import orjson
import psutil
import pytest
import uvloop

from app.core.background import await_uncancelled
from app.core.errors import InvalidDocument, TooLarge
from app.core.processes import close_pipes, kill_group, run_child_process
from app.core.settings.programs import ProgramSettings
from app.openapi.process.client import ChildLimits, convert_in_child
from app.openapi.process.workers import ForkServer, WorkerStarter, start_worker
from app.protocols.shared.programs import ProgramCommand, ProgramRules, start_program
from tests.unit.openapi.conftest import document

pytestmark = pytest.mark.process

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ENDINGS = ("limit", "timeout", "cancellation", "error")
ROUNDS = 25
# Longer than any round on a busy machine takes, and far shorter than for ever.
SECONDS = 60
# The second process holds the pipes, too; neither reads its input.
FLOOD = "cat /dev/zero & exec cat /dev/zero"
LARGE = orjson.dumps(
    document(
        {f"/{i}": {"get": {"operationId": f"o{i}", "description": f"d{i} " * 200}} for i in range(1_500)}
    )
)

Read = Callable[[], Awaitable[bytes]]


@asynccontextmanager
async def flooding_child() -> AsyncIterator[tuple[int, Read]]:
    """A child process of `app.core.processes`, which never reads its input."""
    environment = {"PATH": os.defpath}
    async with run_child_process(
        "/bin/sh", "-c", FLOOD, env=environment, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(bytes(1 << 20))
        yield child.pid, functools.partial(child.stdout.read, 65_536)


@asynccontextmanager
async def flooding_program() -> AsyncIterator[tuple[int, Read]]:
    """A program of a tool, or of an MCP server."""
    order = ProgramCommand(("/bin/sh", "-c", FLOOD), {"PATH": os.defpath}, reads_input=True)
    running = await start_program(order, ProgramRules(ProgramSettings(_env_file=None)))
    writing = asyncio.create_task(running.write(bytes(1 << 20)))
    try:
        yield running._transport.get_pid(), running.read
    finally:
        running.kill()
        await await_uncancelled(asyncio.create_task(running.ended.wait()))
        await asyncio.gather(writing, return_exceptions=True)


async def use(
    flooding: Callable[[], contextlib.AbstractAsyncContextManager[tuple[int, Read]]],
    ending: str,
    seen: list[int],
) -> None:
    async with flooding() as (pid, read):
        seen.append(pid)
        total = 0
        while total < 200_000:
            total += len(await read())
        if ending == "limit":
            raise TooLarge("It says too much")
        if ending == "error":
            raise RuntimeError("a mistake")
        async with asyncio.timeout(0.01 if ending == "timeout" else None):
            await asyncio.Event().wait()


async def end_one(
    flooding: Callable[[], contextlib.AbstractAsyncContextManager[tuple[int, Read]]], ending: str
) -> int:
    seen: list[int] = []
    task = asyncio.create_task(use(flooding, ending, seen))
    if ending == "cancellation":
        while not seen:  # noqa: ASYNC110 - the child sets no event.
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.sleep(0)
        # And while it cleans up.
        task.cancel()
    done, _ = await asyncio.wait([task], timeout=SECONDS)
    assert done, f"still waiting for the end of the child after {SECONDS} s"
    if ending == "cancellation":
        assert task.cancelled()
    else:
        raised = {"limit": TooLarge, "timeout": TimeoutError, "error": RuntimeError}
        assert type(task.exception()) is raised[ending]
    return seen[0]


async def settled(descriptors: int) -> int:
    """The open file descriptors, once transports have had their turns to close theirs."""
    found = psutil.Process().num_fds()
    for _ in range(200):
        if found <= descriptors:
            break
        await asyncio.sleep(0.01)
        found = psutil.Process().num_fds()
    return found


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("flooding", [flooding_child, flooding_program])
def test_child_that_floods_its_output_is_ended(
    flooding: Callable[[], contextlib.AbstractAsyncContextManager[tuple[int, Read]]], ending: str, loop: str
) -> None:
    """With the others of its kind 200 times, and each time it is reaped and its descriptors are closed."""

    async def rounds() -> None:
        await end_one(flooding, ending)
        descriptors = psutil.Process().num_fds()
        for _ in range(ROUNDS):
            # A zombie has a process id, too.
            assert not psutil.pid_exists(await end_one(flooding, ending))
        assert await settled(descriptors) <= descriptors

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(rounds())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("forks", [False, True], ids=["new interpreter", "fork"])
def test_conversion_whose_output_is_not_read_is_ended(forks: bool, ending: str, loop: str) -> None:
    """As on a gateway: the limit of the response, of time, a request that is cancelled, a broken document."""

    async def convert(turn: int, start: WorkerStarter) -> None:
        limits = {
            "limit": ChildLimits(output_bytes=1_000 + 50_000 * turn),
            "timeout": ChildLimits(wall_seconds=0.05 + 0.1 * turn),
        }.get(ending, ChildLimits())
        task = asyncio.create_task(
            convert_in_child(LARGE[:-9] if ending == "error" else LARGE, limits=limits, start=start)
        )
        if ending == "cancellation":
            await asyncio.sleep(0.1 * turn)
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=SECONDS)
        assert done, f"still waiting for the end of the child after {SECONDS} s"
        if not task.cancelled():
            assert isinstance(task.exception(), TooLarge | InvalidDocument | None)

    async def rounds() -> None:
        # Gateways that other tests have started convert documents, too.
        others = {one.pid for one in psutil.Process().children(recursive=True)}
        server = ForkServer()
        if forks:
            await server.start()
        start = server.process if forks else start_worker
        await convert(0, start)
        descriptors = psutil.Process().num_fds()
        for turn in range(4):
            await convert(turn, start)
        assert await settled(descriptors) <= descriptors
        found = {one.pid for one in psutil.Process().children(recursive=True)} - others
        assert found == ({server.pid} if forks else set())
        await server.aclose()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(rounds())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_program_has_no_descriptor_of_the_gateway(loop: str) -> None:
    async def list_descriptors() -> list[bytes]:
        order = ProgramCommand(("/bin/ls", "/proc/self/fd"), {"PATH": os.defpath}, reads_input=True)
        running = await start_program(order, ProgramRules(ProgramSettings(_env_file=None)))
        output = b""
        while chunk := await running.read():
            output += chunk
        running.kill()
        await running.ended.wait()
        return output.split()

    inherited = os.pipe()
    try:
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            # The fourth is that of the list.
            assert runner.run(list_descriptors()) == [b"0", b"1", b"2", b"3"]
    finally:
        for descriptor in inherited:
            os.close(descriptor)


async def test_start_that_is_cancelled_leaves_no_process() -> None:
    before = {one.pid for one in psutil.Process().children()}

    async def flood() -> None:
        async with flooding_child():
            await asyncio.Event().wait()

    for turns in range(20):
        task = asyncio.create_task(flood())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task], timeout=SECONDS)
        assert task.cancelled()
        assert {one.pid for one in psutil.Process().children()} <= before


async def test_command_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        async with run_child_process("/nowhere/at-all", env={}):
            pytest.fail("it runs")


async def test_exit_code_and_output_of_child_that_ends_by_itself() -> None:
    async with run_child_process(
        "/bin/sh",
        "-c",
        "cat; echo bad >&2; exit 7",
        env={},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    ) as child:
        assert await child.communicate(b"said") == (b"said", b"bad\n")
        assert child.returncode == 7


async def test_input_held_by_a_process_of_another_group_is_closed() -> None:
    """It reads nothing and cannot be killed with the group: closing in good order would wait for it."""
    code = "import os, sys, time\nif os.fork(): time.sleep(60)\nos.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
    descriptors = psutil.Process().num_fds()
    async with asyncio.timeout(SECONDS):
        async with run_child_process(
            sys.executable, "-c", code, env={}, stdin=asyncio.subprocess.PIPE
        ) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(bytes(1 << 20))
            stranger = int(await child.stdout.readline())
    try:
        assert psutil.pid_exists(stranger)
        assert await settled(descriptors) <= descriptors
    finally:
        kill_group(stranger)


def test_killing_a_group_that_is_gone_is_no_error() -> None:
    with subprocess.Popen(["true"], start_new_session=True) as process:
        process.wait()
    kill_group(process.pid)


async def test_pipes_may_be_closed_twice() -> None:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.subprocess_exec(asyncio.SubprocessProtocol, "/bin/cat")
    close_pipes(transport)
    close_pipes(transport)
    transport.close()


async def test_completed_is_not_left_by_a_cancellation() -> None:
    go_on = asyncio.Event()
    work = asyncio.create_task(go_on.wait())
    waiting = asyncio.create_task(await_uncancelled(work))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert work.result() is True


async def test_completed_raises_what_the_task_raised() -> None:
    async def fail() -> None:
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        await await_uncancelled(asyncio.create_task(fail()))
