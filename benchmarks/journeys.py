"""`python -m benchmarks.journeys`: how many functions and files serve two requests, and other counts.

Two requests are served by the whole application in this process, and the profiler counts the functions of
`app` that run for them: in the tasks and threads of the request.
The other metrics are counted in the source text. Each aim is that of decision 127.
"""

import ast
import asyncio
import contextlib
import itertools
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import grimp
import httpx2
import uvicorn
from rich.console import Console
from rich.table import Table

from app.access import KeyVerifier
from app.calls.idempotency.store import IdempotencyStore
from app.calls.services import CallServices
from app.catalog import Catalog
from app.catalog.feed import ChangeFeed, record_change
from app.catalog.loader import PlanLoader
from app.cli.bootstrap import create_admin_key
from app.cli.server import build_server_config
from app.core.settings import Settings
from app.main import create_app
from app.outbound.credentials import CredentialResolver
from app.outbound.http import Engine
from app.outbound.http1.pool import PROBATION_SECONDS
from app.outbound.tokens import TokenCache
from app.protocols.registry import PROTOCOLS, Adapters
from app.providers.credentials.input_models import ApiKeyInput
from app.providers.credentials.model import CredentialDraft
from app.providers.registration.model import (
    ParsedSource,
    RegistrationPlan,
    RegistrationRequest,
    RegistrationResult,
)
from app.search.search_index import SearchIndex
from app.security.vault import KeyRing, Vault
from app.storage.database import Database
from app.storage.models import Credential
from benchmarks.journey_probe import ROOT, Recorder, recording
from tests.harness.names import find_shared_class_names
from tests.harness.servers import pair
from tests.harness.upstream import upstream

FOLDER = Path(ROOT)

DOCUMENT_SHAPES: tuple[type, ...] = (RegistrationRequest, ParsedSource, RegistrationPlan, RegistrationResult)
"""The classes that hold what one registration is about, one after the other."""
CREDENTIAL_SHAPES: tuple[type, ...] = (ApiKeyInput, CredentialDraft, Credential)
"""The classes that hold one credential, from the request to its row."""
LONG_LIVED: tuple[type, ...] = (
    Adapters, CallServices, Catalog, ChangeFeed, CredentialResolver, Database, Engine, IdempotencyStore,
    KeyVerifier, PlanLoader, SearchIndex, TokenCache, Vault,
)  # fmt: skip
"""Parts that live as long as the application: code that builds several of them wires the application."""


CEILINGS: Mapping[str, int] = {
    # A timer that ends during the call adds up to four functions.
    "warm call: functions": 66,
    "warm call: files": 31,
    "warm call: packages": 9,
    "warm call: package changes": 25,
    "registration: functions": 281,
    "registration: files": 95,
    "registration: packages": 13,
    "files that decide by the name of a protocol": 2,
    "class names of more than one class": 32,
    "files that exactly one other imports": 315,
}
"""What a count may not exceed, where the aim is not reached yet; it is lowered with each repair."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table: what is counted, the aim, the count, and what was counted."""

    name: str
    aim: int
    now: int
    found: Sequence[str] = ()

    @property
    def ceiling(self) -> int:
        """What the count may not exceed: the aim, or what was reached so far."""
        return max(self.aim, CEILINGS.get(self.name, self.aim))


@dataclass(frozen=True, slots=True)
class Journey:
    """The functions of one journey, process by process, each in the order of first calls."""

    processes: tuple[tuple[tuple[str, str], ...], ...]

    @property
    def functions(self) -> set[tuple[str, str]]:
        """(file below app, qualified name) of every function."""
        return {one for process in self.processes for one in process}

    @property
    def files(self) -> set[str]:
        """The files of the functions, below app."""
        return {file for file, _ in self.functions}

    @property
    def packages(self) -> set[str]:
        """The top-level packages of the files; a module beside the packages belongs to none."""
        return {file.partition("/")[0] for file in self.files if "/" in file}

    @property
    def changes(self) -> int:
        """How often the package changes from one function to the next."""
        changed = 0
        for process in self.processes:
            packages = [file.partition("/")[0] for file, _ in process if "/" in file]
            changed += sum(one != other for one, other in itertools.pairwise(packages))
        return changed

    def metrics(self, title: str, *aims: int) -> list[Metric]:
        """The lines of the table."""
        counts = (len(self.functions), len(self.files), len(self.packages), self.changes)
        names = ("functions", "files", "packages", "package changes")
        found = ([f"{file} {name}" for file, name in self.processes[0]], sorted(self.files),
                 sorted(self.packages), ())  # fmt: skip
        rows = zip(names, aims, counts, found, strict=False)
        return [Metric(f"{title}: {name}", aim, count, which) for name, aim, count, which in rows]


