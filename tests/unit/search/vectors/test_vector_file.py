"""The file of vectors: what was written is read, the nearer text counts, and a broken file is not used."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from app.search.signals import make_tool_key
from app.search.vectors.matrix import VectorMatrix
from app.search.vectors.vector_file import VectorFile, VectorFileError

MODEL = "0" * 32
TOOLS = [UUID(int=(7 << 64) | key) for key in (2**64 - 1, 5, 9)]
A, B, C = (bytes([letter]) * 32 for letter in b"abc")


def stored(*numbers: float) -> bytes:
    return np.array(numbers, dtype="<f2").tobytes()


@pytest.fixture
def matrix(tmp_path: Path) -> VectorMatrix:
    matrix = VectorMatrix(tmp_path / "vectors", MODEL, 2)
    matrix.pending = {A: stored(1, 0), B: stored(0, 1), C: stored(0.6, 0.8)}
    return matrix


def test_the_larger_cosine_of_a_tools_texts_counts(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, B)), (TOOLS[1], (C, None)), (TOOLS[2], (None, None))])
    file = VectorFile.open(matrix.path)
    keys = [make_tool_key(tool) for tool in TOOLS]
    found = file.compute_cosines(np.array([1, 0], np.float32), [*keys, 12345])
    assert found == [1.0, pytest.approx(0.6, abs=1e-3), None, None]
    assert file.compute_cosines(np.array([0, 1], np.float32), keys[:1]) == [1.0]
    assert file.compute_cosines(np.array([0, 1], np.float32), []) == []


def test_an_empty_file_has_no_cosines(matrix: VectorMatrix) -> None:
    matrix.write([])
    file = VectorFile.open(matrix.path)
    assert file.compute_cosines(np.array([1, 0], np.float32), [5]) == [None]
    assert file.find_nearest(np.array([1, 0], np.float32), 5) == []


def test_the_nearest_tools_are_those_of_the_nearest_first_texts(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, B)), (TOOLS[1], (C, None)), (TOOLS[2], (None, B))])
    file = VectorFile.open(matrix.path)
    keys = [make_tool_key(tool) for tool in TOOLS]
    assert file.find_nearest(np.array([0, 1], np.float32), 5) == [keys[1], keys[0]]
    assert file.find_nearest(np.array([1, 0], np.float32), 1) == [keys[0]]


def test_the_projection_finds_nearly_all_of_the_nearest(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    # Vectors of texts have few directions of much variance; these decline as those of the model do.
    vectors = random.normal(size=(5_000, 384)) * np.exp(-np.arange(384) / 80)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    matrix = VectorMatrix(tmp_path / "vectors", MODEL, 384)
    digests = [number.to_bytes(32, "big") for number in range(5_000)]
    matrix.pending = {digest: stored(*vector) for digest, vector in zip(digests, vectors, strict=True)}
    matrix.write([(UUID(int=number), (digest, None)) for number, digest in enumerate(digests)])
    file = VectorFile.open(matrix.path)
    share = 0.0
    for query in vectors[:20].astype(np.float32):
        exact = set(np.argsort(-(vectors @ query))[:50])
        share += len(exact.intersection(file.find_nearest(query, 50))) / 50 / 20
    assert share > 0.95


def test_a_text_of_several_tools_has_one_row(matrix: VectorMatrix) -> None:
    matrix.write([(tool, (A, B)) for tool in TOOLS])
    assert len(VectorFile.open(matrix.path).matrix) == 2


def test_a_later_process_uses_the_vectors_of_the_file(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, C))])
    later = VectorMatrix(matrix.path, MODEL, 2)
    later.adopt()
    assert [digest in later for digest in (A, B, C)] == [True, False, True]
    assert later.get_vector(C) == stored(0.6, 0.8)
    later.pending = {B: stored(0, 1)}
    later.write([(TOOLS[0], (A, B))])
    assert later.get_vector(A) == stored(1, 0)
    assert C not in later


def test_a_file_of_another_model_is_not_used(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, B))])
    for model, dimensions in (("1" * 32, 2), (MODEL, 3)):
        other = VectorMatrix(matrix.path, model, dimensions)
        other.adopt()
        assert A not in other


def test_a_mapping_outlives_the_file_that_replaces_it(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, None))])
    before = VectorFile.open(matrix.path)
    matrix.write([])
    assert before.compute_cosines(np.array([1, 0], np.float32), [make_tool_key(TOOLS[0])]) == [1.0]
    assert [path.name for path in matrix.path.parent.iterdir()] == ["vectors"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda whole: b"x" * len(whole),
        lambda whole: whole[:-1],
        lambda whole: whole + b"\0",
        lambda whole: whole[:8] + b"{".ljust(4_088) + whole[4_096:],
        lambda whole: whole.replace(b'"tools": 1', b'"tools":-1'),
    ],
)
def test_a_broken_file_is_not_used(matrix: VectorMatrix, damage: Callable[[bytes], bytes]) -> None:
    matrix.write([(TOOLS[0], (A, B))])
    matrix.path.write_bytes(damage(matrix.path.read_bytes()))
    with pytest.raises(VectorFileError):
        VectorFile.open(matrix.path)
    later = VectorMatrix(matrix.path, MODEL, 2)
    later.adopt()
    assert A not in later


def test_a_file_with_places_outside_its_rows_is_not_used(matrix: VectorMatrix) -> None:
    matrix.write([(TOOLS[0], (A, B)), (TOOLS[1], (C, None))])
    content = bytearray(matrix.path.read_bytes())
    # After the header, three digests and two keys.
    places = 4_096 + 3 * 32 + 2 * 8
    content[places : places + 4] = (1_000).to_bytes(4, "little")
    matrix.path.write_bytes(content)
    with pytest.raises(VectorFileError, match="damaged"):
        VectorFile.open(matrix.path)
