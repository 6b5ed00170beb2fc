"""The whole house on one machine: servers, fault proxies on every link, three replicas, nginx, an upstream."""

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
from tests.faults.load import Caller, Outcome
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
"""A key is read again every second, so that a fault of PostgreSQL meets every call within the time of a scenario."""
_OF_THE_SLICE = {"AUTH_STALE_SECONDS": "12", "SHUTDOWN_TIMEOUT": "6", "SHUTDOWN_GRACE_SECONDS": "1"}
"""What scenarios of the slice need, at all of its replicas: other settings mean other processes, which take seconds to start."""


@dataclass(slots=True)
class Rig:
    """What scenarios work with. `full` chooses the long form of each; they look after their own faults."""

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
        """Where clients come to: nginx."""
        return self.nginx.url

    def caller(self, url: str | None = None, key: str | None = None) -> Caller:
        """A client with the admin key."""
        return Caller(url or self.url, key or self.replicas.key)

    async def use(self, **settings: str) -> None:
        """All replicas run with the suite's settings and these, every link is whole."""
        if not self.full:
            settings = _OF_THE_SLICE | settings
        for link in (self.database, self.database_b, self.redis):
            await link.heal()
        await self.replicas.run_with(**(SETTINGS | settings))
        # nginx leaves alone for two seconds what it could not reach.
        await until(self._through_nginx, 10)

    async def _through_nginx(self) -> bool:
        async with self.caller() as caller:
            found = [await caller.request("GET", "/health/ready") for _ in range(6)]
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
        """A provider whose tools lie at `url`; known already: nothing."""
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
            async with self.caller() as caller:
                found[:] = await caller.request("POST", "/providers", json=body)
            return found[0] != 503

        # A busy machine may be told to come again.
        await until(registered, 20, every=0.5)
        assert found[0] == 201, found
        self._providers.add(name)

    async def warm(self, tool: str, arguments: dict[str, Any] | None = None) -> None:
        """Every replica has made the call, and so remembers key and plan."""
        for replica in self.replicas.all:
            found: list[Outcome] = []

            async def warmed(*, replica: Replica = replica, found: list[Outcome] = found) -> bool:
                async with self.caller(replica.url) as caller:
                    found[:] = [await caller.call(tool, arguments or {})]
                return found[0].status != 503

            await until(warmed, 20, every=0.5)
            assert found[0].ok, (found[0].status, found[0].body)

    async def metric(self, replica: Replica, name: str) -> float:
        """The sum of a metric's series in one replica."""
        async with self.caller(replica.url) as caller:
            _, text, _ = await caller.request("GET", "/metrics")
        lines = text.decode().splitlines() if isinstance(text, bytes) else []
        return sum(
            float(line.rpartition(" ")[2])
            for line in lines
            if line.partition("{")[0].partition(" ")[0] == name
        )

    @asynccontextmanager
    async def link(self) -> AsyncIterator[FaultProxy]:
        """A fault proxy of its own, and so an origin of its own, in front of the upstream."""
        async with proxied(("127.0.0.1", self.stub.port)) as proxy:
            yield proxy


class Pulse:
    """How late this machine is: the slowest answer of /health/live, which waits for nothing, while the block runs.

    What is promised in seconds is promised of a machine that has time; `slack` is what this one had not.
    """

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self.slack = 0.0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            callers = [
                await stack.enter_async_context(self._rig.caller(one.url)) for one in self._rig.replicas.all
            ]
            while True:
                for caller in callers:
                    asked = time.monotonic()
                    status, _, _ = await caller.request("GET", "/health/live")
                    if status == 200:
                        self.slack = max(self.slack, time.monotonic() - asked)
                await asyncio.sleep(0.05)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float, *, every: float = 0.1) -> float:
    """The seconds until it holds; infinity when it does not within `seconds`."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if await condition():
            return time.monotonic() - began
        await asyncio.sleep(every)
    return float("inf")


@asynccontextmanager
async def rig(*, full: bool, redis_program: Path | None = None) -> AsyncIterator[Rig]:
    """Everything up; taken down with the block, whatever happened."""
    # Short, because Unix sockets lie in it.
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
