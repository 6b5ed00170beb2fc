"""Models for tests of search by meaning: a tiny one of random weights, and the installed one."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from utcp_gateway_semantic.onnx_graph import Array, BertShape, build_bert_graph

ENVIRONMENTS = Path(__file__).parents[2] / ".venvs"
MODEL = ENVIRONMENTS / "semantic-model"
"""Where `make semantic-model` builds the model."""
SHAPE = BertShape(layers=2, hidden=24, heads=3, epsilon=1e-12)
_WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "create",
    "find",
    "delete",
    "a",
    "book",
    "coupon",
    "order",
    "loan",
    "voucher",
    "library",
    "in",
    "the",
    "for",
]
_INNER = 48
_SLOW_ROWS = 1_500


def built_model() -> Path:
    """Return the folder of the built model; skip the test where it is missing, or fail it in CI."""
    if not (MODEL / ".ready").exists():
        reason = f"the model is not in {MODEL}: `make semantic-model` builds it"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return MODEL / "all-MiniLM-L6-v2"


def installed_weights() -> Path:
    """Return the folder of modules that has the package of the weights; skip or fail as `built_model`."""
    built_model()
    (folder,) = (ENVIRONMENTS / "semantic-build").glob("lib/python*/site-packages")
    return folder


def random_weights(shape: BertShape = SHAPE, *, words: int = len(_WORDS), seed: int = 7) -> dict[str, Array]:
    """Return the weights of a BERT encoder, by the names of safetensors files."""
    random = np.random.default_rng(seed)

    def matrix(*size: int) -> Array:
        return random.normal(0.0, 0.5, size).astype(np.float32)

    def layer_norm(name: str) -> dict[str, Array]:
        return {f"{name}.weight": 1 + matrix(shape.hidden) / 10, f"{name}.bias": matrix(shape.hidden) / 10}

    def dense(name: str, inputs: int, outputs: int) -> dict[str, Array]:
        return {f"{name}.weight": matrix(outputs, inputs), f"{name}.bias": matrix(outputs) / 10}

    weights = {
        "embeddings.word_embeddings.weight": matrix(words, shape.hidden),
        "embeddings.position_embeddings.weight": matrix(64, shape.hidden) / 10,
        "embeddings.token_type_embeddings.weight": matrix(2, shape.hidden) / 10,
        **layer_norm("embeddings.LayerNorm"),
    }
    for number in range(shape.layers):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            weights |= dense(f"{layer}.attention.self.{part}", shape.hidden, shape.hidden)
        weights |= dense(f"{layer}.attention.output.dense", shape.hidden, shape.hidden)
        weights |= layer_norm(f"{layer}.attention.output.LayerNorm")
        weights |= dense(f"{layer}.intermediate.dense", shape.hidden, _INNER)
        weights |= dense(f"{layer}.output.dense", _INNER, shape.hidden)
        weights |= layer_norm(f"{layer}.output.LayerNorm")
    return weights


def slow_graph() -> bytes:
    """Return a graph that takes a tenth of a second for each text, which multiplies two matrices of 1,500 rows."""
    sizes = {"square": [_SLOW_ROWS, _SLOW_ROWS], "row": [1, SHAPE.hidden]}
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], keepdims=1),
        helper.make_node("Expand", ["mean", "square"], ["large"]),
        helper.make_node("MatMul", ["large", "large"], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["result"], keepdims=1),
        helper.make_node("Expand", ["result", "row"], ["sentence_embedding"]),
    ]
    graph = helper.make_graph(
        nodes,
        "slow",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["texts", SHAPE.hidden])],
        [numpy_helper.from_array(np.array(size, np.int64), name) for name, size in sizes.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def write_model(folder: Path, *, seed: int = 7, graph: bytes | None = None) -> Path:
    """Write a folder for SEMANTIC_MODEL_DIR, with a graph (else a tiny one of random weights), and return it."""
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(graph or build_bert_graph(random_weights(seed=seed), SHAPE))
    tokenizer = Tokenizer(
        models.WordPiece({word: number for number, word in enumerate(_WORDS)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "LICENSE").write_text("Anybody may use these random numbers.\n")
    write_sums(folder)
    return folder


def write_sums(folder: Path) -> None:
    """Write SHA256SUMS of all other files of a folder, as `sha256sum` does."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    ]
    (folder / "SHA256SUMS").write_text("".join(lines))


def safetensors(weights: dict[str, Array]) -> bytes:
    """Return a safetensors file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, values in weights.items():
        header[name] = {"dtype": "F32", "shape": values.shape, "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    head = json.dumps(header).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(one.tobytes() for one in weights.values())
