"""`make faults`: runs the scenarios and prints the table. `--slice` runs the short form of each.

ARGS: `--only E,F` for some scenarios, `--slice`, `--json FILE`, `--redis PROGRAM` for a server other than the Valkey of the wheel,
`--missed FILE` to write the ids of missed rows into a file (`H,M`, or nothing), which `.ci/run` runs once more.
"""

import argparse
import asyncio
import json
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType

from tests.faults.nginx import PROGRAM, NginxMissing
from tests.faults.report import Row, missed_lines, missed_scenarios, table
from tests.faults.rig import Rig, rig
from tests.faults.scenarios import SCENARIOS, SLICE


async def main(arguments: argparse.Namespace) -> list[Row]:
    """Run the chosen scenarios on one rig and return their rows."""
    names = arguments.only or (SLICE if arguments.slice else SCENARIOS)
    chosen = {name: SCENARIOS[name] for name in names}
    rows: list[Row] = []
    async with rig(full=not arguments.slice, redis_program=arguments.redis) as running:
        for name, scenario in chosen.items():
            began = time.monotonic()
            found = await _run(name, scenario, running)
            rows += found
            for row in found:
                print(
                    f"{'met   ' if row.ok else 'missed'} {row.id}: {row.tried}: {row.found}", file=sys.stderr
                )
            print(f"       {name} took {time.monotonic() - began:.1f} s", file=sys.stderr)
        errors = running.replicas.tracebacks()
        print(*errors[:5], sep="\n", file=sys.stderr)
        kinds = sorted({error.strip().splitlines()[-1][:100] for error in errors})
        rows.append(
            Row(
                "*",
                "logs of all replicas",
                "no unhandled error",
                f"{len(errors)} tracebacks" + "".join(f"; {kind}" for kind in kinds[:3]),
                not errors,
            )
        )
    return rows


async def _run(name: str, scenario: ModuleType, running: Rig) -> list[Row]:
    """Run one scenario; one that raises an error is a missed row, and the others still run."""
    try:
        return list(await scenario.run(running))
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        found = f"{type(error).__name__}: {error}"[:500]
        return [Row(name, scenario.TITLE, "the scenario runs to its end", found, ok=False)]


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", type=lambda text: [name.strip() for name in text.split(",")], default=[])
    parser.add_argument("--slice", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--redis", type=Path)
    parser.add_argument("--missed", type=Path)
    parsed = parser.parse_args()
    unknown = [name for name in parsed.only if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; the scenarios are {', '.join(SCENARIOS)}")
    return parsed


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(str(NginxMissing()))
    options = _parsed()
    lines = asyncio.run(main(options))
    print(table(lines))
    if options.json is not None:
        options.json.write_text(json.dumps([line.as_json() for line in lines], indent=1))
    missed = missed_scenarios(lines)
    if options.missed is not None:
        options.missed.write_text(",".join(missed))
    if missed:
        # Once more at the end, where a log that was cut still has them.
        print(missed_lines(lines))
    sys.exit(1 if missed else 0)
