"""Paths below a root folder, and opening them without following a link anywhere on the way.

Each component is opened relative to the folder before it (`openat`) with O_NOFOLLOW, so that the file that
was checked is the file that is used, also where somebody swaps a folder for a link meanwhile.
"""

import errno
import os
import posixpath
import stat
from pathlib import PurePosixPath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class PathDenied(Exception):
    """The path is not below the root, or has a link or something else than folders and files on the way."""


class NotAFile(Exception):
    """The path is that of a folder."""


def names_below(path: str, *, roots: tuple[str, ...]) -> tuple[str, ...]:
    """Return the components of a path below a root. A path that begins with `/` must be below one of `roots`,
    compared by components; every other is relative to the root. Raise PathDenied, and NotAFile for the root.
    """
    if "\x00" in path:
        raise PathDenied
    components: list[str] = []
    for name in path.split("/"):
        if name == "..":
            if not components:
                raise PathDenied
            # Exact, although by text: where a component before it is a link, nothing below it is opened.
            components.pop()
        elif name not in ("", "."):
            components.append(name)
    if path.startswith("/"):
        root = next(
            (parts for parts in map(_components, roots) if tuple(components[: len(parts)]) == parts), None
        )
        if root is None:
            raise PathDenied
        components = components[len(root) :]
    if not components or path.endswith("/"):
        raise NotAFile
    return tuple(components)


def _components(root: str) -> tuple[str, ...]:
    return PurePosixPath(posixpath.normpath(root)).parts[1:]


def open_folder(root: str, *, allowed: tuple[str, ...]) -> int:
    """Return a descriptor of the root, whose real path is one of the allowed folders or below one.

    Raise PathDenied where it is not, and OSError where it does not exist.
    """
    real = os.path.realpath(root)
    parts = _components(real)
    for folder in allowed:
        own = _components(folder)
        if parts[: len(own)] == own:
            return open_below(os.open(folder, _FOLDER), parts[len(own) :])
    raise PathDenied


def open_below(descriptor: int, names: tuple[str, ...]) -> int:
    """Return a descriptor of the folder below the given one, which is closed.

    Raise PathDenied where a component is a link or no folder, and OSError.
    """
    for name in names:
        try:
            kind = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(kind):
                raise PathDenied
            inner = os.open(name, _FOLDER, dir_fd=descriptor)
        except OSError as error:
            if is_link_error(error):
                raise PathDenied from None
            raise
        finally:
            os.close(descriptor)
        descriptor = inner
    return descriptor


def open_file(name: str, *, folder: int) -> int:
    """Return a descriptor of a regular file in an open folder.

    Raise PathDenied for a link, device, FIFO or socket, NotAFile for a folder, and OSError.
    """
    # Before it is opened: opening a device may do something.
    require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if is_link_error(error):
            raise PathDenied from None
        raise
    try:
        require_file(os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def require_file(found: os.stat_result) -> None:
    """Raise NotAFile for a folder, and PathDenied for everything else that is no regular file."""
    if stat.S_ISDIR(found.st_mode):
        raise NotAFile
    if not stat.S_ISREG(found.st_mode):
        raise PathDenied


def is_link_error(error: OSError) -> bool:
    """Return whether an open with O_NOFOLLOW found a link, or something in place of a folder."""
    return error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK)
