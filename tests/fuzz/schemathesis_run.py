"""Runs schemathesis in a process of its own against a gateway in which secrets are planted."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.coverage_table import FOLDER_VARIABLE
from tests.fuzz.planted import PlantedGateway

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("FUZZ_LONG"))
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "200" if LONG else "3"))
"""The number of generated requests of each operation."""
SECONDS = 7200 if LONG else 600
"""The time limit of a run; `.ci/run` has one of its own for all of them together."""
NEEDLES_VARIABLE = "FUZZ_NEEDLES"
"""The environment variable with the path of a JSON file: what no response may contain, by name."""
DOCUMENT_VARIABLE = "FUZZ_DOCUMENT"
"""The environment variable with the URL of an OpenAPI document that the upstream serves."""
SOURCE_VARIABLE = "FUZZ_SOURCE"
"""The environment variable with the source of the requests, for the table."""


@dataclass(frozen=True, slots=True)
class SchemathesisRun:
    """One run: its phases and seed, the API key, its checks, and how many examples each operation gets.

    `needles` are what no response may contain beside the planted secrets; `source` names the run in the table.
    `excluded` are ids of operations that it leaves out.
    """

    phases: str
    seed: str
    key: str
    examples: int
    source: str = "schemathesis"
    checks: str = "all"
    needles: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()

    def execute(self, planted: PlantedGateway, folder: Path, *, coverage: Path) -> None:
        """Run it; raise AssertionError with the report where it finds a failure.

        `folder` is for its files, `coverage` for the recordings.
        """
        needles = folder / "needles.json"
        others = {f"hidden {number}": text for number, text in enumerate(self.needles)}
        needles.write_text(json.dumps({**planted.secrets, **others}))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SCHEMATHESIS_HOOKS": "tests.fuzz.schemathesis_hooks",
            FOLDER_VARIABLE: str(coverage),
            NEEDLES_VARIABLE: str(needles),
            DOCUMENT_VARIABLE: planted.site.document_url("generated"),
            SOURCE_VARIABLE: self.source,
        }
        done = subprocess.run(
            self._command(planted.gateway.url), cwd=folder, env=environment, capture_output=True, text=True,
            timeout=SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-2000:]}"

    def _command(self, url: str) -> list[str]:
        return [
            str(Path(sys.executable).with_name("st")), "--config-file", str(ROOT / "schemathesis.toml"), "run",
            f"{url}/openapi.json", "--header", f"Authorization: Bearer {self.key}", "--checks", self.checks,
            "--mode", "all", "--phases", self.phases, "--max-examples", str(self.examples),
            "--seed", self.seed, "--workers", "1", "--request-timeout", "20", "--warnings", "off",
            "--continue-on-failure", *(f"--exclude-operation-id={name}" for name in self.excluded),
            *(("--exclude-checks", "positive_data_acceptance") if self.checks == "all" else ()),
        ]  # fmt: skip
