"""A complete deployment on one machine: servers, fault proxies on every link, three replicas, nginx, an upstream."""

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.faults.gateways import Replica, Replicas, free_port
from tests.faults.load import Client, Outcome
from tests.faults.nginx import Nginx
from tests.faults.proxy import FaultProxy, proxied
from tests.faults.servers import Servers
from tests.faults.stub import Stub, document

SETTINGS = {
    "KEY_CACHE_SECONDS": "1",
    "FEED_POLL_SECONDS": "1",
    "DATABASE_POOL_SIZE": "5",
    "LOG_LEVEL": "warning",
    "SHUTDOWN_GRACE_SECONDS": "2",
}
"""Keys are read again every second, so that a fault of PostgreSQL affects every call within the time of a scenario."""
_SLICE_SETTINGS = {"AUTH_STALE_SECONDS": "12", "SHUTDOWN_TIMEOUT": "6", "SHUTDOWN_GRACE_SECONDS": "1"}
"""Settings of all replicas in the slice: with one set of settings the replicas need not be restarted, which takes seconds."""


@dataclass(slots=True)
class Rig:
    """The parts that scenarios use. `full` selects the long form of each; each scenario removes the faults that it injects."""

    folder: Path
    full: bool
    servers: Servers
    database: FaultProxy
    """Between the replicas and the cluster that is the primary at first."""
    database_b: FaultProxy
    """Between the replicas and the other cluster."""
    redis: FaultProxy
    stub: Stub
    replicas: Replicas
    nginx: Nginx
    _providers: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        """The base URL for clients: that of nginx."""
        return self.nginx.url

    def client(self, url: str | None = None, key: str | None = None) -> Client:
        """Return a client of nginx or of `url`, with the admin key or `key`."""
        return Client(url or self.url, key or self.replicas.key)

    async def use(self, **settings: str) -> None:
        """Run all replicas with the suite's settings and these, and remove all faults of the links."""
        if not self.full:
            settings = _SLICE_SETTINGS | settings
        for link in (self.database, self.database_b, self.redis):
            await link.heal()
        await self.replicas.run_with(**(SETTINGS | settings))
        # nginx does not retry for two seconds a server that it could not reach.
        await until(self._through_nginx, 10)

    async def _through_nginx(self) -> bool:
        async with self.client() as client:
            found = [await client.request("GET", "/health/ready") for _ in range(6)]
        return all(status == 200 and body.get("status") == "ready" for status, body, _ in found)

    async def register(
        self,
        name: str,
        url: str,
        *,
        writers: int = 1,
        limits: dict[str, Any] | None = None,
        key: str = "the-key",
    ) -> None:
        """Register a provider with the upstream at `url`, unless its name is registered already."""
        if name in self._providers:
            return
        self.stub.key = key
        oauth = {
            "kind": "oauth2", "client_id": "client", "client_secret": f"secret-of-{name}", "token_url": f"{self.stub.url}/token",
        }  # fmt: skip
        body = {
            "name": name,
            "source": {"document": document(url, writers=writers, token_url=f"{self.stub.url}/token")},
            "credentials": {"key": {"kind": "api_key", "value": key}, "oauth": oauth},
            "limits": limits or {},
        }
        found: list[Any] = []

        async def registered() -> bool:
            async with self.client() as client:
                found[:] = await client.request("POST", "/providers", json=body)
            return bool(found[0] != 503)

        # On a busy machine the response may be 503 with Retry-After.
        await until(registered, 20, every=0.5)
        assert found[0] == 201, found
        self._providers.add(name)

    async def warm(self, tool: str, arguments: dict[str, Any] | None = None) -> None:
        """Make the call at every replica, which then has the key and the plan in its cache."""
        for replica in self.replicas.all:
            found: list[Outcome] = []

            async def warmed(*, replica: Replica = replica, found: list[Outcome] = found) -> bool:
                async with self.client(replica.url) as client:
                    found[:] = [await client.call(tool, arguments or {})]
                return found[0].status != 503

            await until(warmed, 20, every=0.5)
            assert found[0].ok, (found[0].status, found[0].body)

    async def metric(self, replica: Replica, name: str) -> float:
        """Return the sum of a metric's series in one replica."""
        async with self.client(replica.url) as client:
            _, text, _ = await client.request("GET", "/metrics")
        lines = text.decode().splitlines() if isinstance(text, bytes) else []
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.partition("{")[0].partition(" ")[0] == name
        )

    @asynccontextmanager
    async def link(self) -> AsyncIterator[FaultProxy]:
        """Run another fault proxy, and so another origin, in front of the upstream."""
        async with proxied(("127.0.0.1", self.stub.port)) as proxy:
            yield proxy


class LivenessProbe:
    """Measures the slowest response of /health/live, which depends on no server, while the block runs.

    Guarantees in seconds hold on a machine that is not overloaded; limits are extended by `slowest` (seconds).
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.slowest = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._probe())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _probe(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(self._rig.client(one.url)) for one in self._rig.replicas.all
            ]
            while True:
                for client in clients:
                    began = time.monotonic()
                    status, _, _ = await client.request("GET", "/health/live")
                    if status == 200:
                        self.slowest = max(self.slowest, time.monotonic() - began)
                await asyncio.sleep(0.05)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float, *, every: float = 0.1) -> float:
    """Wait until the condition holds and return the seconds that took; infinity if that is more than `seconds`."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if await condition():
            return time.monotonic() - began
        await asyncio.sleep(every)
    return float("inf")


@asynccontextmanager
async def rig(*, full: bool, redis_program: Path | None = None) -> AsyncIterator[Rig]:
    """Start everything, and stop it when the block ends."""
    # A short path, because Unix sockets are created in it.
    with tempfile.TemporaryDirectory(prefix="ugf-", dir=os.environ.get("TMPDIR", "/tmp")) as name:
        folder = Path(name)
        async with contextlib.AsyncExitStack() as stack:
            servers = Servers(folder, redis_program)
            stack.push_async_callback(servers.stop)
            await servers.start()
            stub = Stub()
            stack.push_async_callback(stub.stop)
            await stub.start()
            links = [
                await stack.enter_async_context(proxied(target))
                for target in (servers.primary.socket, servers.standby.socket, servers.redis.socket)
            ]
            hosts = f"host=127.0.0.1,127.0.0.1&port={links[0].port},{links[1].port}&target_session_attrs=read-write"
            replicas = Replicas(
                folder,
                database_url=f"postgresql://postgres@/gateway?{hosts}",
                redis_url=f"redis://{links[2].address}/0",
            )
            stack.push_async_callback(replicas.stop)
            nginx = Nginx(
                folder / "nginx", port=free_port(), gateways=[replica.port for replica in replicas.all]
            )
            stack.push_async_callback(nginx.stop)
            replicas.prepare(**SETTINGS)
            await asyncio.to_thread(replicas.bootstrap)
            await nginx.start()
            yield Rig(folder, full, servers, links[0], links[1], links[2], stub, replicas, nginx)
