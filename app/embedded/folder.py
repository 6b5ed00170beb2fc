"""The one folder that holds everything embedded, the lock on it, and the sealing key.

    <data_dir>/lock            held with flock(2) while the servers run; names the holder's process id
    <data_dir>/sealing.key     0600, made once; back it up together with the database
    <data_dir>/postgres/       the database cluster
    <data_dir>/valkey/         working folder of Valkey (nothing is kept there)
    <data_dir>/logs/           what both servers say
    <data_dir>/run/            the sockets, unless the path is too long for one

Modes and owners of folders that were there before are never changed.
"""

import base64
import binascii
import fcntl
import hashlib
import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

_SOCKET_PATH_BYTES = 100
"""Longest socket path that every system takes: sun_path has 104 bytes on macOS and 108 on Linux."""

_LONGEST_SOCKET = "/.s.PGSQL.5432"

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
"""Paths that need no quoting in a DSN, in a Redis URL and in `unix_socket_directories`."""


class EmbeddedError(Exception):
    """The embedded servers cannot be used; the text is a sentence for the operator."""


class EmbeddedBusy(EmbeddedError):
    """Another process uses the data folder."""


class EmbeddedFailed(EmbeddedError):
    """Something is missing, broken or not permitted; the text ends with the log's last lines, if any."""


def open_folder(data_dir: Path) -> Path:
    """The absolute data folder, made with mode 0700 if it is new; `EmbeddedFailed` if it cannot be used."""
    try:
        folder = data_dir.expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise EmbeddedFailed(f"The data folder {data_dir} cannot be made: {_reason(error)}.") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise EmbeddedFailed(f"The data folder {folder} is not writable for user id {os.geteuid()}.")
    return folder


def own_folder(path: Path, *, owners: tuple[int, ...] = ()) -> Path:
    """A folder of ours, made with mode 0700 if it is new.

    One that is a link, or belongs to somebody else than us and `owners`, is refused: in a place that others
    can write to (the temporary folder) it may be a trap.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise EmbeddedFailed(f"The folder {path} cannot be made: {_reason(error)}.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (os.geteuid(), *owners):
        raise EmbeddedFailed(f"{path} is not a folder of user id {os.geteuid()}; remove it and start again.")
    return path


def socket_folder(folder: Path) -> Path:
    """A 0700 folder with a path short and plain enough for sockets: `run/`, or one in the temp folder."""
    beside = folder / "run"
    if _fits(beside):
        return own_folder(beside)
    mark = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    for base in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - own_folder refuses traps
        short = base / f"utcp-gateway-{os.geteuid()}-{mark}"
        if _fits(short):
            own_folder(short)
            if stat.S_IMODE(short.lstat().st_mode) != 0o700:
                raise EmbeddedFailed(f"The socket folder {short} is open to others; remove it.")
            return short
    raise EmbeddedFailed(f"No path is short enough for sockets: set TMPDIR to a shorter one than {base}.")


def _fits(path: Path) -> bool:
    text = str(path)
    short = len(os.fsencode(text + _LONGEST_SOCKET)) <= _SOCKET_PATH_BYTES
    return short and _PLAIN_PATH.fullmatch(text) is not None


class FolderLock:
    """The exclusive right to a data folder. The kernel drops it when the holder dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        """Takes the lock at once; `EmbeddedBusy` names the holder."""
        path = folder / "lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise EmbeddedFailed(f"The lock {path} cannot be opened: {_reason(error)}.") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError):
                raise EmbeddedFailed(f"The lock {path} cannot be taken: {_reason(error)}.") from error
            by = f"process {holder}" if holder else "another process"
            raise EmbeddedBusy(
                f"The data folder {folder} is in use by {by}. Stop it, or name another folder (DATA_DIR)."
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Gives the folder free. The file stays: removing it would let two processes lock two files."""
        os.ftruncate(self._descriptor, 0)
        # Closing alone would leave it to forked children that still have the descriptor.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def sealing_key(data_dir: Path) -> str:
    """The key ring of the embedded mode as text: `k1:<base64 of 32 random bytes>`.

    Made once, in `<data_dir>/sealing.key` with mode 0600, outside PostgreSQL. `EmbeddedFailed` when others
    may read the file, when it belongs to somebody else, or when it holds no such key.
    """
    path = open_folder(data_dir) / "sealing.key"
    try:
        if not path.exists() and not path.is_symlink():
            _make_key(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="ascii") as file:
            found = os.fstat(descriptor)
            text = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddedFailed(f"The sealing key {path} cannot be used: {_reason(error)}.") from error
    if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o177:
        mode = stat.S_IMODE(found.st_mode)
        raise EmbeddedFailed(
            f"The sealing key {path} has mode {mode:04o} and owner {found.st_uid}. Only user id "
            f"{os.geteuid()} may read it: run `chmod 600 {path}`, and rotate the key if others read it."
        )
    if not all(_is_key(part) for part in text.split(",")):
        raise EmbeddedFailed(f"The sealing key {path} is damaged. Put its backup back.")
    return text


def _make_key(path: Path) -> None:
    # Written beside and linked: a crash leaves a whole key or none, and of two that race one wins.
    draft = path.with_name(f".sealing.key.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            os.fchmod(descriptor, 0o600)
            file.write(f"k1:{base64.b64encode(secrets.token_bytes(32)).decode()}\n")
            file.flush()
            os.fsync(descriptor)
        try:
            os.link(draft, path)
        except FileExistsError:
            return
    finally:
        draft.unlink()
    # Sealed rows must never outlive their key in a power cut, so the name is on the disk first.
    parent = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _is_key(part: str) -> bool:
    name, _, value = part.partition(":")
    try:
        return bool(name) and len(base64.b64decode(value, validate=True)) == 32
    except binascii.Error:
        return False


def _reason(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
