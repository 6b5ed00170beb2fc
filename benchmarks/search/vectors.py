"""Vectors of a pool's tools and queries, by the model of the extra `semantic`, as the gateway makes them.

Texts are encoded once: their vectors are stored in .corpus/, by the texts and the model.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np

from app.search_vectors.encoder import TextEncoder
from app.search_vectors.folder import VectorFolder
from app.search_vectors.matrix import VectorMatrix
from app.search_vectors.model_build import prepare_graph
from app.search_vectors.model_source import ModelSource, find_model, missing_libraries
from app.search_vectors.store import text_digest
from app.search_vectors.texts import DescribedTool, tool_texts
from app.search_vectors.tool_digests import Digests
from app.search_vectors.vector_file import VectorFile
from benchmarks.corpus.download import ROOT
from benchmarks.search.pool import PoolTool

_MODEL: Final = ROOT / ".venvs" / "semantic-model"
_STORED: Final = ROOT / ".corpus" / "search-vectors"


class NoModelError(Exception):
    """Raised where no model is installed; the text says what is missing."""


def model() -> ModelSource:
    """Return the model of `make semantic-model` or of this environment. Raises NoModelError."""
    if _MODEL.exists() and str(_MODEL) not in sys.path:
        sys.path.append(str(_MODEL))
    source = find_model(None)
    if source is None:
        raise NoModelError("no model is installed: make semantic-model installs it")
    missing = missing_libraries(source)
    if missing:
        raise NoModelError(f"not installed: {', '.join(missing)} (the extra `semantic`)")
    return source


@dataclass(frozen=True, slots=True)
class PoolVectors:
    """`QueryVectors` of a pool. Queries are encoded without a time limit, so that each run gives the same."""

    encoder: TextEncoder
    file: VectorFile
    candidates: int | None = None
    """How many candidates, best first by words, have cosines; None: all that the ranking asks for."""

    async def encode(self, text: str) -> Any:
        """Return the vector of a query."""
        return self.encoder.encode(text)

    def cosines(self, vector: Any, keys: Sequence[int]) -> Sequence[float | None]:
        """Return the cosine of each tool's nearer text, by `tool_key`."""
        known = keys if self.candidates is None else keys[: self.candidates]
        return [*self.file.cosines(vector, known), *[None] * (len(keys) - len(known))]

    def limited(self, candidates: int) -> "PoolVectors":
        """Return the same for the first candidates only."""
        return replace(self, candidates=candidates)

    def of_first_texts(self) -> "PoolVectors":
        """Return the same without the vectors of parameters and results."""
        places = self.file.places.copy()
        places[:, 1:] = -1
        return replace(self, file=replace(self.file, places=places))


def random_vectors(tools: Sequence[UUID]) -> PoolVectors:
    """Return vectors of tools that have no meaning, for measuring what they cost. Raises NoModelError."""
    encoder, source = _encoder()
    path = _STORED / "random.vectors"
    matrix = VectorMatrix(path, source.digest, len(encoder.encode("dimensions")))
    chance = np.random.default_rng(16)
    digests: list[tuple[UUID, Digests]] = []
    for tool in tools:
        pair = (tool.bytes + b"what".ljust(16), tool.bytes + b"members".ljust(16))
        for digest in pair:
            matrix.pending[digest] = chance.normal(0, 0.05, matrix.dimensions).astype("<f2").tobytes()
        digests.append((tool, pair))
    matrix.write(digests)
    found = PoolVectors(encoder, VectorFile.open(path))
    # It stays mapped.
    path.unlink()
    return found


def encoded(name: str, tools: Iterable[PoolTool]) -> PoolVectors:
    """Return the vectors of a pool; 17,000 tools take six minutes where they are not stored.

    `name` is that of the stored file. Raises NoModelError.
    """
    encoder, source = _encoder()
    path = _STORED / f"{name}.vectors"
    matrix = VectorMatrix(path, source.digest, len(encoder.encode("dimensions")))
    matrix.adopt()
    digests: list[tuple[UUID, Digests]] = []
    for tool in tools:
        texts = tool_texts(_described(tool))
        first, second = (text_digest(source.digest, text) if text else None for text in texts)
        for text, digest in zip(texts, (first, second), strict=True):
            if digest is not None and digest not in matrix:
                matrix.pending[digest] = encoder.encode(text).astype("<f2").tobytes()
        digests.append((tool.indexed.id, (first, second)))
    matrix.write(digests)
    return PoolVectors(encoder, VectorFile.open(path))


def _encoder() -> tuple[TextEncoder, ModelSource]:
    source = model()
    folder = VectorFolder.create(_STORED.parent, source)
    prepare_graph(folder)
    return TextEncoder(folder.graph, source.tokenizer), source


def _described(tool: PoolTool) -> DescribedTool:
    indexed = tool.indexed
    return DescribedTool(
        provider=indexed.provider,
        name=indexed.name,
        description=indexed.description,
        title=indexed.provider_title,
        inputs=indexed.inputs,
        outputs=tool.outputs,
    )