class _Application:
    """The gateway in this thread's event loop, marking all that it does for a request."""

    def __init__(self, settings: Settings) -> None:
        self._inner = create_app(settings)
        self._settings = settings
        self.recorder: Recorder | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request (ASGI) as part of the journey."""
        recording.set(scope["type"] == "http" and self.recorder is not None)
        await self._inner(scope, receive, send)

    def run(self, journeys: Callable[["_Application", str], None]) -> None:
        """Serve until `journeys(self, url)`, which runs in a thread of its own, returns; raise its error."""
        # asyncio's own event loop: its writes to sockets are Python functions, which the profiler sees.
        options = {"port": 0, "lifespan": "on", "loop": "asyncio"}
        server = uvicorn.Server(build_server_config(self, self._settings, **options))
        asyncio.run(self._serve(server, journeys))

    async def _serve(self, server: uvicorn.Server, journeys: Callable[["_Application", str], None]) -> None:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            if serving.done():
                await serving
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        try:
            await asyncio.to_thread(journeys, self, f"http://127.0.0.1:{port}")
        finally:
            server.should_exit = True
            await serving

    @contextlib.contextmanager
    def journey(self, last: CodeType | None = None) -> Iterator[Recorder]:
        """Record requests until a function with the code `last` is called, else until a socket is written."""
        self.recorder = Recorder(last=last)
        PROFILE.append(self.recorder)
        try:
            yield self.recorder
        finally:
            PROFILE.remove(self.recorder)
            self.recorder = None


PROFILE: list[Recorder] = []
"""The recorder that is in use; the profiler of every thread uses it."""


def _profile(frame: Any, event: str, argument: Any) -> None:
    for recorder in PROFILE:
        recorder.profile(frame, event, argument)


def journeys() -> tuple[Journey, Journey]:
    """A warm call, from the route to the upstream's socket; a registration, until its tools are stored."""
    walked: list[Journey] = []

    def walk(application: _Application, url: str) -> None:
        with upstream() as site, httpx2.Client(base_url=url, headers=headers, trust_env=False) as client:
            body = {"name": "first", "source": {"document": site.openapi()}, "credentials": credentials}
            client.post("/providers", json=body).raise_for_status()
            body["name"] = "journey"
            with application.journey(record_change.__code__) as recorder:
                made = client.post("/providers", json=body)
            if made.status_code != 201:
                raise RuntimeError(made.text)
            registration = Journey((tuple(recorder.functions),))
            # Connections to an origin are reused at once only when it has behaved for some time.
            for pause in (PROBATION_SECONDS, 0.0, 0.0):
                client.post("/tools/journey.withKey/call", json={}).raise_for_status()
                time.sleep(pause)
            with application.journey() as recorder:
                client.post("/tools/journey.withKey/call", json={}).raise_for_status()
            walked.extend((Journey((tuple(recorder.functions),)), registration))

    credentials = {"key": {"kind": "api_key", "value": "the-value-of-the-key"}}
    ring = KeyRing.generate("journey")
    with pair() as servers:
        dsn = servers.create_database()
        key = asyncio.run(create_admin_key(dsn, KeyRing.parse(ring), name="journey"))
        headers = {"Authorization": f"Bearer {key}"}
        settings = Settings(
            _env_file=None,
            database_url=dsn,
            redis_url=servers.redis_url,
            sealing_keys=ring,
            allow_networks=("127.0.0.0/8", "::1/128"),
            log_level="error",
        )
        threading.setprofile(_profile)
        sys.setprofile(_profile)
        try:
            _Application(settings).run(walk)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        servers.drop_database(dsn)
    return walked[0], walked[1]


def sources(folder: Path) -> dict[str, ast.Module]:
    """The Python files below a folder, by their path from it."""
    paths = sorted(folder.rglob("*.py"))
    return {str(path.relative_to(folder)): ast.parse(path.read_text()) for path in paths}


def single_importers() -> list[str]:
    """Modules (not packages) of `app` that exactly one other module imports."""
    graph = grimp.build_graph("app")
    packages = {module for module in graph.modules if graph.find_children(module)}
    return sorted(
        module
        for module in graph.modules - packages
        if len(graph.find_modules_that_directly_import(module)) == 1
    )


