"""Writes the ONNX graph of a BERT sentence encoder with 8-bit weights, from its float weights.

The inputs are `input_ids` and `attention_mask` (int64, texts by tokens), the output is `sentence_embedding`
(float32, texts by numbers): the mean of the tokens' last states, of length 1. Weights of matrices are rounded
to 7 bits, one scale a column (`MatMulInteger`): sums of 16-bit pairs cannot overflow on processors without
VNNI, so that the integer part is the same on all. The table of words has 8 bits, one scale a row.

The format of the weights: https://github.com/huggingface/safetensors#format.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_OPSET: Final = 20
_VERSION: Final = "bert-int8-1"
_WEIGHT_MAX: Final = 63
_WORD_MAX: Final = 127
_MASKED: Final = -10_000.0
_MAX_HEADER: Final = 1 << 20

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class BertShape:
    """The numbers of a `config.json` that the graph depends on."""

    layers: int
    hidden: int
    heads: int
    epsilon: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "BertShape":
        """Return the shape that a `config.json` states; raise ValueError for another architecture."""
        if config.get("model_type") != "bert" or config.get("hidden_act") != "gelu":
            msg = "config.json is not that of a BERT encoder with GELU"
            raise ValueError(msg)
        return cls(
            config["num_hidden_layers"],
            config["hidden_size"],
            config["num_attention_heads"],
            config["layer_norm_eps"],
        )


def read_safetensors(path: Path) -> dict[str, Array]:
    """Return the float32 arrays of a safetensors file by name; raise ValueError where it is malformed."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(_MAX_HEADER, len(content) - 8):
        msg = f"{path.name} has no header"
        raise ValueError(msg)
    header = json.loads(content[8 : 8 + length])
    arrays = {}
    for name, entry in header.items():
        if name == "__metadata__" or entry["dtype"] != "F32":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        arrays[name] = np.frombuffer(content[begin:end], dtype="<f4").reshape(entry["shape"])
    return arrays


def build_bert_graph(weights: Mapping[str, Array], shape: BertShape, *, quantised: bool = True) -> bytes:
    """Return the serialised ONNX model; with `quantised=False` that of the float weights, for comparisons.

    Raises KeyError where a weight is missing.
    """
    return _Graph(weights, shape, quantised=quantised).build()


