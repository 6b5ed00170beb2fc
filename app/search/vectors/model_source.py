"""Where the model comes from: the folder that `packages/semantic` has built, or SEMANTIC_MODEL_DIR.

Nothing is downloaded or built. A folder has `model.onnx`, `tokenizer.json`, a file whose name begins with
LICENSE or LICENCE, and `SHA256SUMS`, as `sha256sum` writes it, with a line for each of them.
"""

import hashlib
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from app.core.errors import InvalidInput

INSTALLED: Final = Path(sys.prefix) / "share" / "utcp-gateway" / "all-MiniLM-L6-v2"
"""Where `make semantic` puts the model of the environment."""
MAX_TOKENS: Final = 64
"""Tokens of a text, the special ones included; what follows is not encoded."""
RECIPE: Final = f"bert-int8-1 tokens-{MAX_TOKENS} mean"
"""How models are used, as one text: a change of it makes gateways encode all texts anew."""
_SUM: Final = re.compile(r"([0-9a-f]{64}) [ *](.+)")
_MAX_SUMS: Final = 64 << 10
_LIBRARIES: Final = ("numpy", "onnxruntime", "tokenizers")


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
    graph: Path


def list_missing_libraries() -> list[str]:
    """Return the names of the libraries that a model needs, and that are not installed."""
    return [name for name in _LIBRARIES if find_spec(name) is None]


def find_model(folder: Path | None, *, installed: Path = INSTALLED) -> ModelSource | None:
    """Return the model of the folder, else the one that is built into `installed`, else None.

    Raises ModelError where the files are not those of its SHA256SUMS.
    """
    if folder is not None:
        return _read_folder(folder, "SEMANTIC_MODEL_DIR")
    return _read_folder(installed, "The installed model") if installed.exists() else None


def _read_folder(folder: Path, title: str) -> ModelSource:
    sums = _read_sums(folder / "SHA256SUMS", title)
    licences = [name for name in sums if name.upper().startswith(("LICENSE", "LICENCE"))]
    for name in ("model.onnx", "tokenizer.json"):
        if name not in sums:
            raise ModelError(f"{title}: {folder / 'SHA256SUMS'} has no line for {name}.")
    if not licences:
        raise ModelError(f"{title}: {folder / 'SHA256SUMS'} has no line for a licence.")
    for name, expected in sums.items():
        _check(folder / name, expected)
    return ModelSource(
        name=folder.resolve().name,
        digest=_digest(sums),
        tokenizer=folder / "tokenizer.json",
        graph=folder / "model.onnx",
    )


def _read_sums(path: Path, title: str) -> dict[str, str]:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_MAX_SUMS).splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(f"{title}: {path} cannot be read.") from None
    sums = {}
    for line in lines:
        match = _SUM.fullmatch(line)
        # Files of the folder itself only: `..` and absolute paths could name any file of the machine.
        if match is None or Path(match[2]).name != match[2]:
            raise ModelError(
                f"{title}: {path} must have lines of a SHA-256, two spaces and the name of a file."
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
