"""Vectors of a pool's tools and queries, by the model of the extra `semantic`, as the gateway makes them.

Texts are encoded once: their vectors are stored in .corpus/search-vectors, by the texts and the model.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import numpy as np

from app.search.index import IndexedTool
from app.search.vectors.encoder import TextEncoder
from app.search.vectors.folder import VectorFolder
from app.search.vectors.matrix import VectorMatrix
from app.search.vectors.model_source import ModelSource, find_model, list_missing_libraries
from app.search.vectors.store import digest_text
from app.search.vectors.texts import DescribedTool, write_tool_texts
from app.search.vectors.tool_digests import Digests
from app.search.vectors.vector_file import VectorFile
from benchmarks.corpus.download import ROOT

_MODEL: Final = ROOT / ".venvs" / "semantic-model" / "all-MiniLM-L6-v2"
_CORPUS: Final = ROOT / ".corpus"
_DIGEST_BYTES: Final = 32


class NoModelError(Exception):
    """Raised where no model is installed; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class PoolVectors:
    """`QueryVectors` of a pool. Queries are encoded without a time limit, so that each run gives the same."""

    encoder: TextEncoder
    file: VectorFile
    candidates: int | None = None
    """How many candidates, best first by words, have cosines; None: all that the ranking asks for, which also
    has the nearest tools among its candidates.
    """

    async def encode(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.encoder.encode(text)

    def compute_cosines(self, vector: Any, keys: Sequence[int]) -> Sequence[float | None]:
        """Return the cosine of each tool's nearer text, by `make_tool_key`."""
        known = keys if self.candidates is None else keys[: self.candidates]
        return [*self.file.compute_cosines(vector, known), *[None] * (len(keys) - len(known))]

    def find_nearest(self, vector: Any, limit: int) -> Sequence[int]:
        """Return the keys of the nearest tools; none where the candidates are limited."""
        return () if self.candidates is not None else self.file.find_nearest(vector, limit)

    def limited(self, candidates: int) -> "PoolVectors":
        """Return the same for the first candidates by words only."""
        return replace(self, candidates=candidates)

    def of_first_texts(self) -> "PoolVectors":
        """Return the same without the vectors of the texts with the provider's title."""
        places = self.file.places.copy()
        places[:, 1:] = -1
        return replace(self, file=replace(self.file, places=places))


def encoded(name: str, tools: Iterable[IndexedTool]) -> PoolVectors:
    """Return the vectors of a pool; 17,000 tools take six minutes where they are not stored.

    `name` is that of the stored file. Raises NoModelError.
    """
    encoder, folder = _encoder()
    store = folder.path / f"{name}-{folder.source.digest}.npz"
    known = _stored(store)
    count = len(known)
    digests: list[tuple[UUID, Digests]] = []
    for tool in tools:
        texts = write_tool_texts(_described(tool))
        first, second = (digest_text(folder.source.digest, text) if text else None for text in texts)
        for text, digest in zip(texts, (first, second), strict=True):
            if digest is not None and digest not in known:
                known[digest] = encoder.encode(text).astype("<f2").tobytes()
        digests.append((tool.id, (first, second)))
    if len(known) > count:
        keys = np.frombuffer(b"".join(known), "u1").reshape(-1, _DIGEST_BYTES)
        vectors = np.frombuffer(b"".join(known.values()), "<f2").reshape(len(known), -1)
        np.savez(store, keys=keys, vectors=vectors)
    return PoolVectors(encoder, _file(folder, known, digests))


def random_vectors(tools: Sequence[UUID]) -> PoolVectors:
    """Return vectors of tools that have no meaning, for measuring what they cost. Raises NoModelError."""
    encoder, folder = _encoder()
    chance = np.random.default_rng(16)
    dimensions = len(encoder.encode("dimensions"))
    vectors: dict[bytes, bytes] = {}
    digests: list[tuple[UUID, Digests]] = []
    for tool in tools:
        pair = (tool.bytes + b"what".ljust(16), tool.bytes + b"members".ljust(16))
        for digest in pair:
            vectors[digest] = chance.normal(0, 0.05, dimensions).astype("<f2").tobytes()
        digests.append((tool, pair))
    return PoolVectors(encoder, _file(folder, vectors, digests))


def _stored(store: Path) -> dict[bytes, bytes]:
    if not store.exists():
        return {}
    with np.load(store) as found:
        pairs = zip(found["keys"], found["vectors"], strict=True)
        return {key.tobytes(): vector.tobytes() for key, vector in pairs}


def _file(
    folder: VectorFolder, vectors: dict[bytes, bytes], digests: Sequence[tuple[UUID, Digests]]
) -> VectorFile:
    """Return the mapped file of these vectors, which is deleted at once."""
    path = folder.path / "pool.vectors"
    dimensions = len(next(iter(vectors.values()))) // 2
    matrix = VectorMatrix(path, folder.source.digest, dimensions)
    matrix.pending.update(vectors)
    matrix.write(digests)
    found = VectorFile.open(path)
    path.unlink()
    return found


def _encoder() -> tuple[TextEncoder, VectorFolder]:
    source: ModelSource | None = find_model(_MODEL if _MODEL.exists() else None)
    if source is None:
        raise NoModelError("no model is built: make semantic-model builds it")
    missing = list_missing_libraries()
    if missing:
        raise NoModelError(f"not installed: {', '.join(missing)} (the extra `semantic`)")
    folder = VectorFolder.create(_CORPUS, source)
    return TextEncoder(source.graph, source.tokenizer), folder


def _described(tool: IndexedTool) -> DescribedTool:
    return DescribedTool(
        provider=tool.provider,
        name=tool.name,
        description=tool.description,
        title=tool.provider_title,
    )
