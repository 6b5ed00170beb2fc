"""`python -m benchmarks.startup`: the CPU time of `--help`, of each kind of command, and of a worker's start.

Seconds of user and system time of the process, the median of several runs, and their ratio to
`python -c pass` in the same run: a busy machine makes both longer. The target of `import app.main` is a ratio
to the import of the libraries that it cannot do without. Bytecode is cached in a folder of its own, filled by
a first run that does not count, so that neither stale caches nor PYTHONDONTWRITEBYTECODE are measured.
"""

import argparse
import http.client
import http.server
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from app.cli.embedded import EmbeddedServers
from app.security.vault import KeyRing
from benchmarks.gateway import PLAIN, short_folder
from benchmarks.servers import free_port, start_server

HELP_SECONDS, COMMAND_SECONDS, WORKER_SECONDS = 0.3, 0.4, 1.5
"""The targets, on an idle machine."""
IMPORT_RATIO = 3.0
"""How many times as much as its libraries `import app.main` may take."""
LIBRARIES, APPLICATION = "import fastapi, sqlmodel, sqlalchemy.ext.asyncio", "import app.main"
_READY_SECONDS = 120.0
_EMPTY = b'{"items": [], "next_cursor": null}'
_DOCUMENT = (
    b'{"openapi": "3.1.0", "info": {"title": "a", "version": "1"}, '
    b'"servers": [{"url": "https://a.example"}], '
    b'"paths": {"/a": {"get": {"operationId": "a", "responses": {}}}}}'
)

COMMANDS: Mapping[str, tuple[str, ...]] = {
    "providers list": ("providers", "list"),
    "tools list": ("tools", "list"),
    "tools list -o json": ("tools", "list", "-o", "json"),
    "tools search": ("tools", "search", "book"),
    "tools call": ("tools", "call", "a.b", "q=1"),
    "calls list": ("calls", "list"),
    "keys list": ("keys", "list"),
    "events list": ("events", "list"),
    "variables list": ("variables", "list"),
    "export": ("export",),
    "openapi check": ("openapi", "check", "openapi.json"),
    "tools call --help": ("tools", "call", "--help"),
    "serve --help": ("serve", "--help"),
}
"""Commands of the client, by the name of their row."""


class _Stub(http.server.BaseHTTPRequestHandler):
    """Responds to every request with an empty page."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_EMPTY)))
        self.end_headers()
        self.wfile.write(_EMPTY)

    do_POST = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def stub() -> Iterator[str]:
    """Yield the URL of a server that responds to every request with an empty page."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Stub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@dataclass(slots=True)
class Report:
    """Rows: what was measured, seconds of CPU time of each run, and the target (a maximum) or None.

    `ratios` are numbers of their own, each with a maximum.
    """

    rows: list[tuple[str, list[float], float | None]] = field(default_factory=list)
    ratios: list[tuple[str, float, float]] = field(default_factory=list)

    def add(self, what: str, seconds: list[float], maximum: float | None) -> None:
        """Add a row, and print it at once."""
        self.rows.append((what, seconds, maximum))
        print(f"  {what}: {statistics.median(seconds):.3f} s", file=sys.stderr, flush=True)

    def add_ratio(self, what: str, seconds: list[float], reference: list[float], maximum: float) -> None:
        """Add the ratio of the medians of two commands, whose runs alternated."""
        ratio = statistics.median(seconds) / statistics.median(reference)
        self.ratios.append((what, ratio, maximum))
        print(f"  {what}: {ratio:.2f}", file=sys.stderr, flush=True)

    def missed(self) -> list[str]:
        """Return the rows whose fastest run exceeds the target: the others may have been disturbed."""
        rows = [
            what for what, seconds, maximum in self.rows if maximum is not None and min(seconds) > maximum
        ]
        return rows + [what for what, ratio, maximum in self.ratios if ratio > maximum]

    def show(self, console: Console) -> None:
        """Print the table."""
        reference = statistics.median(self.rows[0][1])
        table = Table(title="CPU time of the start")
        for column in ("", "median", "fastest", "x `python -c pass`", "target"):
            table.add_column(column, justify="right" if column else "left")
        for what, seconds, maximum in self.rows:
            median = statistics.median(seconds)
            target = "" if maximum is None else f"<= {maximum:g} s"
            table.add_row(
                what, f"{median:.3f} s", f"{min(seconds):.3f} s", f"{median / reference:.1f}", target
            )
        for what, ratio, maximum in self.ratios:
            table.add_row(what, f"{ratio:.2f}", "", "", f"<= {maximum:g}")
        console.print(table)


