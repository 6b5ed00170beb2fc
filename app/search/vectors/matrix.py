"""The vectors that the encoding process has: those of the mapped file, and those that are not yet written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from app.search.signals import make_tool_key
from app.search.vectors.tool_digests import Digests
from app.search.vectors.vector_file import (
    DIGEST_BYTES,
    Rows,
    VectorFile,
    VectorFileError,
    write_vectors,
)

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(slots=True)
class VectorMatrix:
    """The vectors by digest, and the file in which the workers map them."""

    path: Path
    model: str
    dimensions: int
    pending: dict[bytes, bytes] = field(default_factory=dict)
    """Vectors (float16) that are not in the file."""
    _file: VectorFile | None = None
    _rows: dict[bytes, int] = field(default_factory=dict)

    def adopt(self) -> None:
        """Use the vectors of a file that an earlier process has written for this model, if there is one."""
        try:
            vector_file = VectorFile.open(self.path)
        except (OSError, VectorFileError):
            return
        if vector_file.model == self.model and vector_file.matrix.shape[1:] == (self.dimensions,):
            self._use(vector_file)

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._rows or digest in self.pending

    def get_vector(self, digest: bytes) -> bytes:
        """Return a vector (float16) that this contains."""
        if digest in self.pending:
            return self.pending[digest]
        assert self._file is not None  # noqa: S101 - it has this row.
        return bytes(self._file.matrix[self._rows[digest]].tobytes())

    def write(self, tools: Iterable[tuple[UUID, Digests]]) -> None:
        """Write the file with the vectors of these tools, and map it; raise OSError."""
        rows: dict[bytes, int] = {}
        places: list[tuple[int, int, int]] = []
        for tool, digests in tools:
            first, second = (
                rows.setdefault(digest, len(rows)) if digest is not None and digest in self else -1
                for digest in digests
            )
            if first >= 0 or second >= 0:
                places.append((make_tool_key(tool), first, second))
        write_vectors(
            self.path,
            model=self.model,
            tools=places,
            rows=Rows(list(rows), self._read_vectors),
            dimensions=self.dimensions,
        )
        self._use(VectorFile.open(self.path))
        self.pending = {}

    def _read_vectors(self, digests: Sequence[bytes]) -> Array:
        vectors = b"".join(map(self.get_vector, digests))
        return np.frombuffer(vectors, dtype="<f2").reshape(-1, self.dimensions)

    def _use(self, file: VectorFile) -> None:
        content = file.digests.tobytes()
        self._file = file
        self._rows = {
            content[at : at + DIGEST_BYTES]: at // DIGEST_BYTES for at in range(0, len(content), DIGEST_BYTES)
        }
