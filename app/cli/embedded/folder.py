"""The data folder of the embedded servers, the lock on it, and the sealing key.

    <data_dir>/lock            held with flock(2) while the servers run; contains the holder's process id
    <data_dir>/sealing.key     0600, created once; back it up together with the database
    <data_dir>/postgres/       the database cluster
    <data_dir>/valkey/         working folder of Valkey (nothing is stored there)
    <data_dir>/logs/           the logs of both servers
    <data_dir>/run/            the sockets, unless the path is too long for one

Modes and owners of folders that existed before are never changed.
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
"""Maximum length of a socket path on every system: sun_path has 104 bytes on macOS and 108 on Linux."""

_MAX_SOCKET_NAME_LENGTH = "/.s.PGSQL.5432"

_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._-]+")
"""Paths that need no quoting in a DSN, in a Redis URL and in `unix_socket_directories`."""


class EmbeddedError(Exception):
    """Raised where the embedded servers cannot be used; the text is a sentence for the operator."""


class EmbeddedBusy(EmbeddedError):
    """Raised where another process uses the data folder."""


class EmbeddedFailed(EmbeddedError):
    """Raised where something is missing, broken or not permitted.

    The text ends with the last lines of the log, if there are any.
    """


def open_folder(data_dir: Path) -> Path:
    """Return the absolute path of the data folder, which is created with mode 0700 if it is new.

    Raises EmbeddedFailed if it cannot be used.
    """
    try:
        folder = data_dir.expanduser().resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise EmbeddedFailed(
            f"The data folder {data_dir} cannot be created: {_explain_error(error)}."
        ) from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise EmbeddedFailed(f"The data folder {folder} is not writable for user id {os.geteuid()}.")
    return folder


def ensure_own_folder(path: Path, *, owners: tuple[int, ...] = ()) -> Path:
    """Return `path`, a folder of our own, which is created with mode 0700 if it is new.

    Raises EmbeddedFailed for a symbolic link, and for a folder that does not belong to us or to one of
    `owners` (user ids): where others can write (the temporary folder) somebody else may have created it.
    """
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise EmbeddedFailed(f"The folder {path} cannot be created: {_explain_error(error)}.") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), *owners):
        raise EmbeddedFailed(f"{path} is not a folder of user id {os.geteuid()}; remove it and start again.")
    return path


def choose_socket_folder(folder: Path, *, temporary: Path | None = None) -> Path:
    """Return a 0700 folder whose path is short and plain enough for sockets: `run/`, or one in `temporary`
    (the system's folder for temporary files, where it is None).

    Raises EmbeddedFailed.
    """
    inside = folder / "run"
    if _is_socket_folder(inside):
        return ensure_own_folder(inside)
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    for base in (temporary or Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108 - ensure_own_folder rejects traps
        short = base / f"utcp-gateway-{os.geteuid()}-{digest}"
        if _is_socket_folder(short):
            ensure_own_folder(short)
            if stat.S_IMODE(short.lstat().st_mode) != 0o700:
                raise EmbeddedFailed(f"The socket folder {short} is open to others; remove it.")
            return short
    raise EmbeddedFailed(f"No path is short enough for sockets: set TMPDIR to a shorter one than {base}.")


def _is_socket_folder(path: Path) -> bool:
    text = str(path)
    short = len(os.fsencode(text + _MAX_SOCKET_NAME_LENGTH)) <= _SOCKET_PATH_BYTES
    return short and _PLAIN_PATH.fullmatch(text) is not None


class FolderLock:
    """An exclusive lock on a data folder. The kernel releases it when its holder dies, however it dies."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises EmbeddedBusy, which names the holder, and EmbeddedFailed."""
        path = folder / "lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise EmbeddedFailed(f"The lock {path} cannot be opened: {_explain_error(error)}.") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 20).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            if not isinstance(error, BlockingIOError):
                raise EmbeddedFailed(f"The lock {path} cannot be taken: {_explain_error(error)}.") from error
            user = f"process {holder}" if holder else "another process"
            raise EmbeddedBusy(
                f"The data folder {folder} is in use by {user}. Stop it, or set DATA_DIR to another folder."
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the folder. The file stays: removing it would let two processes lock two files."""
        os.ftruncate(self._descriptor, 0)
        # After closing alone, forked children that still have the descriptor would hold the lock.
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        os.close(self._descriptor)


def read_sealing_key(data_dir: Path) -> str:
    """Return the key ring of the embedded mode as text: `k1:<base64 of 32 random bytes>`.

    It is created once, in `<data_dir>/sealing.key` with mode 0600, outside PostgreSQL. Raises EmbeddedFailed
    where others may read the file, where it belongs to another user, or where it contains no such key.
    """
    path = open_folder(data_dir) / "sealing.key"
    try:
        if not path.exists() and not path.is_symlink():
            _create_key(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        with os.fdopen(descriptor, encoding="ascii") as file:
            status = os.fstat(descriptor)
            text = file.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddedFailed(f"The sealing key {path} cannot be used: {_explain_error(error)}.") from error
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o177:
        mode = stat.S_IMODE(status.st_mode)
        raise EmbeddedFailed(
            f"The sealing key {path} has mode {mode:04o} and owner {status.st_uid}. Only user id "
            f"{os.geteuid()} may read it: run `chmod 600 {path}`, and rotate the key if others read it."
        )
    if not all(_is_key(part) for part in text.split(",")):
        raise EmbeddedFailed(f"The sealing key {path} is damaged. Restore it from its backup.")
    return text


def _create_key(path: Path) -> None:
    # Written to a draft and linked: a crash leaves a complete key or none, and of two processes one wins.
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
    # Sealed rows must never survive a power failure without their key, so the file name is synced first.
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


def _explain_error(error: BaseException) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