@dataclass(slots=True)
class _Graph:
    weights: Mapping[str, Array]
    shape: BertShape
    quantised: bool
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    named: set[str] = field(default_factory=set)

    def build(self) -> bytes:
        states = self._add_embeddings()
        mask = self._add_attention_bias()
        for layer in range(self.shape.layers):
            states = self._add_layer(f"encoder.layer.{layer}", states, mask)
        self._add_pooling(states)
        graph = helper.make_graph(
            self.nodes,
            "sentence_encoder",
            [
                helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
                for name in ("input_ids", "attention_mask")
            ],
            [
                helper.make_tensor_value_info(
                    "sentence_embedding", TensorProto.FLOAT, ["texts", self.shape.hidden]
                )
            ],
            self.constants,
        )
        model = helper.make_model(
            graph,
            producer_name="utcp-gateway",
            producer_version=_VERSION,
            opset_imports=[helper.make_opsetid("", _OPSET)],
            ir_version=9,
        )
        onnx.checker.check_model(model)
        return bytes(model.SerializeToString(deterministic=True))

    def _add_embeddings(self) -> str:
        words = self.weights["embeddings.word_embeddings.weight"]
        # All texts are of type 0.
        positions = self.weights["embeddings.position_embeddings.weight"]
        positions = positions + self.weights["embeddings.token_type_embeddings.weight"][0]
        if self.quantised:
            scale = np.maximum(np.abs(words).max(axis=1, keepdims=True), 1e-12) / _WORD_MAX
            rows = self._add_node(
                "Gather", self._add_constant("words", _round_values(words / scale)), "input_ids"
            )
            scales = self._add_node("Gather", self._add_constant("word_scales", scale), "input_ids")
            embedded = self._add_node("Mul", self._add_node("Cast", rows, to=TensorProto.FLOAT), scales)
        else:
            embedded = self._add_node("Gather", self._add_constant("words", words), "input_ids")
        length = self._add_node("Shape", "input_ids", start=1, end=2)
        chosen = self._add_node(
            "Slice",
            self._add_constant("positions", positions),
            self._add_integers(0),
            length,
            self._add_integers(0),
        )
        return self._add_normalisation("embeddings.LayerNorm", self._add_node("Add", embedded, chosen))

    def _add_attention_bias(self) -> str:
        """Return what is added to the attention: 0 for a token, a large negative number for padding."""
        wide = self._add_node("Unsqueeze", "attention_mask", self._add_integers(1, 2))
        inverse = self._add_node(
            "Sub", self._add_float(1.0), self._add_node("Cast", wide, to=TensorProto.FLOAT)
        )
        return self._add_node("Mul", inverse, self._add_float(_MASKED))

    def _add_layer(self, name: str, states: str, mask: str) -> str:
        attention = f"{name}.attention"
        width = self.shape.hidden // self.shape.heads
        # One multiplication in place of three: query, key, value.
        parts = [f"{attention}.self.{part}" for part in ("query", "key", "value")]
        weight = np.concatenate([self.weights[f"{part}.weight"].T for part in parts], axis=1)
        bias = np.concatenate([self.weights[f"{part}.bias"] for part in parts])
        weight[:, : self.shape.hidden] /= np.sqrt(width)
        bias[: self.shape.hidden] /= np.sqrt(width)
        together = self._add_linear(f"{attention}.self", states, weight, bias)
        split = self._add_node("Reshape", together, self._add_integers(0, 0, 3, self.shape.heads, width))
        # The parts first, then texts, heads, tokens, numbers.
        split = self._add_node("Transpose", split, perm=[2, 0, 3, 1, 4])
        query, key, value = (
            self._add_node("Gather", split, self._add_constant(f"part{part}", np.array(part)), axis=0)
            for part in range(3)
        )
        scores = self._add_node("MatMul", query, self._add_node("Transpose", key, perm=[0, 1, 3, 2]))
        shares = self._add_node("Softmax", self._add_node("Add", scores, mask), axis=-1)
        mixed = self._add_node("Transpose", self._add_node("MatMul", shares, value), perm=[0, 2, 1, 3])
        mixed = self._add_node("Reshape", mixed, self._add_integers(0, 0, self.shape.hidden))
        attended = self._add_dense(f"{attention}.output.dense", mixed)
        states = self._add_normalisation(
            f"{attention}.output.LayerNorm", self._add_node("Add", attended, states)
        )
        inner = self._add_node("Gelu", self._add_dense(f"{name}.intermediate.dense", states))
        outer = self._add_dense(f"{name}.output.dense", inner)
        return self._add_normalisation(f"{name}.output.LayerNorm", self._add_node("Add", outer, states))

    def _add_pooling(self, states: str) -> None:
        """The mean of the states of tokens, divided by its length."""
        mask = self._add_node("Cast", "attention_mask", to=TensorProto.FLOAT)
        mask = self._add_node("Unsqueeze", mask, self._add_integers(2))
        total = self._add_node(
            "ReduceSum", self._add_node("Mul", states, mask), self._add_integers(1), keepdims=0
        )
        # The direction of the sum is that of the mean.
        self.nodes.append(helper.make_node("LpNormalization", [total], ["sentence_embedding"], axis=-1, p=2))

    def _add_dense(self, name: str, states: str) -> str:
        return self._add_linear(name, states, self.weights[f"{name}.weight"].T, self.weights[f"{name}.bias"])

    def _add_linear(self, name: str, states: str, weight: Array, bias: Array) -> str:
        bias_name = self._add_constant(f"{name}.bias", bias)
        if not self.quantised:
            product = self._add_node("MatMul", states, self._add_constant(f"{name}.weight", weight))
            return self._add_node("Add", product, bias_name)
        scale = np.maximum(np.abs(weight).max(axis=0), 1e-12) / _WEIGHT_MAX
        levels, level_scale, zero = self._add_nodes("DynamicQuantizeLinear", 3, states)
        product = self._add_node(
            "MatMulInteger",
            levels,
            self._add_constant(f"{name}.levels", _round_values(weight / scale)),
            zero,
            self._add_constant("no_zero_point", np.zeros((), np.int8)),
        )
        scales = self._add_node("Mul", level_scale, self._add_constant(f"{name}.scales", scale))
        product = self._add_node("Mul", self._add_node("Cast", product, to=TensorProto.FLOAT), scales)
        return self._add_node("Add", product, bias_name)

    def _add_normalisation(self, name: str, states: str) -> str:
        scale = self._add_constant(f"{name}.weight", self.weights[f"{name}.weight"])
        bias = self._add_constant(f"{name}.bias", self.weights[f"{name}.bias"])
        return self._add_node("LayerNormalization", states, scale, bias, axis=-1, epsilon=self.shape.epsilon)

    def _add_node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        return self._add_nodes(operator, 1, *inputs, **attributes)[0]

    def _add_nodes(self, operator: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        number = len(self.nodes)
        names = [f"{operator}_{number}_{output}" for output in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def _add_constant(self, name: str, values: Array) -> str:
        if name not in self.named:
            self.named.add(name)
            stored = np.ascontiguousarray(values.astype(np.float32) if values.dtype.kind == "f" else values)
            self.constants.append(numpy_helper.from_array(stored.reshape(values.shape), name))
        return name

    def _add_integers(self, *values: int) -> str:
        return self._add_constant(f"integers_{'_'.join(map(str, values))}", np.array(values, np.int64))

    def _add_float(self, value: float) -> str:
        return self._add_constant(f"float_{value}", np.array(value, np.float32))


def _round_values(values: Array) -> Array:
    return np.rint(values).astype(np.int8)
