"""M16 of another program: the requests that swagger-client builds for the cases of the strata."""

import base64
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from app.http_requests.plan_compiler import PreparedRequest
from benchmarks.corpus.cases import URL, Bundle, Case, bundle, given_of
from benchmarks.corpus.download import CorpusUnavailableError, swagger_client
from benchmarks.corpus.execution import check_wire
from benchmarks.corpus.reading import Json
from benchmarks.corpus.records import Finding, Record
from benchmarks.corpus.strata import STRATA, cases_of

_SCRIPT = Path(__file__).with_suffix(".cjs")


class Verdict(NamedTuple):
    """The numbers of cases with the request of the tables, an equivalent one once decoded, and another."""

    same: int
    spelled: int
    other: int


@dataclass(frozen=True)
class Answered:
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


def judge_swagger_client(seed: str, each: int) -> dict[str, list[Record]]:
    """Compare `each` cases of every stratum with the tables. Raises CorpusUnavailableError."""
    listed = [(name, case) for name in STRATA for case in cases_of(name, seed, each)]
    bundles = [bundle([case], server=URL) for _, case in listed]
    asked = [_asked(case, whole) for (_, case), whole in zip(listed, bundles, strict=True)]
    records: dict[str, list[Record]] = {name: [] for name in STRATA}
    for (name, case), whole, built in zip(listed, bundles, _built(asked), strict=True):
        records[name].append(_judge(case, whole, built, name))
    return records


def _asked(case: Case, whole: Bundle) -> Json:
    """Return a case as input of the script, where names with several locations are `location.name`."""
    parameters = {
        f"{one['in']}.{one['name']}": value
        for one, value in zip(case.parameters, case.values, strict=True)
    }  # fmt: skip
    asked: Json = {"spec": whole.made, "operationId": "case0", "parameters": parameters}
    if case.body is None:
        return asked
    media = next(iter(case.body["content"]))
    if case.twin is not None:
        parameters |= {f"formData.{name}": value for name, value in case.value.items()}
        return asked | {"fileNames": [f"formData.{name}" for name in sorted(case.files)]}
    asked |= {"requestBody": case.value, "requestContentType": media}
    if media == "application/octet-stream":
        asked["binary"] = True
    if case.files:
        asked["fileNames"] = sorted(case.files)
    return asked


def _built(asked: Sequence[Json]) -> list[Json]:
    node = shutil.which("node")
    if node is None:
        raise CorpusUnavailableError("Node.js is not installed")
    order = [node, str(_SCRIPT), str(swagger_client())]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    done = subprocess.run(order, input=lines, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise CorpusUnavailableError(f"swagger-client does not run on this Node.js: {done.stderr[-300:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _judge(case: Case, whole: Bundle, built: Json, name: str) -> Record:
    [pair] = whole.pairs
    record = Record(pair.operation.key, f"/{name}")
    given = given_of(case, pair)
    if "error" in built or given is None:
        record.check(f"M16 {name}", False, expected="a request", got=built)
        return record
    check_wire(pair, Answered(built), given, f"M16 {name}", record)
    return record


def verdicts(seed: str, each: int) -> dict[str, Verdict]:
    """Return the verdict on swagger-client in every stratum."""
    made = {}
    for name, records in judge_swagger_client(seed, each).items():
        wrong = [record for record in records if record.findings]
        spelled = [record for record in wrong if all(map(_is_spelling, record.findings))]
        made[name] = Verdict(len(records) - len(wrong), len(spelled), len(wrong) - len(spelled))
    return made


def verdicts_table(found: dict[str, Verdict]) -> str:
    """Return the verdicts as a table."""
    rows = [("stratum", *Verdict._fields), *((name, *counts) for name, counts in found.items())]
    total = [sum(column) for column in zip(*found.values(), strict=True)]
    return "\n".join(f"{a:30}{b:>12}{c:>12}{d:>12}" for a, b, c, d in [*rows, ("all", *total)])


def _is_spelling(finding: Finding) -> bool:
    return unquote(finding.expected) == unquote(finding.got)
