"""The files of the vectors in the data directory, in DATA_DIR/search-vectors.

lock             held with flock(2) by the worker that runs the encoding process
<model>.onnx     the graph of an installed model; <model> is the digest of its source and recipe
<model>.sha256   its SHA-256
<model>.vectors  the vectors of all tools (`vector_file.py`)
<model>.json     how far the encoding is (`status.py`)
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from app.search.vectors.model_source import ModelSource


@dataclass(frozen=True, slots=True)
class VectorFolder:
    """The paths of one model; nothing is read or written here but the lock."""

    path: Path
    source: ModelSource

    @classmethod
    def create(cls, data_dir: Path, source: ModelSource) -> "VectorFolder":
        """Return the folder of a data directory, which is created with mode 0700; raise OSError."""
        path = data_dir.expanduser().resolve() / "search-vectors"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path, source)

    @property
    def graph(self) -> Path:
        """The graph: a built one, or that of the operator's folder."""
        return self.source.locate_graph(self.path)

    @property
    def checksum(self) -> Path:
        """The SHA-256 of a built graph, which is written last."""
        return self.path / f"{self.source.digest}.sha256"

    @property
    def vectors(self) -> Path:
        """The vectors."""
        return self.path / f"{self.source.digest}.vectors"

    @property
    def status(self) -> Path:
        """The status."""
        return self.path / f"{self.source.digest}.json"

    def lock(self) -> int | None:
        """Return the file descriptor that holds the lock, until it is closed; None where another process has
        the lock. Raises OSError.
        """
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor
