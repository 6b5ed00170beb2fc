"""The recorded results of `make client-suites`, and the block of docs/protocols.md that is made of them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.interop.behaviours.cases import Behaviour
from tests.interop.behaviours.run import Compared
from tests.interop.suites import reasons
from tests.interop.suites.run import Outcome
from tests.interop.suites.sources import SUITES, Suite

Json = dict[str, Any]

RESULTS: Final = Path(__file__).parent / "results.json"
PAGE: Final = Path(__file__).parents[3] / "docs" / "protocols.md"
BEGIN: Final = "<!-- written by make client-suites -->"
END: Final = "<!-- end of what make client-suites writes -->"
_CLIENTS: Final = {0: "utcp 0.2.3", 1: "utcp 1.2.0"}


def suite_result(outcomes: Mapping[str, Outcome]) -> Json:
    """Return what is recorded of a suite: `own` counts the cases in which the client reaches no upstream."""
    through = {name: one for name, one in outcomes.items() if one.requests}
    failed = sorted(name.partition("::")[2] for name, one in through.items() if not one.passed)
    return {"cases": len(outcomes), "own": len(outcomes) - len(through), "failed": failed}


def behaviour_results(compared: Mapping[Behaviour, Compared]) -> Json:
    """Return what is recorded of the behaviours, by protocol."""
    found: Json = {}
    for behaviour, one in compared.items():
        row = found.setdefault(behaviour.protocol, {"cases": 0, "failed": []})
        row["cases"] += 1
        if not one.is_equal:
            row["failed"].append(behaviour.id)
    return found


def read_results() -> Json:
    """Return the recorded results."""
    found: Json = json.loads(RESULTS.read_text())
    return found


def without_reason(results: Json) -> list[str]:
    """Return a line for each case that fails without a reason, and for each reason whose case passes."""
    return [
        f"{where}: {case}: {problem}"
        for where, failed, known in _compared(results)
        for problem, cases in (
            ("fails without a reason", set(failed) - set(known)), ("has a reason, but passes", set(known) - set(failed)),
        )
        for case in sorted(cases)
    ]  # fmt: skip


def _compared(results: Json) -> Iterator[tuple[str, list[str], Mapping[str, str]]]:
    for suite in SUITES:
        yield suite.name, results["suites"][suite.name]["failed"], reasons.SUITES.get(suite.name, {})
    for generation, client in _CLIENTS.items():
        rows = results["behaviours"][str(generation)].values()
        failed = [case for row in rows for case in row["failed"]]
        yield client, failed, reasons.BEHAVIOURS[generation]


def render(results: Json) -> str:
    """Return the block of docs/protocols.md."""
    lines = [
        BEGIN, "", "| suite | package | cases | without an upstream | through the gateway |", "|---|---|---|---|---|",
        *(_suite_row(suite, results["suites"][suite.name]) for suite in SUITES),
        "", "| behaviours | " + " | ".join(_CLIENTS.values()) + " |", "|---|" + "---|" * len(_CLIENTS),
        *_behaviour_rows(results["behaviours"]),
        "", *_reason_lines(), "", END,
    ]  # fmt: skip
    return "\n".join(lines)


def _suite_row(suite: Suite, row: Json) -> str:
    through = row["cases"] - row["own"]
    package = suite.package.replace("==", " ")
    return f"| {suite.name} | {package} | {row['cases']} | {row['own']} | {through - len(row['failed'])} of {through} |"


def _behaviour_rows(found: Json) -> Iterator[str]:
    for protocol in found["0"]:
        cells = []
        for generation in _CLIENTS:
            row = found[str(generation)][protocol]
            cells.append(f"{row['cases'] - len(row['failed'])} of {row['cases']}")
        yield f"| {protocol} | " + " | ".join(cells) + " |"


def _reason_lines() -> Iterator[str]:
    yield "Why the others differ:"
    yield ""
    cases: dict[str, list[str]] = {}
    for suite, known in reasons.SUITES.items():
        for case, reason in known.items():
            cases.setdefault(reason, []).append(f"{suite} `{case}`")
    for generation, known in reasons.BEHAVIOURS.items():
        for case, reason in known.items():
            both = all(case in others for others in reasons.BEHAVIOURS.values())
            if both and generation:
                continue
            cases.setdefault(reason, []).append(f'"{case}"' + ("" if both else f" ({_CLIENTS[generation]})"))
    for reason, named in cases.items():
        yield f"- {reason} ({', '.join(named)})"


def write(results: Json) -> None:
    """Record the results, and write the block of the page anew."""
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    text = PAGE.read_text()
    before, rest = text.split(BEGIN, 1)
    PAGE.write_text(before + render(results) + rest.split(END, 1)[1])
