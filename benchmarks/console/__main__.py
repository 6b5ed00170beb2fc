"""`python -m benchmarks.console`: what the web console costs, in ratios of one run where possible.

`server`: CPU of the Tools page with 100,000 tools, memory, and p99 of calls while recorded sessions are
replayed over HTTP. `paint`, `scroll`, `tail`: in Chromium, with 10,000 tools.
"""

import argparse
import sys

from rich.console import Console

from benchmarks.console import server
from benchmarks.console.measurements import TIMES, run_browser
from benchmarks.scale import Report
from benchmarks.servers import NotStarted

PARTS = ("server", "paint", "scroll", "tail")


def main() -> int:
    """Measure and print; 1 when a target is missed and --strict is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--tools", type=int, default=100_000, help="of the part `server`")
    parser.add_argument("--sessions", type=int, default=50, help="replayed at a time")
    parser.add_argument("--seconds", type=float, default=30, help="of a round of calls")
    parser.add_argument("--rounds", type=int, default=3, help="of calls without and with sessions")
    parser.add_argument("--rate", type=float, default=200, help="calls a second beside the sessions")
    parser.add_argument("--times", type=int, default=TIMES, help="loads of a page for its first paint")
    parser.add_argument(
        "--pages", type=int, default=20, help="pages of the list of tools that are scrolled through"
    )
    parser.add_argument("--minutes", type=float, default=10, help="of the live tail")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    report = Report(title="Console")
    if "server" in options.only:
        plan = server.ServerPlan(
            tools=options.tools,
            providers=max(1, options.tools // 10_000),
            sessions=options.sessions,
            seconds=options.seconds,
            rounds=options.rounds,
            pages=200,
            rate=options.rate,
        )
        server.run(report, plan)
    if {"paint", "scroll", "tail"} & set(options.only):
        try:
            run_browser(
                report, options.only, times=options.times, pages=options.pages, minutes=options.minutes
            )
        except NotStarted as reason:
            print(f"  left out: {reason}", file=sys.stderr)
    report.show(Console(width=None if sys.stdout.isatty() else 120))
    return 1 if options.strict and report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
