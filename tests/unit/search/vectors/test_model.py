"""The model: only checked files are used, and what is no model is rejected by name."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.search.vectors.encoder import TextEncoder, _convert_library_errors
from app.search.vectors.model_source import MAX_TOKENS, ModelError, find_model
from tests.harness.semantic_models import SHAPE, write_model, write_sums


def encoder_of(folder: Path) -> TextEncoder:
    return TextEncoder(folder / "model.onnx", folder / "tokenizer.json")


def test_a_text_has_the_same_vector_each_time_and_is_cut_at_64_tokens(tmp_path: Path) -> None:
    encoder = encoder_of(write_model(tmp_path / "model"))
    long = "book " * 500
    np.testing.assert_array_equal(encoder.encode(long), encoder.encode("book " * (MAX_TOKENS - 2)))
    assert encoder.encode("lone \ud800 surrogate").shape == (SHAPE.hidden,)


def test_a_folder_is_a_model_of_its_own_digest(tmp_path: Path) -> None:
    one, other = (find_model(write_model(tmp_path / str(seed), seed=seed)) for seed in (1, 2))
    assert one is not None
    assert other is not None
    assert (one.name, one.graph) == ("1", tmp_path / "1" / "model.onnx")
    assert one.digest != other.digest


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "LICENSE"])
def test_a_changed_file_is_not_used(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "model")
    (folder / name).write_bytes((folder / name).read_bytes() + b"\n")
    with pytest.raises(ModelError, match=f"{name} has the SHA-256"):
        find_model(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "SHA256SUMS").unlink(), "SHA256SUMS cannot be read"),
        (lambda folder: (folder / "SHA256SUMS").write_text("no sums\n"), "must have lines of a SHA-256"),
        (
            lambda folder: (folder / "SHA256SUMS").write_text(f"{'0' * 64}  ../model.onnx\n"),
            "must have lines",
        ),
        (lambda folder: [(folder / "LICENSE").unlink(), write_sums(folder)], "no line for a licence"),
        (lambda folder: [(folder / "model.onnx").unlink(), write_sums(folder)], "no line for model.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json cannot be read"),
    ],
)
def test_a_folder_that_is_not_whole_is_rejected(tmp_path: Path, change, message: str) -> None:
    folder = write_model(tmp_path / "model")
    change(folder)
    with pytest.raises(ModelError, match=message):
        find_model(folder)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_files_that_are_no_model_are_rejected_by_name(tmp_path: Path, name: str) -> None:
    folder = write_model(tmp_path / "model")
    (folder / name).write_bytes(b"no model")
    with pytest.raises(ModelError, match="cannot be loaded"):
        TextEncoder(folder / "model.onnx", folder / "tokenizer.json")


def output_graph(nodes: list[onnx.NodeProto], kind: int) -> bytes:
    """Return a graph of these nodes, from `input_ids` to an output `result` of an element type."""
    shape = ["texts", "tokens"]
    graph = helper.make_graph(
        nodes,
        "output",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("result", kind, shape)],
        [numpy_helper.from_array(np.array([0], np.int64), "zero")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("node", "kind", "message"),
    [
        (
            helper.make_node("Cast", ["input_ids"], ["result"], to=TensorProto.STRING),
            TensorProto.STRING,
            "floating-point",
        ),
        (helper.make_node("Greater", ["input_ids", "zero"], ["result"]), TensorProto.BOOL, "floating-point"),
        (helper.make_node("Add", ["input_ids", "zero"], ["result"]), TensorProto.INT64, "floating-point"),
        # A number for each token.
        (
            helper.make_node("Cast", ["input_ids"], ["result"], to=TensorProto.FLOAT),
            TensorProto.FLOAT,
            "another length",
        ),
    ],
    ids=["texts", "truth values", "integers", "varying length"],
)
def test_a_model_whose_output_is_no_vector_is_rejected_when_it_is_loaded(
    tmp_path: Path, node: onnx.NodeProto, kind: int, message: str
) -> None:
    folder = write_model(tmp_path / "model", graph=output_graph([node], kind))
    with pytest.raises(ModelError, match=message):
        TextEncoder(folder / "model.onnx", folder / "tokenizer.json")


def test_an_error_of_the_tokenizer_is_one_of_the_model_and_quotes_no_text(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    content = json.loads((folder / "tokenizer.json").read_text())
    # Without its word for unknown ones, a tokenizer fails for texts that have some.
    content["model"]["vocab"] = {
        word: number for word, number in content["model"]["vocab"].items() if word != "[UNK]"
    }
    content["model"]["vocab"] |= dict.fromkeys(("first", "another", "one", ",", "of", "more", "words"), 1)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    encoder = TextEncoder(folder / "model.onnx", folder / "tokenizer.json")
    with pytest.raises(ModelError, match=r"^The model cannot encode a text \(\w+\)\.$"):
        encoder.encode("unknown words")


def test_a_panic_of_a_library_is_an_error_of_the_model() -> None:
    class PanicException(BaseException):
        """As that of PyO3, which cannot be imported."""

    with (
        pytest.raises(ModelError, match=r"^It failed \(PanicException\)\.$"),
        _convert_library_errors("It failed"),
    ):
        raise PanicException("a text")
    with pytest.raises(KeyboardInterrupt), _convert_library_errors("It failed"):
        raise KeyboardInterrupt


def test_the_model_of_the_environment_is_used_where_there_is_one(tmp_path: Path) -> None:
    installed = tmp_path / "all-MiniLM-L6-v2"
    assert find_model(None, installed=installed) is None
    write_model(installed)
    source = find_model(None, installed=installed)
    assert source is not None
    assert (source.name, source.graph) == ("all-MiniLM-L6-v2", installed / "model.onnx")
    (installed / "model.onnx").write_bytes(b"another")
    with pytest.raises(ModelError, match=r"model.onnx has the SHA-256"):
        find_model(None, installed=installed)
    (installed / "SHA256SUMS").unlink()
    with pytest.raises(ModelError, match=r"^The installed model: .*SHA256SUMS cannot be read"):
        find_model(None, installed=installed)


def test_the_libraries_of_the_worker_open_no_connection() -> None:
    # `tokenizers` declares a dependency on a client of a model hub, which is never imported.
    assert "app.search.vectors.encoder" in sys.modules
    assert "huggingface_hub" not in sys.modules
