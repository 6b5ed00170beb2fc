"""Unpacks zip archives within limits: an archive's directory is checked before any entry is unpacked."""

import io
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.core.errors import InvalidDocument, TooLarge

MAX_ENTRIES: Final = 10_000
"""The largest real description known, DigitalOcean's source, has 2,907 files."""
_MAX_NAME: Final = 500
_MAX_DIRECTORY_BYTES: Final = 4 << 20
# Deflate cannot do better than 1,032 to 1; descriptions reach 30 to 1.
_MAX_RATIO: Final = 200
_ALWAYS_ALLOWED_BYTES: Final = 1 << 20
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_LOCATOR: Final = b"PK\x06\x07"
_ARCHIVES: Final = (
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ\x00",
    b"7z\xbc\xaf",
    b"Rar!",
)
_NESTED: Final = re.compile(r"\.(?:zip|jar|gz|tgz|tar|bz2|xz|7z|rar|zst)$", re.IGNORECASE)
_NOISE: Final = re.compile(r"(?:^|/)(?:__MACOSX/|\.DS_Store$|\._)")


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Limits beyond which a document is rejected. Sizes are in bytes, `overlay_seconds` is CPU time.

    The defaults are well above the largest real document known (47 MB of JSON, 22,361 operations; the largest
    input schema has 1.3 MB). An alias of YAML counts as much as its target. Nothing is validated against the
    schema of a response, so `output_schema_size` is smaller than `tool_size`.
    """

    size: int = 128 * 2**20
    yaml_size: int = 128 * 2**20
    depth: int = 100
    nodes: int = 10_000_000
    yaml_nodes: int = 5_000_000
    operations: int = 50_000
    parameters: int = 2_000
    tool_size: int = 2 * 2**20
    output_schema_size: int = 32 * 2**10
    output_size: int = 1024 * 2**20
    output_factor: int = 48
    overlay_seconds: float = 10.0


def is_archive(document: bytes) -> bool:
    """Return whether the bytes are a zip archive."""
    return document[:4] in _ARCHIVES[:2]


def list_names(archive: bytes) -> tuple[str, ...]:
    """Return the paths of the files of a zip archive; none where it is damaged or has too many."""
    try:
        _check_directory(archive)
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return tuple(entry.filename for entry in opened.infolist() if not _NOISE.search(entry.filename))
    except (InvalidDocument, TooLarge, zipfile.BadZipFile, NotImplementedError, struct.error, OSError):
        return ()
    except ValueError:
        return ()


def unpack(archive: bytes, *, limits: DocumentLimits) -> dict[str, bytes]:
    """Return the files of a zip archive by path, in the archive's order.

    Raises TooLarge for too many entries, too large contents or too high a compression ratio; InvalidDocument
    for paths that lead out of the archive, links, encrypted entries, nested archives, and bytes that are no
    archive.
    """
    _check_directory(archive)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            entries = [entry for entry in opened.infolist() if not _NOISE.search(entry.filename)]
            _check_entries(entries, limits)
            return {entry.filename: _read_content(opened, entry) for entry in entries if not entry.is_dir()}
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, struct.error, EOFError, ValueError, OSError):
        raise InvalidDocument("The zip archive is damaged, or packed in a way that is not read") from None


def pack_files(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of the files, not compressed; the same files give the same bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as opened:
        for name, content in files.items():
            opened.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), content)
    return written.getvalue()


def may_be_packed(name: str, content: bytes) -> bool:
    """Return whether `unpack` would accept a file of this name and content."""
    return _is_inside(name) and not _NESTED.search(name) and not content.startswith(_ARCHIVES)


def _check_directory(archive: bytes) -> None:
    """Reject a directory that is costly to read, before `zipfile` reads it."""
    end = archive.rfind(_END, max(0, len(archive) - _END_SIZE - 0xFFFF))
    if end < 0 or end + _END_SIZE > len(archive):
        raise InvalidDocument("The zip archive is damaged: it has no directory")
    entries, size = struct.unpack_from("<HL", archive, end + 10)
    if (
        entries > MAX_ENTRIES
        or size > _MAX_DIRECTORY_BYTES
        or archive[max(0, end - 20) :].startswith(_LOCATOR)
    ):
        raise TooLarge(f"A zip archive may have at most {MAX_ENTRIES} entries")


def _check_entries(entries: list[zipfile.ZipInfo], limits: DocumentLimits) -> None:
    if len(entries) > MAX_ENTRIES:
        raise TooLarge(f"A zip archive may have at most {MAX_ENTRIES} entries")
    total = sum(entry.file_size for entry in entries)
    if total > limits.size:
        raise TooLarge(f"The zip archive unpacks to {total} bytes; at most {limits.size} are read")
    seen: set[str] = set()
    for entry in entries:
        _check_entry(entry)
        name = entry.filename.rstrip("/")
        if name in seen:
            raise InvalidDocument(f"The zip archive contains {_quote_name(name)} twice")
        seen.add(name)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    if not _is_inside(name):
        raise InvalidDocument(f"The zip archive has a path that is not allowed: {_quote_name(name)}")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise InvalidDocument(f"The zip archive contains a link or a device: {_quote_name(name)}")
    if entry.flag_bits & 0x1:
        raise InvalidDocument("The zip archive is encrypted")
    if _NESTED.search(name):
        raise InvalidDocument(f"The zip archive contains another archive: {_quote_name(name)}")
    if entry.file_size > max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * entry.compress_size):
        raise TooLarge(f"The zip archive compresses {_quote_name(name)} more than {_MAX_RATIO} to 1")


def _is_inside(name: str) -> bool:
    parts = name.rstrip("/").split("/")
    outside = name.startswith("/") or "\\" in name or ":" in parts[0] or {"", ".", ".."} & set(parts)
    return not outside and len(name) <= _MAX_NAME and name.isprintable()


def _read_content(opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with opened.open(entry) as stream:
        # Reading one byte more than the declared size reveals a false declaration; `zipfile` checks the CRC.
        content = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise InvalidDocument(f"The zip archive is wrong about the size of {_quote_name(entry.filename)}")
    if content.startswith(_ARCHIVES):
        raise InvalidDocument(f"The zip archive contains another archive: {_quote_name(entry.filename)}")
    return content


def _quote_name(name: str) -> str:
    return repr(name[:100])
