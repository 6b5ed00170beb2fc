"""The files of the spool: one SQLite database for each process, synced at each commit (ADR 0022).

SQLite has what the spool needs: frames with checksums, a torn end that is cut off, commits that are on the
disk when they return, an orderly error when the disk is full, and a lock that ends with its process. The lock
tells a file that somebody still writes from one that was left behind.
"""

import contextlib
import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

_SUFFIX = ".spool"
_PAGE = 4096
_SETTINGS = (
    f"PRAGMA page_size={_PAGE}",
    # The lock is taken with the first transaction, and kept as long as the file is open.
    "PRAGMA locking_mode=EXCLUSIVE",
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA journal_size_limit=4194304",
)
_TABLE = "CREATE TABLE IF NOT EXISTS records (number INTEGER PRIMARY KEY AUTOINCREMENT, record BLOB NOT NULL)"

Numbered = tuple[int, bytes]


class SpoolFile:
    """Records in the order in which they came. Every method blocks, and belongs into one thread."""

    def __init__(self, path: Path, *, most_bytes: int | None = None) -> None:
        """Opens and locks the file; raises sqlite3.Error, with "locked" for one that is in use."""
        self.path = path
        # Autocommit: the transactions stand below. The thread that opens it need not be the one that uses it.
        self._connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            for setting in _SETTINGS:
                self._connection.execute(setting)
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(_TABLE)
            self._connection.execute("COMMIT")
            if most_bytes is not None:
                self._connection.execute(f"PRAGMA max_page_count={max(most_bytes // _PAGE, 16)}")
        except BaseException:
            self._connection.close()
            raise

    def append(self, records: Sequence[bytes]) -> None:
        """Writes all of them or, with sqlite3.Error, none. They are on the disk when it returns."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "INSERT INTO records (record) VALUES (?)", [(one,) for one in records]
            )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def read(self, most: int) -> list[Numbered]:
        """The oldest records, at most so many, each with its number."""
        found = self._connection.execute(
            "SELECT number, record FROM records ORDER BY number LIMIT ?", (most,)
        )
        return found.fetchall()

    def forget(self, last: int) -> int:
        """Deletes the records up to this number; gives how many are left."""
        self._connection.execute("DELETE FROM records WHERE number <= ?", (last,))
        return int(self._connection.execute("SELECT count(*) FROM records").fetchone()[0])

    def close(self) -> None:
        """Closes the file, which stays where it is."""
        self._connection.close()

    def remove(self) -> None:
        """Closes and deletes the file; call it under the folder's lock."""
        self._connection.close()
        for name in (self.path, Path(f"{self.path}-wal")):
            name.unlink(missing_ok=True)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else makes, takes over or removes a file meanwhile."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def new_file(folder: Path, *, most_bytes: int) -> SpoolFile:
    """A file of this process's own; raises sqlite3.Error or OSError."""
    with _alone(folder):
        path = folder / f"calls-{time.time_ns()}-{os.getpid()}{_SUFFIX}"
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        return SpoolFile(path, most_bytes=most_bytes)


def left_behind(folder: Path, ours: Path | None) -> SpoolFile | None:
    """A file whose process has ended, now locked by us; None when there is none.

    One that is no spool, or damaged beyond reading, is put aside as `*.damaged`.
    """
    with _alone(folder):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            if path == ours:
                continue
            try:
                return SpoolFile(path)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                    _log.warning(
                        "a spool file cannot be opened", file=path.name, reason=error.sqlite_errorname
                    )
            except sqlite3.DatabaseError:
                put_aside(path)
    return None


def put_aside(path: Path) -> None:
    """Renames a file that cannot be read, so that somebody may look at it."""
    _log.error("a spool file is damaged; it was put aside", file=path.name)
    for suffix in ("", "-wal"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{path}.damaged{suffix}")


def remove(file: SpoolFile) -> None:
    """Deletes a file that holds nothing any more."""
    with _alone(file.path.parent):
        file.remove()
