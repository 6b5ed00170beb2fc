"""M17 and the hard part of M18: conversions in processes of their own.

As a program (`python -m benchmarks.corpus.limits digest|cost FILE...`) it answers for the files it is given.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from app.openapi import ConvertOptions, convert
from benchmarks.corpus.download import ROOT, url_of
from benchmarks.corpus.judging import digest

#: M18: seconds, and bytes beyond the parsed document, for Microsoft Graph beta.
GRAPH_SECONDS = 60
GRAPH_MEMORY = 2 * 2**30
_BATCH = 200


def _peak() -> int:
    """The most memory that this program held, in bytes; `ru_maxrss` would count the parent's, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def _ask(order: str, files: Sequence[Path], *, hash_seed: str) -> list[Any]:
    answers: list[Any] = []
    for start in range(0, len(files), _BATCH):
        command = [
            sys.executable,
            "-m",
            "benchmarks.corpus.limits",
            order,
            *map(str, files[start : start + _BATCH]),
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(command, capture_output=True, check=True, env=environment, cwd=ROOT)
        answers.extend(json.loads(line) for line in done.stdout.splitlines())
    return answers


def differing(files: Sequence[Path], seeds: tuple[str, str] = ("1", "4242")) -> list[str]:
    """M17: the documents whose tools differ between two hash seeds."""
    first, second = (_ask("digest", files, hash_seed=seed) for seed in seeds)
    return [str(file) for file, one, other in zip(files, first, second, strict=True) if one != other]


Cost = tuple[float, float, int, int]


def cost(file: Path) -> Cost:
    """Seconds of CPU and of the clock, bytes beyond the parsed document, and tools of one conversion."""
    busy, elapsed, memory, tools = _ask("cost", [file], hash_seed="0")[0]
    return busy, elapsed, memory, tools


def _cost(path: Path) -> Cost:
    document = path.read_bytes()
    parsed = orjson.loads(document)
    before = _peak()
    del parsed
    start, began = time.perf_counter(), time.process_time()
    conversion = convert(document, options=ConvertOptions(url=url_of(path)))
    busy, elapsed = time.process_time() - began, time.perf_counter() - start
    return busy, elapsed, _peak() - before, len(conversion.tools)


def _digest(path: Path) -> str:
    return digest(convert(path.read_bytes(), options=ConvertOptions(url=url_of(path))))


if __name__ == "__main__":
    for name in sys.argv[2:]:
        print(json.dumps(_cost(Path(name)) if sys.argv[1] == "cost" else _digest(Path(name))), flush=True)
