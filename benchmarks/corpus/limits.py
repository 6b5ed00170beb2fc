"""M17 and the hard part of M18: conversions in processes of their own.

`python -m benchmarks.corpus.limits digest|cost FILE...` prints a line of JSON for each file.
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

from app.openapi import ConvertOptions
from app.openapi.conversion.convert import convert
from benchmarks.corpus.assessment import digest
from benchmarks.corpus.download import ROOT, url_of

#: M18: seconds, and bytes beyond the parsed document, for the Microsoft Graph beta API.
GRAPH_SECONDS = 60
GRAPH_MEMORY = 2 * 2**30
_BATCH = 200


def _peak() -> int:
    """The peak resident memory of this process in bytes; `ru_maxrss` would include the parent's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def _run(command: str, files: Sequence[Path], *, hash_seed: str) -> list[Any]:
    results: list[Any] = []
    for start in range(0, len(files), _BATCH):
        program = [
            sys.executable,
            "-m",
            "benchmarks.corpus.limits",
            command,
            *map(str, files[start : start + _BATCH]),
        ]
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(program, capture_output=True, check=True, env=environment, cwd=ROOT)
        results.extend(json.loads(line) for line in done.stdout.splitlines())
    return results


def differing(files: Sequence[Path], seeds: tuple[str, str] = ("1", "4242")) -> list[str]:
    """M17: the documents whose tools differ between two hash seeds."""
    first, second = (_run("digest", files, hash_seed=seed) for seed in seeds)
    return [str(file) for file, one, other in zip(files, first, second, strict=True) if one != other]


Cost = tuple[float, float, int, int]


def cost(file: Path) -> Cost:
    """Seconds of CPU and of the clock, bytes beyond the parsed document, and tools of one conversion."""
    busy, elapsed, memory, tools = _run("cost", [file], hash_seed="0")[0]
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
