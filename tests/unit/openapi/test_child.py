"""The child process: its limits, its end, what it is told, and that it answers like `convert`."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from app.errors import InvalidDocument, TooLarge
from app.openapi import Conversion, ConvertOptions, DocumentLimits, convert
from app.openapi.child import ChildLimits, convert_in_child
from tests.unit.openapi.conftest import document

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).parents[3] / "openapi" / "samples"
LONG = orjson.dumps(
    document(
        {
            f"/{i}/{{id}}": {"get": {"operationId": f"o {i}", "description": f"d{i} " * 100}}
            for i in range(4_000)
        }
    )
)


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children() if "app.openapi.worker" in child.cmdline()]


async def started() -> None:
    for _ in range(2_000):
        if children():
            return
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("name", ["petstore-2.0.json", "library-3.0.json", "parcels-3.1.yaml"])
async def test_it_answers_like_convert(name: str) -> None:
    content = (SAMPLES / name).read_bytes()
    options = ConvertOptions(url="https://docs.example.com/a.json")
    assert await convert_in_child(content, options=options) == convert(content, options=options)


async def test_large_answers_come_whole() -> None:
    assert await convert_in_child(LONG) == convert(LONG)


async def test_errors_come_as_the_same_errors() -> None:
    with pytest.raises(InvalidDocument) as refused:
        await convert_in_child(orjson.dumps(document([])))
    assert refused.value.errors[0].pointer == "/paths"
    with pytest.raises(TooLarge):
        await convert_in_child(LONG, options=ConvertOptions(limits=DocumentLimits(operations=10)))
    with pytest.raises(TooLarge):
        await convert_in_child(LONG, options=ConvertOptions(limits=DocumentLimits(size=10)))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ChildLimits(wall_seconds=0.01), "0.01 seconds"),
        (ChildLimits(memory=150 * 2**20), "memory"),
        (ChildLimits(memory=220 * 2**20), "memory"),
        (ChildLimits(output_bytes=10_000), "too large together"),
    ],
)
async def test_limits_end_the_process(limits: ChildLimits, words: str) -> None:
    big = orjson.dumps(document({}, x=[["a"] * 10 for _ in range(200_000)]))
    with pytest.raises(TooLarge, match=words):
        await convert_in_child(big if "memory" in words else LONG, limits=limits)
    assert children() == []


async def test_cpu_time_is_limited() -> None:
    endless = orjson.dumps(document({f"/{i}": {"get": {"operationId": "x" * 60}} for i in range(49_000)}))
    with pytest.raises(TooLarge, match="time"):
        await convert_in_child(endless, limits=ChildLimits(cpu_seconds=1))


async def test_a_cancelled_conversion_leaves_no_process_behind() -> None:
    task = asyncio.create_task(convert_in_child(LONG))
    await started()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert children() == []


async def test_the_event_loop_keeps_turning() -> None:
    longest = 0.0

    async def heart() -> None:
        nonlocal longest
        while True:
            # The loop's own CPU time: what else the machine does is not its fault.
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - before)

    beating = asyncio.create_task(heart())
    await convert_in_child(LONG)
    beating.cancel()
    # In the loop itself it takes seconds.
    assert longest < 0.5


async def test_many_at_a_time() -> None:
    content = (SAMPLES / "petstore-2.0.json").read_bytes()
    made = await asyncio.gather(*(convert_in_child(content) for _ in range(6)))
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
    code = "import sys, app.openapi.worker; print(' '.join(sys.modules))"
    loaded = set((await run_python(code)).decode().split())
    assert not loaded & {
        "pydantic",
        "fastapi",
        "starlette",
        "sqlalchemy",
        "asyncio",
        "aiohttp",
        "ssl",
        "app.settings",
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


async def test_no_secret_of_ours_reaches_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_CANARY", "canary-secret")
    task = asyncio.create_task(convert_in_child(LONG))
    await started()
    await asyncio.sleep(0.02)
    told = psutil.Process(children()[0]).environ()
    await task
    assert told
    assert "GATEWAY_CANARY" not in told


def test_conversions_survive_the_way_through_json(converted: Callable[..., Any]) -> None:
    made: Conversion = converted({"/a/{b}": {"post": {"tags": ["x"], "security": [{"k": []}]}}})
    assert Conversion.from_json(orjson.loads(made.to_bytes())) == made