def cpu_of(command: Sequence[str], *, runs: int, environment: Mapping[str, str], folder: Path) -> list[float]:
    """Return the seconds of CPU time of each run of a command, its children included; raise if it fails."""
    return [_cpu_of_run(command, environment=environment, folder=folder) for _ in range(runs + 1)][1:]


def _cpu_of_run(command: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.decode(errors='replace')}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_commands(report: Report, *, runs: int, environment: Mapping[str, str], folder: Path) -> None:
    """Add the rows of the commands that need no PostgreSQL."""
    (folder / "openapi.json").write_bytes(_DOCUMENT)
    program = [sys.executable, *PLAIN]
    with stub() as url:
        ours = {**environment, "UTCP_GATEWAY_URL": url, "UTCP_GATEWAY_KEY": "k"}

        def cpu(command: Sequence[str]) -> list[float]:
            return cpu_of(command, runs=runs, environment=ours, folder=folder)

        report.add("python -c pass", cpu([sys.executable, "-c", "pass"]), None)
        report.add("--help", cpu([*program, "--help"]), HELP_SECONDS)
        report.add("--version", cpu([*program, "--version"]), HELP_SECONDS)
        for name, words in COMMANDS.items():
            report.add(name, cpu([*program, *words]), COMMAND_SECONDS)


def measure_imports(report: Report, *, runs: int, environment: Mapping[str, str], folder: Path) -> None:
    """Add the rows of the imports of the application and of its libraries, and their ratio."""
    seconds: dict[str, list[float]] = {LIBRARIES: [], APPLICATION: []}
    for _ in range(runs + 1):
        # In turns: what disturbs the machine disturbs both.
        for code, found in seconds.items():
            command = [sys.executable, "-c", code]
            found.append(_cpu_of_run(command, environment=environment, folder=folder))
    libraries, application = seconds[LIBRARIES][1:], seconds[APPLICATION][1:]
    report.add(LIBRARIES, libraries, None)
    report.add(APPLICATION, application, None)
    report.add_ratio(f"{APPLICATION}, times its libraries", application, libraries, IMPORT_RATIO)


def measure_servers(report: Report, *, runs: int, environment: Mapping[str, str], folder: Path) -> None:
    """Add the rows of the operator's commands and of a worker, on the embedded servers."""
    with EmbeddedServers(folder / "d") as running:
        ours = {
            **environment,
            "DATABASE_URL": running.database_url,
            "REDIS_URL": running.redis_url,
            "SEALING_KEYS": KeyRing.generate("k1"),
            "LOG_LEVEL": "warning",
        }
        for name in ("migrate", "bootstrap"):
            command = [sys.executable, *PLAIN, name]
            report.add(name, cpu_of(command, runs=runs, environment=ours, folder=folder), None)
        single = [worker_cpu(ours, folder, workers=1) for _ in range(runs + 1)][1:]
        report.add("serve, one worker", single, None)
        workers = [worker_cpu(ours, folder, workers=2) for _ in range(runs + 1)][1:]
        report.add("a worker of two", workers, WORKER_SECONDS)


def worker_cpu(environment: Mapping[str, str], folder: Path, *, workers: int) -> float:
    """Return the CPU seconds of a worker up to the first response that it is ready.

    With one worker this is the process of `serve`, otherwise the mean of its workers, and of the process that
    imports for them.
    """
    port = free_port()
    arguments = [*PLAIN, "serve", "--port", str(port), "--workers", str(workers)]
    with start_server(arguments, port=port, environment=environment, folder=folder) as server:
        deadline = time.monotonic() + _READY_SECONDS
        while not _is_ready(port):
            if time.monotonic() > deadline:
                raise SystemExit("The gateway did not become ready.")
            time.sleep(0.05)
        processes = [server.process] if workers == 1 else server.process.children(recursive=True)
        return sum(map(_cpu, processes)) / workers


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Run the benchmark; exit with 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command")
    parser.add_argument("--commands", action="store_true", help="only the commands that need no PostgreSQL")
    options = parser.parse_args()
    report = Report()
    with short_folder() as folder:
        environment = {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        measure_commands(report, runs=options.runs, environment=environment, folder=folder)
        measure_imports(report, runs=options.runs, environment=environment, folder=folder)
        if not options.commands:
            measure_servers(report, runs=options.runs, environment=environment, folder=folder)
    report.show(Console())
    missed = report.missed()
    if missed:
        sys.exit(f"Targets missed: {', '.join(missed)}.")


if __name__ == "__main__":
    main()
