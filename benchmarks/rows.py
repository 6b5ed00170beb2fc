"""The rows of the table of proxied calls: the server that each starts, and the calls that it makes."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
from redis import Redis

from benchmarks import agents, executor, others
from benchmarks.gateway import Client, LoadedGateway, gateway, register, second_worker
from benchmarks.measure import Load, LoadFailed, Measurement, Request, measure
from benchmarks.nginx import nginx
from benchmarks.servers import NotStarted, ServerProcess, ServerWithPeer, free_port, start_server
from benchmarks.shape import (
    ARGUMENTS,
    CLIENT_ID,
    CLIENT_SECRET,
    RESPONSE_MARKER,
    WIDE,
    document,
    oauth2_document,
    wide_document,
)
from benchmarks.venvs import NotInstalled

SLOW_ROW_DIVISOR = 5
"""Gateways that need milliseconds for a call get a fifth of the calls."""


@dataclass(slots=True)
class Row:
    """One line of the table. With `forks`, the cost of its descendant processes is included.

    `sockets` is the folder of its Redis and PostgreSQL, where their use is counted: `redis` are the round
    trips of one call in each round, `commits` its transactions in PostgreSQL.
    """

    name: str
    server: ServerProcess
    requests: Sequence[Request]
    share: int = 1
    forks: bool = False
    sockets: Path | None = None
    rounds: list[Measurement] = field(default_factory=list)
    redis: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)

    def once(self, load: Load) -> None:
        """Measure one round. Raises LoadFailed."""
        load_of_row = Load(
            max(1, load.calls // self.share),
            max(1, load.warm_up // self.share),
            load.connections,
            load.seconds,
        )
        before = count_round_trips(self.sockets)
        self.rounds.append(measure(self.server, self.requests, load_of_row))
        calls = load_of_row.calls + load_of_row.warm_up + self.rounds[-1].paced
        after = count_round_trips(self.sockets)
        self.redis.append((after[0] - before[0]) / calls)
        self.commits.append((after[1] - before[1]) / calls)


def count_round_trips(sockets: Path | None) -> tuple[int, int]:
    """What Redis has read from its connections so far, once for each round trip, and the transactions that
    PostgreSQL has committed.
    """
    if sockets is None:
        return 0, 0
    # A backend of PostgreSQL reports its counters a second after its last transaction.
    time.sleep(1.5)
    with Redis(unix_socket_path=str(sockets / "valkey.sock")) as client:
        reads = int(client.info("stats")["total_reads_processed"])
    return reads, asyncio.run(_commits(sockets))


async def _commits(sockets: Path) -> int:
    connection = await asyncpg.connect(  # type: ignore[no-untyped-call]
        host=str(sockets), user="postgres", database="gateway"
    )
    try:
        question = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'gateway'"
        return int(await connection.fetchval(question))
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class RowContext:
    """What all rows share: `stack` stops the servers, `spread` is the number of tools called in turn."""

    stack: ExitStack
    folder: Path
    upstream: str
    spread: int


@contextmanager
def upstream(folder: Path) -> Iterator[ServerProcess]:
    """Run the upstream."""
    port = free_port()
    with start_server(["-m", "benchmarks.upstream", str(port)], port=port, folder=folder) as server:
        yield server


def _floor(context: RowContext) -> Iterator[Row]:
    server = context.stack.enter_context(nginx(context.upstream, context.folder))
    yield Row("nginx, as a proxy in C", server, _numbered(context))


def _bare(context: RowContext) -> Iterator[Row]:
    port = free_port()
    command = ["-m", "benchmarks.bare", str(port), context.upstream]
    server = context.stack.enter_context(start_server(command, port=port, folder=context.folder))
    yield Row("bare Starlette + aiohttp proxy", server, _numbered(context))


def _numbered(context: RowContext) -> list[Request]:
    return [Request(f"/tools/{number}/call") for number in range(context.spread)]


def _sized(tools: int) -> Callable[[RowContext], Iterator[Row]]:
    def row(context: RowContext) -> Iterator[Row]:
        loaded = _loaded(context, tools)
        yield Row(f"utcp-gateway, {tools:,} tools", loaded.server, _calls(loaded))

    return row


def _kinds(context: RowContext) -> Iterator[Row]:
    """The gateway with other credentials and with more to validate."""
    loaded = _loaded(context, 10)
    client = Client(loaded.server, loaded.key)
    secret = {
        "kind": "oauth2",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "token_url": f"{context.upstream}/token",
    }
    register(client, "oauth", oauth2_document(server=context.upstream), credential=secret)
    register(client, "wide", wide_document(server=context.upstream))
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    yield Row(
        "utcp-gateway, OAuth2 (token cached)", loaded.server, [Request("/tools/oauth.get0/call", headers)]
    )
    wide = Request("/tools/wide.put/call", headers, {"body": WIDE})
    yield Row("utcp-gateway, body of 20 properties", loaded.server, [wide])


def _limits(context: RowContext) -> Iterator[Row]:
    """The gateway with the features that cost round trips, each switched on alone."""
    loaded = _loaded(context, 10)
    client = Client(loaded.server, loaded.key)
    rate = {"requests": 1_000_000, "per_seconds": 1}
    register(client, "limited", document(1, server=context.upstream), limits={"rate": rate})
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    limited = Request("/tools/limited.get0/call", headers)
    yield Row("utcp-gateway, rate limit of the provider", loaded.server, [limited], sockets=loaded.sockets)
    once = Request(loaded.tools[0], {**headers, "Idempotency-Key": "@a-different-number@"})
    yield Row("utcp-gateway, Idempotency-Key", loaded.server, [once], sockets=loaded.sockets)


def _recorded(context: RowContext) -> Iterator[Row]:
    """The gateway with CALL_LOG_MODE=strict, and with traces of calls."""
    loaded = _loaded(context, 10, CALL_LOG_MODE="strict")
    client = Client(loaded.server, loaded.key)
    register(client, "wide", wide_document(server=context.upstream))
    client.close()
    headers = {"Authorization": f"Bearer {loaded.key}"}
    wide = Request("/tools/wide.put/call", headers, {"body": WIDE})
    name = "utcp-gateway, call log strict, body of 20 properties"
    yield Row(name, loaded.server, [wide], sockets=loaded.sockets)
    once = Request(
        "/tools/wide.put/call", {**headers, "Idempotency-Key": "@a-different-number@"}, {"body": WIDE}
    )
    yield Row(f"{name}, Idempotency-Key", loaded.server, [once], sockets=loaded.sockets)
    for share in ("1.0", "0.01"):
        traced = _loaded(
            context, 10, OTEL_EXPORTER_OTLP_ENDPOINT=context.upstream, OTEL_TRACES_SAMPLER_ARG=share,
            ALLOW_NETWORKS="127.0.0.0/8",
        )  # fmt: skip
        name = f"utcp-gateway, {float(share):.0%} of calls traced"
        yield Row(name, traced.server, _calls(traced), sockets=traced.sockets)


def _loaded(context: RowContext, tools: int, **settings: str) -> LoadedGateway:
    spread = min(context.spread, tools)
    loaded = context.stack.enter_context(
        gateway(tools=tools, spread=spread, upstream=context.upstream, environment=settings)
    )
    print(f"  registered {tools:,} tools in {loaded.import_seconds:.1f} s", file=sys.stderr)
    return loaded


def _calls(loaded: LoadedGateway) -> list[Request]:
    headers = {"Authorization": f"Bearer {loaded.key}"}
    return [Request(target, headers) for target in loaded.tools]


def _agents(context: RowContext) -> Iterator[Row]:
    """The interfaces for agents beside the REST call of the same tools in the same process."""
    echo = context.stack.enter_context(agents.echo(context.folder))
    yield Row("echo of JSON, which checks nothing", echo, [agents.echoed()])
    loaded = _loaded(context, 10)
    yield Row("utcp-gateway, REST call", loaded.server, _calls(loaded))
    modern, legacy = agents.mcp_calls(loaded, expect=RESPONSE_MARKER)
    yield Row(f"utcp-gateway, /mcp call ({agents.MODERN})", loaded.server, modern)
    yield Row(f"utcp-gateway, /mcp call ({agents.LEGACY})", loaded.server, legacy)
    for count in (1, 8):
        requests = agents.tool_calls(loaded, count, expect=RESPONSE_MARKER)
        name = f"utcp-gateway, /tool-calls with {count}"
        yield Row(name, loaded.server, requests, share=count)
    for name, request in agents.requests_without_calls(loaded).items():
        yield Row(f"utcp-gateway, {name}", loaded.server, [request])


def _executors(context: RowContext) -> Iterator[Row]:
    """A command to an executor beside a REST call of a tool over HTTP, all with the same response.

    The executor is connected to the first gateway by WebSocket. In the last row the second one is asked, and
    the cost is that of both.
    """
    loaded = _loaded(context, 10)
    port = free_port()
    command = ["-m", "benchmarks.executor", str(port), loaded.server.url, loaded.key]
    context.stack.enter_context(start_server(command, port=port, folder=context.folder))
    second = context.stack.enter_context(second_worker(loaded, context.folder))
    headers = {"Authorization": f"Bearer {loaded.key}"}
    by_rest = Request(f"/tools/{executor.TOOL}/call", headers)
    by_ubp = Request(
        "/ubp/commands",
        headers,
        {"commandId": "bench", "commandName": executor.TOOL, "arguments": ARGUMENTS},
    )
    yield Row("utcp-gateway, REST call of an HTTP tool", loaded.server, _calls(loaded))
    yield Row("utcp-gateway, REST call of an executor's tool", loaded.server, [by_rest])
    yield Row("utcp-gateway, POST /ubp/commands", loaded.server, [by_ubp])
    both = ServerWithPeer(second.port, second.process, second.log, loaded.server)
    yield Row("utcp-gateway, REST call at a second worker", both, [by_rest], sockets=loaded.sockets)


def _mcp_lists(context: RowContext) -> Iterator[Row]:
    """The list of 1,000 tools."""
    loaded = _loaded(context, agents.LISTED_TOOLS)
    name = f"utcp-gateway, tools/list of {agents.LISTED_TOOLS:,}"
    yield Row(name, loaded.server, [agents.full_list(loaded)], share=SLOW_ROW_DIVISOR)


def _lowlevel(context: RowContext) -> Iterator[Row]:
    server = context.stack.enter_context(agents.lowlevel(context.upstream, context.folder))
    params = {"name": "get0", "arguments": ARGUMENTS}
    for build, version in ((agents.rpc, agents.MODERN), (agents.legacy_rpc, agents.LEGACY)):
        request = build("tools/call", params, {}, expect=RESPONSE_MARKER)
        yield Row(f"official low-level server ({version})", server, [request], share=SLOW_ROW_DIVISOR)


def _contextforge(version: str) -> Callable[[RowContext], Iterator[Row]]:
    def row(context: RowContext) -> Iterator[Row]:
        started = others.contextforge(version, context.upstream, context.folder)
        server, requests = context.stack.enter_context(started)
        yield Row(f"IBM ContextForge {version}", server, requests, share=SLOW_ROW_DIVISOR, forks=True)

    return row


def _fastmcp(context: RowContext) -> Iterator[Row]:
    server, requests = context.stack.enter_context(others.fastmcp(context.upstream, context.folder))
    yield Row("FastMCP, from_openapi", server, requests, share=SLOW_ROW_DIVISOR, forks=True)


ROWS: dict[str, Callable[[RowContext], Iterator[Row]]] = {
    "nginx": _floor,
    "bare": _bare,
    "tools-10": _sized(10),
    "tools-10000": _sized(10_000),
    "tools-100000": _sized(100_000),
    "kinds": _kinds,
    "limits": _limits,
    "recorded": _recorded,
    "agents": _agents,
    "executors": _executors,
    "mcp-lists": _mcp_lists,
    "mcp-lowlevel": _lowlevel,
    "contextforge-1.1.0": _contextforge("1.1.0"),
    "contextforge-1.0.6": _contextforge("1.0.6"),
    "fastmcp": _fastmcp,
}
"""By the name that `--only` takes, in the order of the table."""


def start_rows(names: Sequence[str], context: RowContext) -> list[Row]:
    """Start and return the rows that can be started; print the names of the others with the reason."""
    rows: list[Row] = []
    for name in names:
        try:
            rows += ROWS[name](context)
        except (NotStarted, NotInstalled) as reason:
            print(f"  left out: {name}: {reason}", file=sys.stderr)
    return rows


def measure_rows(rows: Sequence[Row], load: Load, *, rounds: int) -> list[Row]:
    """Measure the rows in turn, round after round, and return those that did not fail."""
    alive = list(rows)
    for _ in range(rounds):
        for row in list(alive):
            try:
                row.once(load)
            except LoadFailed as reason:
                print(f"  left out: {row.name}: {reason}", file=sys.stderr)
                alive.remove(row)
    return alive
