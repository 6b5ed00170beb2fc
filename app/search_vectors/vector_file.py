"""The file of all tools' vectors, which the encoding process writes and the workers map into memory.

    header       4,096 bytes: MAGIC, and JSON padded with spaces: model, dimensions, tools, rows
    digests      rows x 32 bytes: of which text each row is the vector
    keys         tools x uint64, ascending: `tool_key` of each tool
    places       tools x 2 x int32: the rows of its two texts; -1 where there is none
    matrix       rows x dimensions x float16

Numbers are little-endian. The file is written beside its place and renamed, so that a reader sees one version
as a whole; a mapping of the version before stays valid.
"""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from app.search_vectors.texts import TEXTS_OF_TOOL

Array = np.ndarray[Any, np.dtype[Any]]
MAGIC: Final = b"UTCPVEC1"
DIGEST_BYTES: Final = 32
_HEADER_BYTES: Final = 4_096


class VectorFileError(ValueError):
    """Raised where a file is not one of this format, or is incomplete."""


@dataclass(frozen=True, slots=True)
class VectorFile:
    """A mapped file; its arrays are read-only, and valid for as long as they are referred to."""

    model: str
    digests: Array
    keys: Array
    places: Array
    matrix: Array

    @classmethod
    def open(cls, path: Path) -> "VectorFile":
        """Map a file; raise VectorFileError where it cannot be used, and OSError where it cannot be read."""
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
            size = os.fstat(file.fileno()).st_size
            if not head.startswith(MAGIC) or len(head) < _HEADER_BYTES:
                msg = f"{path} is not a file of vectors"
                raise VectorFileError(msg)
            try:
                header = json.loads(head[len(MAGIC) :])
                model = str(header["model"])
                dimensions, tools, rows = (int(header[name]) for name in ("dimensions", "tools", "rows"))
            except (ValueError, KeyError, TypeError):
                msg = f"{path} has no header"
                raise VectorFileError(msg) from None
            parts = _layout(dimensions, tools, rows)
            if min(dimensions, tools, rows) < 0 or size != _HEADER_BYTES + sum(map(_part_bytes, parts)):
                msg = f"{path} has another length than its header says"
                raise VectorFileError(msg)
            mapped = np.memmap(file, dtype=np.uint8, mode="r")
        arrays = []
        offset = _HEADER_BYTES
        for part in parts:
            length = _part_bytes(part)
            arrays.append(mapped[offset : offset + length].view(part[1]).reshape(part[0]))
            offset += length
        return cls(model, *arrays)

    def cosines(self, vector: Array, keys: Sequence[int]) -> list[float | None]:
        """Return for each key the larger cosine of its tool's vectors with `vector`; None without a vector.

        Only the rows of these tools are read.
        """
        if not len(self.keys) or not len(self.matrix) or not keys:
            return [None] * len(keys)
        wanted = np.array(keys, dtype=np.uint64)
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        places = np.where((self.keys[at] == wanted)[:, None], self.places[at], -1)
        cosines = self.matrix[np.maximum(places, 0)].astype(np.float32) @ vector
        cosines[places < 0] = -np.inf
        best = cosines.max(axis=1)
        return [float(value) if value > -np.inf else None for value in best]


def write_vectors(
    path: Path, *, model: str, tools: Sequence[tuple[int, int, int]], rows: "Rows", dimensions: int
) -> None:
    """Write a file and put it in place of the one before.

    `tools` are a key and two rows (-1: none) each. Raises OSError.
    """
    order = sorted(tools)
    header = {"model": model, "dimensions": dimensions, "tools": len(order), "rows": len(rows.digests)}
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write((MAGIC + json.dumps(header).encode()).ljust(_HEADER_BYTES))
            file.write(b"".join(rows.digests))
            file.write(np.array([one[0] for one in order], dtype="<u8").tobytes())
            file.write(np.array([one[1:] for one in order], dtype="<i4").reshape(-1).tobytes())
            rows.write(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a file to be written: their digests, and their vectors in blocks of float16."""

    digests: Sequence[bytes]
    blocks: Iterable[Array]

    def write(self, file: BinaryIO) -> None:
        """Write all blocks."""
        file.writelines(np.ascontiguousarray(block, dtype="<f2").tobytes() for block in self.blocks)


_Part = tuple[tuple[int, ...], str]


def _layout(dimensions: int, tools: int, rows: int) -> tuple[_Part, ...]:
    return (
        ((rows, DIGEST_BYTES), "u1"),
        ((tools,), "<u8"),
        ((tools, TEXTS_OF_TOOL), "<i4"),
        ((rows, dimensions), "<f2"),
    )


def _part_bytes(part: _Part) -> int:
    shape, kind = part
    length = np.dtype(kind).itemsize
    for number in shape:
        length *= number
    return length
