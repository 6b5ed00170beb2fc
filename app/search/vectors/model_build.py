"""Builds the graph of an installed model, once for each data directory."""

import hashlib
import json
import os
from pathlib import Path

from app.search.vectors.folder import VectorFolder
from app.search.vectors.model_source import ModelError, check_weights


def prepare_graph(folder: VectorFolder) -> None:
    """Build and store the graph, unless there is one of the stored SHA-256; do nothing for an operator's own.

    Takes about two seconds and 300 MB. Raises ModelError where the weights are not the published ones, and
    OSError.
    """
    weights = folder.source.weights
    if weights is None or _is_whole(folder):
        return
    check_weights(folder.source)
    # Only this process needs the library, which takes 40 MB.
    from app.search.vectors.onnx_graph import BertShape, build_bert_graph, read_safetensors  # noqa: PLC0415

    try:
        config = json.loads((weights.parent / "config.json").read_bytes())
        graph = build_bert_graph(read_safetensors(weights), BertShape.of(config))
    except (ValueError, KeyError) as error:
        raise ModelError(f"The model {weights.parent} cannot be used: {error}.") from None
    _store(folder.graph, graph)
    _store(folder.checksum, hashlib.sha256(graph).hexdigest().encode())


def _is_whole(folder: VectorFolder) -> bool:
    try:
        with folder.graph.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return folder.checksum.read_text("ascii").strip() == digest
    except (OSError, UnicodeDecodeError):
        return False


def _store(path: Path, content: bytes) -> None:
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
