"""The file of all tools' vectors, which the encoding process writes and the workers map into memory.

    header       4,096 bytes: MAGIC, and JSON padded with spaces: model, dimensions, tools, rows
    digests      rows x 32 bytes: of which text each row is the vector
    keys         tools x uint64, ascending: `make_tool_key` of each tool
    places       tools x 2 x int32: the rows of its two texts; -1 where there is none
    matrix       rows x dimensions x float16
    axes         dimensions x coarse x float32: the principal axes of the matrix, `coarse` of them
    coarse       tools x coarse x float32: the first text of each tool, projected on these axes

Numbers are little-endian. The file is written beside its place and renamed, so that a reader sees one version
as a whole; a mapping of the version before stays valid. A file that is mapped must never be written in place.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from app.search.vectors.texts import TEXTS_OF_TOOL

Array = np.ndarray[Any, np.dtype[Any]]
MAGIC: Final = b"UTCPVEC2"
DIGEST_BYTES: Final = 32
_HEADER_BYTES: Final = 4_096
_COARSE: Final = 64
_COMPARED: Final = 12
"""By projections of 64 of 384 numbers, the first 600 of 17,579 tools have .96 of the nearest 50."""
_SAMPLED: Final = 20_000
_BLOCK: Final = 4_096


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
    axes: Array
    coarse: Array

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
            parts = _plan_layout(dimensions, tools, rows)
            if min(dimensions, tools, rows) < 0 or size != _HEADER_BYTES + sum(map(_measure_part, parts)):
                msg = f"{path} has another length than its header says"
                raise VectorFileError(msg)
            mapped = np.memmap(file, dtype=np.uint8, mode="r")
        arrays = []
        offset = _HEADER_BYTES
        for part in parts:
            length = _measure_part(part)
            arrays.append(mapped[offset : offset + length].view(part[1]).reshape(part[0]))
            offset += length
        vector_file = cls(model, *arrays)
        if not vector_file.is_consistent:
            msg = f"{path} is damaged"
            raise VectorFileError(msg)
        return vector_file

    @property
    def is_consistent(self) -> bool:
        """Whether each place of a tool is a row, and the axes are finite."""
        in_range = not self.places.size or (self.places.min() >= -1 and self.places.max() < len(self.matrix))
        return bool(in_range and np.isfinite(self.axes).all())

    def compute_cosines(self, vector: Array, keys: Sequence[int]) -> list[float | None]:
        """Return for each key the larger cosine of its tool's vectors with `vector`; None without a vector.

        Only the rows of these tools are read.
        """
        if not len(self.keys) or not len(self.matrix) or not keys:
            return [None] * len(keys)
        wanted = np.array(keys, dtype=np.uint64)
        indexes = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        places = np.where((self.keys[indexes] == wanted)[:, None], self.places[indexes], -1)
        cosines = self.matrix[np.maximum(places, 0)].astype(np.float32) @ vector
        cosines[places < 0] = -np.inf
        best = cosines.max(axis=1)
        return [float(value) if value > -np.inf else None for value in best]

    def find_nearest(self, vector: Array, limit: int) -> list[int]:
        """Return the keys of the tools whose first texts are nearest to `vector`, best first.

        A projection of all tools chooses those that are compared: 3 ms for 100,000 tools in place of 150.
        """
        count = min(_COMPARED * limit, len(self.keys))
        if not count or not len(self.matrix):
            return []
        rough = self.coarse @ (vector @ self.axes)
        chosen = np.argpartition(-rough, count - 1)[:count]
        rows = self.places[chosen, 0]
        cosines = self.matrix[np.maximum(rows, 0)].astype(np.float32) @ vector
        cosines[rows < 0] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:limit]
        return [int(self.keys[chosen[at]]) for at in order if cosines[at] > -np.inf]


def write_vectors(
    path: Path, *, model: str, tools: Sequence[tuple[int, int, int]], rows: "Rows", dimensions: int
) -> None:
    """Write a file and put it in place of the one before.

    `tools` are a key and two rows (-1: none) each. Raises OSError.
    """
    order = sorted(tools)
    places = np.array([one[1:] for one in order], dtype="<i4").reshape(-1, TEXTS_OF_TOOL)
    header = {"model": model, "dimensions": dimensions, "tools": len(order), "rows": len(rows.digests)}
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write((MAGIC + json.dumps(header).encode()).ljust(_HEADER_BYTES))
            file.write(b"".join(rows.digests))
            file.write(np.array([one[0] for one in order], dtype="<u8").tobytes())
            file.write(places.tobytes())
            rows.write(file)
            axes = rows.compute_axes(dimensions)
            file.write(axes.tobytes())
            file.writelines(rows.project_rows(places[:, 0], axes))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a file to be written: their digests, and `vectors`, which returns the vectors of some of
    them (rows x dimensions, float16).
    """

    digests: Sequence[bytes]
    vectors: Callable[[Sequence[bytes]], Array]

    def write(self, file: BinaryIO) -> None:
        """Write all vectors."""
        starts = range(0, len(self.digests), _BLOCK)
        file.writelines(self.vectors(self.digests[at : at + _BLOCK]).tobytes() for at in starts)

    def compute_axes(self, dimensions: int) -> Array:
        """Return the principal axes of up to 20,000 of the vectors as columns, the longest first."""
        step = max(len(self.digests) // _SAMPLED, 1)
        sample = self.vectors(self.digests[::step]).reshape(-1, dimensions).astype(np.float32)
        _, columns = np.linalg.eigh(sample.T @ sample)
        return np.ascontiguousarray(columns[:, ::-1][:, :_COARSE], dtype="<f4")

    def project_rows(self, rows: Array, axes: Array) -> Iterator[bytes]:
        """Yield the vectors of these rows (-1: zeros) on the axes, in blocks."""
        for begin in range(0, len(rows), _BLOCK):
            block = rows[begin : begin + _BLOCK]
            result = np.zeros((len(block), axes.shape[1]), dtype="<f4")
            known = np.flatnonzero(block >= 0)
            if len(known):
                vectors = self.vectors([self.digests[row] for row in block[known]])
                result[known] = vectors.reshape(-1, len(axes)).astype(np.float32) @ axes
            yield result.tobytes()


_Part = tuple[tuple[int, ...], str]


def _plan_layout(dimensions: int, tools: int, rows: int) -> tuple[_Part, ...]:
    return (
        ((rows, DIGEST_BYTES), "u1"),
        ((tools,), "<u8"),
        ((tools, TEXTS_OF_TOOL), "<i4"),
        ((rows, dimensions), "<f2"),
        ((dimensions, min(_COARSE, dimensions)), "<f4"),
        ((tools, min(_COARSE, dimensions)), "<f4"),
    )


def _measure_part(part: _Part) -> int:
    shape, kind = part
    length = np.dtype(kind).itemsize
    for number in shape:
        length *= number
    return length
