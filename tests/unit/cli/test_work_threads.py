"""A thread that still works keeps neither the event loop nor the process from ending."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys, threading, time
from app.cli.work_threads import WorkThreads, end_within

async def work():
    asyncio.get_running_loop().set_default_executor(WorkThreads())
    began = threading.Event()

    def endless():
        began.set()
        time.sleep(600)

    running = asyncio.ensure_future(asyncio.to_thread(endless))
    while not began.is_set():
        await asyncio.sleep(0.01)
    running.cancel()

with asyncio.Runner(loop_factory=LOOP) as runner:
    runner.run(work())
print("the loop has ended", flush=True)
end_within(0.5, 7)
sys.exit(7)
"""


@pytest.mark.process
@pytest.mark.parametrize("loop", ["asyncio.new_event_loop", "__import__('uvloop').new_event_loop"])
def test_a_process_ends_while_a_thread_works(loop: str) -> None:
    program = PROGRAM.replace("LOOP", loop)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (7, b"the loop has ended\n"), ended.stderr