def deciding_files(files: dict[str, ast.Module]) -> list[str]:
    """Files outside of `protocols/` that list protocols by name, or compare a protocol with one."""
    return sorted(
        file
        for file, tree in files.items()
        if not file.startswith("protocols/") and any(_decides(node) for node in ast.walk(tree))
    )


def _decides(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        about = any("protocol" in ast.unparse(part).lower() for part in parts)
        return about and any(_is_protocol(member) for part in parts for member in _members(part))
    if isinstance(node, ast.Set | ast.List | ast.Tuple | ast.Dict):
        members = _members(node)
        return len(members) > 1 and all(_is_protocol(member) for member in members)
    return False


def _members(node: ast.AST) -> list[Any]:
    if isinstance(node, ast.Dict):
        return list(node.keys)
    return list(node.elts) if isinstance(node, ast.Set | ast.List | ast.Tuple) else [node]


def _is_protocol(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value in PROTOCOLS


def wirings(files: dict[str, ast.Module]) -> list[str]:
    """Files that build more than two of the parts that live as long as the application."""
    names = {part.__name__ for part in LONG_LIVED}
    found = []
    for file, tree in files.items():
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        # `Engine(...)`, `Engine.of(...)`.
        called = {ast.unparse(one).partition(".")[0] for one in calls}
        if len(called & names) > 2:
            found.append(file)
    return sorted(found)


def metrics() -> list[Metric]:
    """Every line of the table."""
    call, registration = journeys()
    project, tests = sources(FOLDER), sources(FOLDER.parent / "tests")
    everywhere = {f"app/{file}": tree for file, tree in project.items()}
    everywhere |= {f"tests/{file}": tree for file, tree in tests.items()}
    counted: list[tuple[str, int, list[str]]] = [
        ("shapes of a document", 4, [shape.__qualname__ for shape in DOCUMENT_SHAPES]),
        ("shapes of a credential", 3, [shape.__qualname__ for shape in CREDENTIAL_SHAPES]),
        ("files that decide by the name of a protocol", 1, deciding_files(project)),
        ("wirings of the application", 1, wirings(everywhere)),
        ("class names of more than one class", 5, [*find_shared_class_names(project)]),
        ("files that exactly one other imports", 150, single_importers()),
    ]
    return [
        *call.metrics("warm call", 62, 28, 9, 16),
        *registration.metrics("registration", 170, 50, 9),
        *(Metric(name, aim, len(found), found) for name, aim, found in counted),
    ]


def count_imports() -> dict[tuple[str, str], int]:
    """Return how many imports go from each package on the top level of `app` to each other one."""
    graph = grimp.build_graph("app")
    pairs = (
        (importer.split(".")[1], imported.split(".")[1])
        for importer in graph.modules - {"app"}
        for imported in graph.find_modules_directly_imported_by(importer) - {"app"}
    )
    return Counter((importer, imported) for importer, imported in pairs if importer != imported)


def make_matrix() -> Table:
    """Return the matrix of imports: packages that import as rows, those that are imported as columns."""
    counts = count_imports()
    names = sorted({name for pair in counts for name in pair})
    # A package stands above all that it imports, so that what would go up is below the diagonal.
    order: list[str] = []
    while names:
        top = next(name for name in names if not any((other, name) in counts for other in names))
        names.remove(top)
        order.append(top)
    matrix = Table("imports", *order)
    for importer in order:
        matrix.add_row(importer, *(str(counts.get((importer, imported), "")) for imported in order))
    return matrix


def main() -> int:
    """Count and print, with `--names` also what was counted; fail where a count is above its ceiling.

    `--imports` prints the matrix of imports between packages, and counts nothing else.
    """
    if "--imports" in sys.argv[1:]:
        Console(width=240).print(make_matrix())
        return 0
    console = Console(width=None if sys.stdout.isatty() else 110)
    table = Table("metric", "aim", "ceiling", "now")
    found = metrics()
    for metric in found:
        style = None if metric.now <= metric.aim else "bold"
        table.add_row(metric.name, f"<= {metric.aim}", str(metric.ceiling), str(metric.now), style=style)
    console.print(table)
    if "--names" in sys.argv[1:]:
        for one in found:
            console.print(f"{one.name}: {', '.join(one.found)}", highlight=False)
    above = [metric.name for metric in found if metric.now > metric.ceiling]
    if above:
        console.print(f"Above its ceiling: {', '.join(above)}.", highlight=False)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
