"""The metrics of all workers of one `serve`: each publishes its own to a folder, and any of them reads all.

    folder/<slot>.lock     locked by the worker of this slot as long as it runs, however it ends
    folder/<slot>.json     what that worker published last, with the id of the worker
    folder/retired.json    the counters of ended workers whose slot was reused
    folder/folder.lock     locked while a worker reads all files, or acquires a slot

The kernel releases a lock when its process ends, so that ended workers are detected without process ids,
which are reused. Their counters are retained; their gauges are dropped at once.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from app.core import exact_json
from app.core.telemetry.families import Number, Sample, Value, get_family

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_MAX_WORKERS = 1_024

Published = list[tuple[str, tuple[str, ...] | list[str], Value]]
"""Samples with the names of their families, as in JSON."""


class MergedSamples:
    """The samples of several workers, merged series by series."""

    def __init__(self) -> None:
        self._series: dict[str, dict[tuple[str, ...], Value]] = {}

    def add(self, published: Published, *, alive: bool = True) -> None:
        """Add what one worker published; of an ended one only its counters and histograms."""
        for name, labels, value in published:
            known = get_family(name)
            if known is None or not (alive or known.is_retained):
                continue
            series = self._series.setdefault(name, {})
            key = tuple(labels)
            before = series.get(key)
            series[key] = value if before is None else _merge(known.merge, before, value)

    def list_samples(self) -> Iterator[Sample]:
        """Return all merged samples, by family."""
        for name, series in self._series.items():
            known = get_family(name)
            if known is not None:
                for labels, value in series.items():
                    yield known, labels, value

    def export_samples(self) -> Published:
        """Return all merged samples in the form that is stored."""
        return [(known.name, labels, value) for known, labels, value in self.list_samples()]


class MetricsFolder:
    """A worker's slot in the shared folder. Create it once per process; `publish` before `gather`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._birth = f"{os.getpid()}-{os.urandom(8).hex()}"
        path.mkdir(parents=True, exist_ok=True)
        with self._hold_lock():
            self.slot, self._lock = self._acquire_slot()
            self._retire(self.slot)

    def publish(self, published: Published) -> None:
        """Replace what this worker has published; this takes some 50 us, and more with many series."""
        _write(self._path / f"{self.slot}.json", {"birth": self._birth, "samples": published})

    def gather(self) -> MergedSamples:
        """Return what all workers have published. It reads files: call it in a thread."""
        merged = MergedSamples()
        with self._hold_lock():
            retired = _read(self._path / "retired.json")
            merged.add(retired.get("samples", []), alive=False)
            retired_births = retired.get("births", {})
            for path in self._path.glob("*.json"):
                if path.stem == "retired":
                    continue
                published = _read(path)
                if published and retired_births.get(path.stem) != published["birth"]:
                    merged.add(published["samples"], alive=self._is_alive(path.stem))
        return merged

    def close(self) -> None:
        """Release the slot; what was published is retained."""
        os.close(self._lock)

    def _acquire_slot(self) -> tuple[str, int]:
        """Return the lowest free slot, and the file descriptor of its lock."""
        for number in range(_MAX_WORKERS):
            lock = os.open(self._path / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return str(number), lock
        raise OSError(f"{FOLDER_VARIABLE} has no free slot: {_MAX_WORKERS} workers are running.")

    def _retire(self, slot: str) -> None:
        """Add the counters of the slot's previous worker to those of all ended workers.

        Its id is stored with them: if this is interrupted before the file is removed, nothing counts twice.
        """
        path = self._path / f"{slot}.json"
        published = _read(path)
        if not published:
            return
        retired = _read(self._path / "retired.json")
        births = retired.get("births", {})
        if births.get(slot) != published["birth"]:
            merged = MergedSamples()
            merged.add(retired.get("samples", []), alive=False)
            merged.add(published["samples"], alive=False)
            retired = {"births": births | {slot: published["birth"]}, "samples": merged.export_samples()}
            _write(self._path / "retired.json", retired)
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
    def _hold_lock(self) -> Iterator[None]:
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
    merged: Number = before + value
    if how == "max":
        merged = max(before, value)
    elif how == "min":
        merged = min(before, value)
    return merged


def _write(path: Path, content: dict[str, Any]) -> None:
    """Replace a file atomically: a reader sees the old file or the new one."""
    new = path.with_suffix(".new")
    new.write_bytes(exact_json.dumps(content))
    new.replace(path)


def _read(path: Path) -> dict[str, Any]:
    """Return what `_write` wrote, {} where the file is missing or not JSON."""
    try:
        content: dict[str, Any] = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return content
