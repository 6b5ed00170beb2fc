"""M16 of another program, swagger-client: the requests that it builds for the cases of the strata."""

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from app.protocols.requests.plan_compiler import PreparedRequest
from benchmarks.corpus.cases import URL, Bundle, Case, bundle, given_of
from benchmarks.corpus.download import CorpusUnavailableError, swagger_client
from benchmarks.corpus.execution import check_wire
from benchmarks.corpus.reading import Json
from benchmarks.corpus.records import Finding, Record
from benchmarks.corpus.strata import OWN_INPUTS, STRATA, cases_of

_SCRIPT = Path(__file__).with_suffix(".cjs")


class Agreement(NamedTuple):
    """The numbers of cases with the expected request, one that is equal once decoded, and a different one."""

    same: int
    equivalent: int
    different: int


@dataclass(frozen=True)
class PrebuiltRequest:
    """A request that was built before, in place of the compiled plan that the comparison expects."""

    built: Json

    def prepare(self, _arguments: Json) -> PreparedRequest:
        """Return the request."""
        body = self.built["body"]
        return PreparedRequest(
            self.built["method"],
            self.built["url"],
            list(self.built["headers"].items()),
            None if body is None else base64.b64decode(body),
        )


def compare_swagger_client(seed: str, each: int) -> dict[str, list[Record]]:
    """Compare `each` cases of every stratum with the tables. Raises CorpusUnavailableError."""
    shared = [name for name in STRATA if name not in OWN_INPUTS]
    listed = [(name, case) for name in shared for case in cases_of(name, seed, each)]
    bundles = [bundle([case], server=URL) for _, case in listed]
    inputs = [_script_input(case, whole) for (_, case), whole in zip(listed, bundles, strict=True)]
    records: dict[str, list[Record]] = {name: [] for name in shared}
    for (name, case), whole, built in zip(listed, bundles, _built(inputs), strict=True):
        records[name].append(_compare(case, whole, built, name))
    return records


def _script_input(case: Case, whole: Bundle) -> Json:
    """Return a case as input of the script, where names with several locations are `location.name`."""
    parameters = {
        f"{one['in']}.{one['name']}": value
        for one, value in zip(case.parameters, case.values, strict=True)
    }  # fmt: skip
    arguments: Json = {"spec": whole.made, "operationId": "case0", "parameters": parameters}
    if case.body is None:
        return arguments
    media = next(iter(case.body["content"]))
    if case.twin is not None:
        parameters |= {f"formData.{name}": value for name, value in case.value.items()}
        return arguments | {"fileNames": [f"formData.{name}" for name in sorted(case.files)]}
    arguments |= {"requestBody": case.value, "requestContentType": media}
    if media == "application/octet-stream":
        arguments["binary"] = True
    if case.files:
        arguments["fileNames"] = sorted(case.files)
    return arguments


def _built(inputs: Sequence[Json]) -> list[Json]:
    node = shutil.which("node")
    if node is None:
        raise CorpusUnavailableError("Node.js is not installed")
    command = [node, str(_SCRIPT), str(swagger_client())]
    lines = "".join(json.dumps(one) + "\n" for one in inputs)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise CorpusUnavailableError(f"swagger-client does not run on this Node.js: {done.stderr[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _compare(case: Case, whole: Bundle, built: Json, name: str) -> Record:
    [pair] = whole.pairs
    record = Record(pair.operation.key, f"/{name}")
    given = given_of(case, pair)
    if "error" in built or given is None:
        record.check(f"M16 {name}", False, expected="a request", got=built)
        return record
    check_wire(pair, PrebuiltRequest(built), given, f"M16 {name}", record)
    return record


def agreements(seed: str, each: int) -> dict[str, Agreement]:
    """Return the agreement of swagger-client with the tables in every stratum."""
    made = {}
    for name, records in compare_swagger_client(seed, each).items():
        wrong = [record for record in records if record.findings]
        equivalent = [record for record in wrong if all(map(_equal_once_decoded, record.findings))]
        made[name] = Agreement(len(records) - len(wrong), len(equivalent), len(wrong) - len(equivalent))
    return made


def agreements_table(found: dict[str, Agreement]) -> str:
    """Return the agreements as a table."""
    rows = [("stratum", *Agreement._fields), *((name, *counts) for name, counts in found.items())]
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    return "\n".join(f"{a:30}{b:>12}{c:>12}{d:>12}" for a, b, c, d in [*rows, ("all", *total)])


def _equal_once_decoded(finding: Finding) -> bool:
    return unquote(finding.expected) == unquote(finding.got)
