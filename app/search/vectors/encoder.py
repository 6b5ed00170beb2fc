"""Encodes texts by a model: tokens, graph, mean of the tokens, length 1."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from app.search.vectors.model_source import MAX_TOKENS, ModelError

Array = np.ndarray[Any, np.dtype[Any]]
_SENTENCE: Final = "sentence_embedding"
_ERRORS_ONLY: Final = 3
_MAX_CHARACTERS: Final = 1_000
_TRIED: Final = ("first", "another one, of more words")
_PANIC: Final = "PanicException"


class TextEncoder:
    """A model in memory, with one thread; not thread-safe. `dimensions` is the length of its vectors."""

    def __init__(self, graph: Path, tokenizer: Path) -> None:
        """Load the model and try it; raise ModelError where it cannot be used."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # The arena would keep the memory of the longest text for ever.
        options.enable_cpu_mem_arena = False
        with _convert_library_errors(f"The model {graph} cannot be loaded"):
            self._session = onnxruntime.InferenceSession(
                str(graph), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
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
        # Texts of different numbers of tokens: an output with a number for each token is no vector of a text.
        lengths = {len(self._encode_text(text)) for text in _TRIED}
        if len(lengths) > 1:
            raise ModelError(f"The model {graph} has vectors of another length for each text.")
        (self.dimensions,) = lengths

    def encode(self, text: str) -> Array:
        """Return the vector of a text (float32, length 1); raise ModelError where the model fails.

        Each text is a batch of its own: 8-bit graphs scale a batch as a whole, so that the vectors of a text
        would depend on the others, and a batch takes no less time a text with one thread.
        """
        vector = self._encode_text(text)
        if len(vector) != self.dimensions:
            raise ModelError("The model returned a vector of another length than for other texts.")
        return vector

    def _encode_text(self, text: str) -> Array:
        # Tokenizers take no lone surrogates.
        readable = text[:_MAX_CHARACTERS].encode("utf-8", "replace").decode()
        with _convert_library_errors("The model cannot encode a text"):
            tokens = np.array([self._tokenizer.encode(readable).ids], dtype=np.int64)
            known: Mapping[str, Array] = {
                "input_ids": tokens,
                "attention_mask": np.ones_like(tokens),
                "token_type_ids": np.zeros_like(tokens),
            }
            states = self._session.run([self._output], {name: known[name] for name in self._inputs})[0]
        if not isinstance(states, np.ndarray) or not np.issubdtype(states.dtype, np.floating):
            raise ModelError("The output of the model is not made of floating-point numbers.")
        if states.ndim not in (2, 3) or 0 in states.shape:
            raise ModelError("The output of the model is neither a vector of the text nor one of each token.")
        vector: Array = states[0].astype(np.float32)
        if vector.ndim > 1:
            vector = vector.mean(axis=0)
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0.0:
            raise ModelError("The model returned no finite vector.")
        return np.asarray(vector / length, dtype=np.float32)


@contextlib.contextmanager
def _convert_library_errors(sentence: str) -> Iterator[None]:
    """Raise ModelError with the sentence and the name of the error where a library raises one.

    The libraries have no common class of errors, and a panic of the tokenizer, which is written in Rust, is
    not even an Exception. The texts of their errors may quote the text.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as said above.
        raise ModelError(f"{sentence} ({type(error).__name__}).") from None
    except BaseException as error:
        if type(error).__name__ != _PANIC:
            raise
        raise ModelError(f"{sentence} ({_PANIC}).") from None
