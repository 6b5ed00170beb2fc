"""The figures of all workers of one `serve`: each publishes its own to a folder, any of them reads all.

    folder/<slot>.lock     held by the worker of this slot for as long as it lives, however it ends
    folder/<slot>.json     what it has last published, with the moment of its birth
    folder/retired.json    the counters of workers whose slot another has taken
    folder/folder.lock     held while somebody reads all, or takes a slot

The kernel lets go of a lock when its process ends, so that a dead worker is known without asking for process
ids, which are given again. Its counters stay counted; its gauges are forgotten at once.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from app.telemetry.families import Number, Sample, Value, family

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_MAX_WORKERS = 1_024

Published = list[tuple[str, tuple[str, ...] | list[str], Value]]
"""Samples with the names of their families, as JSON holds them."""


class Merged:
    """Samples of several workers, put together."""

    def __init__(self) -> None:
        self._series: dict[str, dict[tuple[str, ...], Value]] = {}

    def add(self, published: Published, *, alive: bool = True) -> None:
        """Add what one worker published; of one that has ended only what outlives it."""
        for name, labels, value in published:
            known = family(name)
            if known is None or not (alive or known.outlives):
                continue
            series = self._series.setdefault(name, {})
            key = tuple(labels)
            before = series.get(key)
            series[key] = value if before is None else _merge(known.merge, before, value)

    def samples(self) -> Iterator[Sample]:
        """Everything, by family."""
        for name, series in self._series.items():
            known = family(name)
            if known is not None:
                for labels, value in series.items():
                    yield known, labels, value

    def published(self) -> Published:
        """Everything, as it is stored."""
        return [(known.name, labels, value) for known, labels, value in self.samples()]


class Folder:
    """A worker's place in the shared folder. Make it once per process; `publish` before `gather`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._birth = f"{os.getpid()}-{os.urandom(8).hex()}"
        path.mkdir(parents=True, exist_ok=True)
        with self._locked():
            self.slot, self._lock = self._acquire_slot()
            self._retire(self.slot)

    def publish(self, published: Published) -> None:
        """Replace what this worker has published; takes some 50 us, and more with many series."""
        _write(self._path / f"{self.slot}.json", {"birth": self._birth, "samples": published})

    def gather(self) -> Merged:
        """What all workers have published. Reads files: call it in a thread."""
        merged = Merged()
        with self._locked():
            retired = _read(self._path / "retired.json")
            merged.add(retired.get("samples", []), alive=False)
            over = retired.get("births", {})
            for path in self._path.glob("*.json"):
                if path.stem == "retired":
                    continue
                found = _read(path)
                if found and over.get(path.stem) != found["birth"]:
                    merged.add(found["samples"], alive=self._is_alive(path.stem))
        return merged

    def close(self) -> None:
        """Leave the slot; what was counted stays."""
        os.close(self._lock)

    def _acquire_slot(self) -> tuple[str, int]:
        """Return the lowest slot that nobody holds, and its open lock."""
        for number in range(_MAX_WORKERS):
            lock = os.open(self._path / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return str(number), lock
        raise OSError(f"{FOLDER} holds the locks of {_MAX_WORKERS} workers that live.")

    def _retire(self, slot: str) -> None:
        """Add the counters of the slot's last worker to those of all that have ended.

        Its birth is written with them: if this is interrupted before the file is gone, nothing counts twice.
        """
        path = self._path / f"{slot}.json"
        found = _read(path)
        if not found:
            return
        retired = _read(self._path / "retired.json")
        births = retired.get("births", {})
        if births.get(slot) != found["birth"]:
            merged = Merged()
            merged.add(retired.get("samples", []), alive=False)
            merged.add(found["samples"], alive=False)
            kept = {"births": births | {slot: found["birth"]}, "samples": merged.published()}
            _write(self._path / "retired.json", kept)
        path.unlink()

    def _is_alive(self, slot: str) -> bool:
        if slot == self.slot:
            return True
        try:
            lock = os.open(self._path / f"{slot}.lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        else:
            return False
        finally:
            os.close(lock)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = os.open(self._path / "folder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _merge(how: str, before: Value, value: Value) -> Value:
    if isinstance(before, list) and isinstance(value, list):
        return [one + other for one, other in zip(before, value, strict=True)]
    if isinstance(before, list) or isinstance(value, list):
        return value
    pick: Number = before + value
    if how == "max":
        pick = max(before, value)
    elif how == "min":
        pick = min(before, value)
    return pick


def _write(path: Path, held: dict[str, Any]) -> None:
    """Whole or not at all: a reader sees the old file or the new one."""
    new = path.with_suffix(".new")
    new.write_bytes(orjson.dumps(held))
    new.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """What `_write` wrote, {} where there is none."""
    try:
        found: dict[str, Any] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found
