"""The clients' own suites: which packages carry them, and which of their files are run.

The packages are under MPL-2.0. They are downloaded into `.venvs/`, and nothing of them is part of this repository.
"""

import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.interop.environments import FOLDER, InstallError

CLIENT_SIDE = Path(__file__).parent / "client_side"
ENVIRONMENT = "utcp-plugins"
_DOWNLOAD_SECONDS = 300


@dataclass(frozen=True)
class Suite:
    """A suite: the files `tests/test_*.py` of a package. `manual` is the mode of the manuals that its client is given."""

    name: str
    package: str
    files: tuple[str, ...]
    manual: Literal["gateway", "direct"] = "gateway"
    servers: tuple[str, ...] = ()
    """Programs that the suite starts and that the package does not contain: names for `client_side/mcp_server.py`."""


HTTP, SOCKET = "utcp-http==1.1.15", "utcp-socket==1.1.1"
SUITES = (
    Suite("http", HTTP, ("test_http_communication_protocol.py",)),
    Suite("sse", HTTP, ("test_sse_communication_protocol.py",)),
    Suite("streamable_http", HTTP, ("test_streamable_http_communication_protocol.py",)),
    Suite("text", "utcp-text==1.1.0", ("test_text_communication_protocol.py",), "direct"),
    Suite("tcp", SOCKET, ("test_tcp_communication_protocol.py",), "direct"),
    Suite("udp", SOCKET, ("test_udp_communication_protocol.py",), "direct"),
    Suite("graphql", "utcp-gql==1.1.6", ("test_graphql_integration.py",)),
    Suite(
        "mcp", "utcp-mcp==1.2.0", ("test_mcp_transport.py", "test_mcp_http_transport.py"),
        servers=("mock_mcp_server.py", "mock_http_mcp_server.py"),
    ),
    Suite(
        "openapi", HTTP,
        ("test_openapi_converter.py", "test_openapi_converter_auth.py", "test_auth_tools.py"), "direct",
    ),
)  # fmt: skip


def suite_named(name: str) -> Suite:
    """Return the suite of this name."""
    return next(suite for suite in SUITES if suite.name == name)


def folder_of(suite: Suite) -> Path:
    """Return the folder of the suite's files, downloaded if necessary; raise InstallError where pip fails."""
    folder = FOLDER / "suites" / suite.package.replace("==", "-")
    if not (folder / ".ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _unpack(_downloaded(suite.package, folder), folder)
        (folder / ".ready").touch()
    for name in suite.servers:
        shutil.copyfile(CLIENT_SIDE / "mcp_server.py", folder / "tests" / name)
    return folder / "tests"


def _downloaded(package: str, folder: Path) -> Path:
    options = ("--quiet", "--no-deps", "--no-binary", ":all:", "--dest", str(folder))
    command = [sys.executable, "-m", "pip", "download", *options, package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise InstallError(f"{package} was not downloaded within {_DOWNLOAD_SECONDS} s") from None
    if done.returncode:
        raise InstallError(f"{package} cannot be downloaded: {done.stderr[-500:]}")
    (archive,) = folder.glob("*.tar.gz")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of `tests/`; an archive has one folder at its root."""
    with tarfile.open(archive) as packed:
        for member in packed:
            inside = Path(*Path(member.name).parts[1:])
            if inside.parts[:1] == ("tests",) and member.isfile():
                member.name = str(inside)
                packed.extract(member, folder, filter="data")
    archive.unlink()


if __name__ == "__main__":
    for each in SUITES:
        print(folder_of(each))
