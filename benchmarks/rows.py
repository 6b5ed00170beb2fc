"""The rows of the table of proxied calls: what is started for each, and how it is called."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from redis import Redis

from benchmarks import others
from benchmarks.gateway import Client, Loaded, gateway, register
from benchmarks.measure import Load, LoadFailed, Measured, Request, measure
from benchmarks.nginx import nginx
from benchmarks.servers import NotStarted, Served, free_port, served
from benchmarks.shape import CLIENT_ID, CLIENT_SECRET, WIDE, document, oauth2_document, wide_document
from benchmarks.venvs import NotInstalled

SLOWER = 5
"""Competitors that need milliseconds for a call get a fifth of the calls."""


@dataclass(slots=True)
class Row:
    """One line of the table; `forks` counts the processes below it, too, as its work is done there.

    `sockets` is the folder of its Redis and PostgreSQL where these are counted: `redis` are round trips of
    one call, `commits` its transactions in PostgreSQL, in each round.
    """

    name: str
    server: Served
    requests: Sequence[Request]
    share: int = 1
    forks: bool = False
    sockets: Path | None = None
    rounds: list[Measured] = field(default_factory=list)
    redis: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)

    def once(self, load: Load) -> None:
        """Measures one round; raises LoadFailed."""
        given = Load(
            max(1, load.calls // self.share),
            max(1, load.warm_up // self.share),
            load.connections,
            load.seconds,
        )
        before = counted(self.sockets)
        self.rounds.append(measure(self.server, self.requests, given))
        calls = given.calls + given.warm_up + self.rounds[-1].paced
        after = counted(self.sockets)
        self.redis.append((after[0] - before[0]) / calls)
        self.commits.append((after[1] - before[1]) / calls)


def counted(sockets: Path | None) -> tuple[int, int]:
    """What Redis has read from its connections so far, once for each round trip, and the transactions that
    PostgreSQL has committed.
    """
    if sockets is None:
        return 0, 0
    # A server process of PostgreSQL tells its counts a second after its last transaction.
    time.sleep(1.5)
    with Redis(unix_socket_path=str(sockets / "valkey.sock")) as client:
        reads = int(client.info("stats")["total_reads_processed"])
    return reads, asyncio.run(_commits(sockets))


async def _commits(sockets: Path) -> int:
    connection = await asyncpg.connect(host=str(sockets), user="postgres", database="gateway")
    try:
        question = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'gateway'"
        return int(await connection.fetchval(question))
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class Setting:
    """What all rows share: `stack` ends the servers, `spread` is how many tools are called in turn."""

    stack: ExitStack
    folder: Path
    upstream: str
    spread: int


@contextmanager
def upstream(folder: Path) -> Iterator[Served]:
    """The upstream."""
    port = free_port()
    with served(["-m", "benchmarks.upstream", str(port)], port=port, folder=folder) as server:
        yield server


def _floor(given: Setting) -> Iterator[Row]:
    server = given.stack.enter_context(nginx(given.upstream, given.folder))
    yield Row("nginx, as a proxy in C", server, _numbered(given))


def _bare(given: Setting) -> Iterator[Row]:
    port = free_port()
    command = ["-m", "benchmarks.bare", str(port), given.upstream]
    server = given.stack.enter_context(served(command, port=port, folder=given.folder))
    yield Row("bare Starlette + aiohttp proxy", server, _numbered(given))


def _numbered(given: Setting) -> list[Request]:
    return [Request(f"/tools/{number}/call") for number in range(given.spread)]


def _sized(tools: int) -> Callable[[Setting], Iterator[Row]]:
    def row(given: Setting) -> Iterator[Row]:
        loaded = _loaded(given, tools)
        yield Row(f"utcp-gateway, {tools:,} tools", loaded.server, _calls(loaded))

    return row


def _kinds(given: Setting) -> Iterator[Row]:
    """The gateway with other credentials and with more to validate."""
    loaded = _loaded(given, 10)
    client = Client(loaded.server, loaded.key)
    secret = {
        "kind": "oauth2",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "token_url": f"{given.upstream}/token",
    }
    register(client, "oauth", oauth2_document(server=given.upstream), credential=secret)
    register(client, "wide", wide_document(server=given.upstream))
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    yield Row(
        "utcp-gateway, OAuth2 (token cached)", loaded.server, [Request("/tools/oauth.get0/call", headers)]
    )
    wide = Request("/tools/wide.put/call", headers, {"body": WIDE})
    yield Row("utcp-gateway, body of 20 properties", loaded.server, [wide])


def _limits(given: Setting) -> Iterator[Row]:
    """The gateway with what costs round trips, each switched on alone."""
    loaded = _loaded(given, 10)
    client = Client(loaded.server, loaded.key)
    rate = {"requests": 1_000_000, "per_seconds": 1}
    register(client, "limited", document(1, server=given.upstream), limits={"rate": rate})
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    limited = Request("/tools/limited.get0/call", headers)
    yield Row("utcp-gateway, rate limit of the provider", loaded.server, [limited], sockets=loaded.sockets)
    once = Request(loaded.tools[0], {**headers, "Idempotency-Key": "@a-different-number@"})
    yield Row("utcp-gateway, Idempotency-Key", loaded.server, [once], sockets=loaded.sockets)


def _recorded(given: Setting) -> Iterator[Row]:
    """The gateway with records before calls with effects are made, and with a trace of every call."""
    loaded = _loaded(given, 10, AUDIT_MODE="strict")
    client = Client(loaded.server, loaded.key)
    register(client, "wide", wide_document(server=given.upstream))
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    wide = Request("/tools/wide.put/call", headers, {"body": WIDE})
    name = "utcp-gateway, audit strict, body of 20 properties"
    yield Row(name, loaded.server, [wide], sockets=loaded.sockets)
    once = Request(
        "/tools/wide.put/call", {**headers, "Idempotency-Key": "@a-different-number@"}, {"body": WIDE}
    )
    yield Row(f"{name}, Idempotency-Key", loaded.server, [once], sockets=loaded.sockets)
    for share in ("1.0", "0.01"):
        traced = _loaded(
            given, 10, OTEL_EXPORTER_OTLP_ENDPOINT=given.upstream, OTEL_TRACES_SAMPLER_ARG=share,
            ALLOW_NETWORKS="127.0.0.0/8",
        )  # fmt: skip
        name = f"utcp-gateway, {float(share):.0%} of calls traced"
        yield Row(name, traced.server, _calls(traced), sockets=traced.sockets)


def _loaded(given: Setting, tools: int, **settings: str) -> Loaded:
    spread = min(given.spread, tools)
    loaded = given.stack.enter_context(
        gateway(tools=tools, spread=spread, upstream=given.upstream, environment=settings)
    )
    print(f"  registered {tools:,} tools in {loaded.import_seconds:.1f} s", file=sys.stderr)
    return loaded


def _calls(loaded: Loaded) -> list[Request]:
    headers = {"Authorization": f"Bearer {loaded.key}"}
    return [Request(target, headers) for target in loaded.tools]


def _contextforge(version: str) -> Callable[[Setting], Iterator[Row]]:
    def row(given: Setting) -> Iterator[Row]:
        started = others.contextforge(version, given.upstream, given.folder)
        server, requests = given.stack.enter_context(started)
        yield Row(f"IBM ContextForge {version}", server, requests, share=SLOWER, forks=True)

    return row


def _fastmcp(given: Setting) -> Iterator[Row]:
    server, requests = given.stack.enter_context(others.fastmcp(given.upstream, given.folder))
    yield Row("FastMCP, from_openapi", server, requests, share=SLOWER, forks=True)


ROWS: dict[str, Callable[[Setting], Iterator[Row]]] = {
    "nginx": _floor,
    "bare": _bare,
    "tools-10": _sized(10),
    "tools-10000": _sized(10_000),
    "tools-100000": _sized(100_000),
    "kinds": _kinds,
    "limits": _limits,
    "recorded": _recorded,
    "contextforge-1.1.0": _contextforge("1.1.0"),
    "contextforge-1.0.6": _contextforge("1.0.6"),
    "fastmcp": _fastmcp,
}
"""By the name that `--only` takes, in the order of the table."""


def opened(names: Sequence[str], given: Setting) -> list[Row]:
    """The rows that can be started; the others are left out by name, with the reason."""
    rows: list[Row] = []
    for name in names:
        try:
            rows += ROWS[name](given)
        except (NotStarted, NotInstalled) as reason:
            print(f"  left out: {name}: {reason}", file=sys.stderr)
    return rows


def measured(rows: Sequence[Row], load: Load, *, rounds: int) -> list[Row]:
    """Measures in turn, round after round; what fails is left out."""
    alive = list(rows)
    for _ in range(rounds):
        for row in list(alive):
            try:
                row.once(load)
            except LoadFailed as reason:
                print(f"  left out: {row.name}: {reason}", file=sys.stderr)
                alive.remove(row)
    return alive
