"""Applications by profile: each runs once in a process of tests, on a database of its own, which is emptied for each module."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from app.core.settings import Settings
from app.outbound.http1.pool import PROBATION_SECONDS
from app.security.vault import KeyRing
from app.storage.database import Database
from tests.harness.application import Application, run_application
from tests.harness.servers import Pair
from tests.stored import clear

# What most tests need: upstreams of the same process, and no lines of log between the results.
DEFAULT: dict[str, Any] = {"allow_networks": ("127.0.0.0/8", "::1/128"), "log_level": "error"}
# Idle applications cost little, but each has a pool of connections to PostgreSQL.
MAX_RUNNING = 5


@dataclass
class _Running:
    application: Application
    stack: AsyncExitStack


@dataclass
class Applications:
    """The applications of this process, one for each set of settings."""

    servers: Pair
    _running: OrderedDict[str, _Running] = field(default_factory=OrderedDict)

    async def get(self, *, probation: float = PROBATION_SECONDS, **settings: Any) -> Application:
        """Return the application with these settings in place of the defaults, with an empty registry.

        `probation` is that of connections to upstreams, in seconds.

        It is started at its first use, and ends when MAX_RUNNING others were used after it. Modules that give the same settings get the
        same application.
        """
        name = repr((probation, sorted(settings.items())))
        if name in self._running:
            self._running.move_to_end(name)
            await empty(self._running[name].application)
        else:
            while len(self._running) >= MAX_RUNNING:
                _, oldest = self._running.popitem(last=False)
                await oldest.stack.aclose()
            stack = AsyncExitStack()
            self._running[name] = _Running(
                await stack.enter_async_context(self._start(settings, probation)), stack
            )
        return self._running[name].application

    @asynccontextmanager
    async def _start(self, settings: dict[str, Any], probation: float) -> AsyncIterator[Application]:
        dsn = await asyncio.to_thread(self.servers.create_database)
        given = build_settings(self.servers, database_url=dsn, **settings)
        async with run_application(given, probation=probation) as application:
            # While the index is being built, unknown names get no suggestions.
            await application.services.search.wait_loaded()
            yield application
        await asyncio.to_thread(self.servers.drop_database, dsn)

    async def aclose(self) -> None:
        """End all of them."""
        while self._running:
            _, running = self._running.popitem()
            await running.stack.aclose()


def build_settings(servers: Pair, **settings: Any) -> Settings:
    """Return settings with the defaults of tests and a new sealing key, without those of a file."""
    return Settings(**{
        "_env_file": None,
        "redis_url": servers.redis_url,
        "sealing_keys": KeyRing.generate("test"),
        **DEFAULT,
        **settings,
    })  # fmt: skip


async def empty(application: Application) -> None:
    """Remove what tests have written, from the database and from the memory of the services."""
    services = application.services
    await application.close_clients()
    await services.call_log.flush()
    await clear(services.database)
    await announce_all(services.database)
    await services.feed.catch_up()


async def announce_all(database: Database) -> None:
    """Make each process on the database read everything again.

    The numbers of changes have no gaps, so that a gap tells the readers that they have missed some.
    """
    async with database.transaction() as session:
        await session.execute(text("UPDATE change_counter SET last = last + 2"))
        await session.execute(text("SELECT pg_notify('utcp_gateway_changes', '')"))
