"""Runs a suite of the released clients, against its own upstreams or through a gateway."""

import json
import os
import subprocess
import tempfile
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.corpus.download import FOLDER as CORPUS
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.environments import install
from tests.interop.suites.sources import CLIENT_SIDE, ENVIRONMENT, Suite, folder_of

_SUITE_SECONDS: Final = 600


@dataclass(frozen=True)
class Outcome:
    """How a case ended. `requests` counts what the client asked of the gateway, 0 where it was not involved."""

    passed: bool
    requests: int
    error: str


def serve_for_suites(servers: Pair, folder: Path) -> AbstractContextManager[RunningGateway]:
    """A gateway that calls what the suites start: programs of the clients' interpreter, and files of the behaviours."""
    return serve(
        servers,
        folder,
        PROGRAMS=str(install(ENVIRONMENT)),
        PROGRAM_MEMORY_BYTES=str(4 << 30),
        FILE_FOLDERS=str(CLIENT_SIDE.parents[1] / "behaviours"),
    )


def run(suite: Suite, gateway: RunningGateway | None, *arguments: str) -> dict[str, Outcome]:
    """Return the outcomes of a suite's cases by `file::case`; `gateway` None runs it as it was released.

    Raise InstallError where the suite cannot be downloaded, and RuntimeError where pytest does not run.
    """
    folder = folder_of(suite)
    with tempfile.TemporaryDirectory() as scratch:
        report, configuration = Path(scratch) / "report.json", Path(scratch) / "pytest.ini"
        # In place of this project's, which pytest would find above the suite's files.
        configuration.write_text("[pytest]\n")
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CLIENT_SIDE),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SUITE_REPORT": str(report),
            "SUITE_MANUAL": suite.manual,
            "SUITE_DOCUMENTS": str(CORPUS / "package" / "api"),
        }
        if gateway is not None:
            environment |= {"SUITE_GATEWAY": gateway.url, "SUITE_KEY": gateway.key}
        command = [
            str(install(ENVIRONMENT)), "-m", "pytest", "-q", "-p", "swap", "-p", "no:cacheprovider",
            "--asyncio-mode=auto", "-c", str(configuration), *(str(folder / name) for name in suite.files), *arguments,
        ]  # fmt: skip
        done = subprocess.run(
            command, cwd=scratch, env=environment, capture_output=True, text=True, timeout=_SUITE_SECONDS, check=False
        )  # fmt: skip
        if done.returncode not in (0, 1) or not report.exists():
            raise RuntimeError(f"{suite.name}: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        found = json.loads(report.read_text())
    return {
        name: Outcome(one["outcome"] == "passed", one["requests"], one["error"])
        for name, one in found.items()
    }
