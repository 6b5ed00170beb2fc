"""A folder of ToolClad manifests as a zip archive. The gateway reads no path of its client's machine."""

from pathlib import Path
from typing import Final

from app.cli.errors import InputError

SUFFIX: Final = ".clad.toml"
BESIDE: Final = frozenset({"toolclad.toml", "mcp.json", ".mcp.json"})
"""Files that belong to the manifests of a folder."""


def pack_manifests(folder: str) -> bytes:
    """Return the manifests of a folder and of those below it, with the files that belong to them, as a zip
    archive; links are not followed, and folders whose names begin with a point are left out.

    Raise InputError for a folder without manifests, and for a file that cannot be read.
    """
    from app.formats.archive import pack_files

    root = Path(folder)
    files: dict[str, bytes] = {}
    try:
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            is_hidden = any(part.startswith(".") for part in inside.parts[:-1])
            is_wanted = path.name.endswith(SUFFIX) or path.name in BESIDE
            if is_wanted and not is_hidden and path.is_file() and not path.is_symlink():
                files[inside.as_posix()] = path.read_bytes()
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror or 'no such folder'}.") from None
    if not any(name.endswith(SUFFIX) for name in files):
        raise InputError(f"{folder} has no ToolClad manifest (*{SUFFIX}).")
    return pack_files(files)
