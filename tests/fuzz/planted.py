"""The secrets that are planted for a run of fuzzing, and the gateway that they are planted in."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.cli.bootstrap import create_admin_key
from app.security.vault import KeyRing
from tests.fuzz.objects import FuzzObjects
from tests.fuzz.upstream import FuzzUpstream, fuzz_upstream
from tests.harness.canaries import LeakSearch, canary
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

_SETTINGS: dict[str, Any] = {
    # Generated tools point at upstreams that do not exist; without breakers every 503 is a finding.
    "BREAKER_FAILURES": "0",
    "CONNECT_TIMEOUT": "1",
    "FIRST_BYTE_TIMEOUT": "2",
    "TOTAL_TIMEOUT": "3",
    "CALL_LOG_BODIES": "all",
    # Generated models are at addresses that do not exist, too.
    "AGENT_TEST_SECONDS": "5",
}


@dataclass(frozen=True, slots=True)
class PlantedGateway:
    """A gateway, its upstream, the secrets of both by name, and the search for these and for created keys."""

    gateway: RunningGateway
    site: FuzzUpstream
    secrets: dict[str, str]
    search: LeakSearch

    def leaks_beside_responses(self) -> list[str]:
        """Return the leaks in the log and in the metrics."""
        with self.gateway.client() as client:
            metrics = client.get("/metrics").content
        log = self.gateway.log.read_bytes()
        return [*self.search.leaks_in("the log", log), *self.search.leaks_in("the metrics", metrics)]


@contextmanager
def planted_gateway(servers: Pair, folder: Path, **settings: Any) -> Iterator[PlantedGateway]:
    """Run a gateway with further `settings` and an upstream until the block ends."""
    names = ("credential", "client-secret", "variable", "static-header", "token")
    secrets = {name: canary(name) for name in names}
    with (
        fuzz_upstream(token=secrets["token"]) as site,
        serve(servers, folder, **_SETTINGS, **settings) as gateway,
    ):
        secrets["admin-key"] = gateway.key
        yield PlantedGateway(gateway, site, secrets, LeakSearch(secrets))


@contextmanager
def fuzz_objects(
    planted: PlantedGateway, *, prefix: str = "fuzz", tags: tuple[str, ...] = ()
) -> Iterator[FuzzObjects]:
    """Return a creator of objects whose secrets are the planted ones."""
    gateway = planted.gateway
    ring = KeyRing.parse(gateway.environment["SEALING_KEYS"])
    approver = asyncio.run(create_admin_key(gateway.database_url, ring, name="approver"))
    planted.search.add("the approver's key", approver)
    with gateway.client() as admin, gateway.client(key=approver) as other_admin:
        yield FuzzObjects(
            admin,
            planted.site,
            approver=other_admin,
            prefix=prefix,
            tags=tags,
            secrets=planted.secrets,
            search=planted.search,
        )
