"""`make client-suites`: the released clients' own suites, and the behaviours, through a gateway.

Writes `results.json` and the table of docs/protocols.md. Exits with 1 where a case has another outcome than the client alone and no
reason for it, or where a case of a suite fails without a gateway. `--only NAME...` runs some suites, or `behaviours`, and keeps the
recorded results of the others.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.harness.gateway import RunningGateway
from tests.harness.servers import pair
from tests.interop.behaviours.cases import BEHAVIOURS
from tests.interop.behaviours.run import compare
from tests.interop.suites.run import run, serve_for_suites
from tests.interop.suites.sources import SUITES, Suite
from tests.interop.suites.table import behaviour_results, read_results, suite_result, without_reason, write

_BEHAVIOURS = "behaviours"


def _run_suite(suite: Suite, gateway: RunningGateway) -> tuple[dict[str, Any], list[str]]:
    """Return the results of a suite, and a line for each case that fails without a gateway."""
    alone, through = run(suite, None), run(suite, gateway)
    for name, one in through.items():
        if one.requests and not one.passed:
            print(f"{suite.name}: {name}\n  {one.error[:300]}", flush=True)
    broken = [f"{suite.name}: {name}: {one.error[:300]}" for name, one in alone.items() if not one.passed]
    return suite_result(through), broken


def _run_behaviours(generation: int, gateway: RunningGateway) -> dict[str, Any]:
    """Return the results of the behaviours with the client of a generation."""
    compared = compare(BEHAVIOURS, generation, gateway)
    for behaviour, one in compared.items():
        if not one.is_equal:
            print(f"{behaviour.id}\n  alone   {str(one.alone)[:300]}\n  through {str(one.through)[:300]}")
    return behaviour_results(compared)


def main() -> int:
    """Run what is chosen; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=[*(suite.name for suite in SUITES), _BEHAVIOURS])
    only = parser.parse_args().only
    results = read_results()
    problems: list[str] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        pair() as servers,
        serve_for_suites(servers, Path(folder)) as gateway,
    ):
        for suite in SUITES:
            if only is None or suite.name in only:
                results["suites"][suite.name], broken = _run_suite(suite, gateway)
                problems += [f"Fails without a gateway: {line}" for line in broken]
                write(results)
        if only is None or _BEHAVIOURS in only:
            results["behaviours"] = {str(number): _run_behaviours(number, gateway) for number in (0, 1)}
    write(results)
    problems += without_reason(results)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
