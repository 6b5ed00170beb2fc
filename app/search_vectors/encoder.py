"""Encodes texts by a model: tokens, graph, mean of the tokens, length 1."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from app.search_vectors.model_source import ModelError
from app.search_vectors.recipe import MAX_TOKENS

Array = np.ndarray[Any, np.dtype[Any]]
_SENTENCE: Final = "sentence_embedding"
_ERRORS_ONLY: Final = 3
_MAX_CHARACTERS: Final = 1_000


class TextEncoder:
    """A model in memory, with one thread; not thread-safe."""

    def __init__(self, graph: Path, tokenizer: Path) -> None:
        """Load the model; raise ModelError where its files cannot be used."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # The arena would keep the memory of the longest text for ever.
        options.enable_cpu_mem_arena = False
        try:
            self._session = onnxruntime.InferenceSession(
                str(graph), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # noqa: BLE001 - both libraries raise errors without a common class.
            raise ModelError(f"The model {graph} cannot be loaded ({type(error).__name__}).") from None
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()
        self._inputs = {one.name for one in self._session.get_inputs()}
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = _SENTENCE if _SENTENCE in outputs else outputs[0]
        unknown = self._inputs - {"input_ids", "attention_mask", "token_type_ids"}
        if unknown:
            raise ModelError(
                f"The model {graph} has inputs that are not known: {', '.join(sorted(unknown))}."
            )

    def encode(self, text: str) -> Array:
        """Return the vector of a text (float32, length 1); raise ModelError where the model fails.

        Each text is a batch of its own: 8-bit graphs scale a batch as a whole, so that the vectors of a text
        would depend on the others, and a batch takes no less time a text with one thread.
        """
        # Tokenizers take no lone surrogates.
        readable = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        tokens = np.array([self._tokenizer.encode(readable).ids], dtype=np.int64)
        known: Mapping[str, Array] = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        try:
            states = self._session.run([self._output], {name: known[name] for name in self._inputs})[0]
        except Exception as error:  # noqa: BLE001 - as above.
            raise ModelError(f"The model cannot encode a text ({type(error).__name__}).") from None
        if getattr(states, "ndim", 0) not in (2, 3) or 0 in states.shape:
            raise ModelError("The output of the model is neither a vector of the text nor one of each token.")
        vector: Array = states[0].mean(axis=0) if states.ndim == 3 else states[0]
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0.0:
            raise ModelError("The model returned no finite vector.")
        return np.asarray(vector / length, dtype=np.float32)
