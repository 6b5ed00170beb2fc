"""Kits of protocols of our own for files and databases: a folder, and the PostgreSQL of the test run."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson

from app.storage.database import asyncpg_dsn
from tests.harness.servers import pair
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.peers.postgres import postgres_port

ROOT = Path(tempfile.mkdtemp(prefix="ugw-filesystem-"))
"""What the operator allows for the protocol filesystem."""


class FilesystemKit(Kit):
    protocol = "filesystem"
    cases = frozenset({"echo", "huge", "unreachable"})
    places = ()
    discovers = False

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        (ROOT / "echo.txt").write_text("x")
        (ROOT / "huge").mkdir(exist_ok=True)
        (ROOT / "huge" / "echo.txt").write_text("x" * (HUGE + 1))
        yield Upstream(ROOT)

    def template(self, upstream: Upstream, case: str) -> Template:
        root = {"huge": ROOT / "huge", "unreachable": ROOT / "missing"}.get(case, ROOT)
        return {
            "call_template_type": "filesystem", "operation": "read", "root": str(root), "max_bytes": 2 * HUGE,
        }  # fmt: skip

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "echo")

    def arguments(self) -> dict[str, Any]:
        return {"path": "echo.txt"}

    def echoed(self, body: bytes) -> Any:
        return {"path": orjson.loads(body)["path"]}


class PostgresKit(Kit):
    """The function `answer()` responds by case: each case is a role, whose search path has another one."""

    protocol = "postgres"
    peer_members = frozenset({"port", "username", "password", "sslmode"})
    cases = frozenset({"echo", "silent", "huge", "rejects", "unreachable"})
    places = ()
    discovers = False

    def __init__(self) -> None:
        self._dsn = ""
        self.dsn = ""

    def anew(self, stack: AsyncExitStack) -> AbstractAsyncContextManager[Upstream]:
        return self._served(stack)

    def serve(self) -> AbstractAsyncContextManager[Upstream]:
        return self._served(None)

    @contextlib.asynccontextmanager
    async def _served(self, stack: AsyncExitStack | None) -> AsyncIterator[Upstream]:
        async with AsyncExitStack() as own:
            dsn = self._dsn or await self._start(stack or own)
            self._dsn = dsn if stack is not None else self._dsn
            self.dsn = dsn
            port = await own.enter_async_context(postgres_port(dsn))
            upstream = Upstream((port, urlsplit(dsn).path.lstrip("/")))
            watching = asyncio.create_task(_watch(dsn, upstream))
            yield upstream
            watching.cancel()

    async def _start(self, stack: AsyncExitStack) -> str:
        context = pair()
        servers = await asyncio.to_thread(context.__enter__)
        stack.push_async_callback(asyncio.to_thread, context.__exit__, None, None, None)
        dsn = await asyncio.to_thread(servers.create_database, migrated=False)
        connection = await asyncpg.connect(asyncpg_dsn(dsn))
        for case, body in _ANSWERS.items():
            with contextlib.suppress(asyncpg.DuplicateObjectError):
                await connection.execute(f"CREATE ROLE kit_{case} LOGIN")
            await connection.execute(
                f"ALTER ROLE kit_{case} SET search_path = {case}; CREATE SCHEMA {case}; "
                f"GRANT USAGE ON SCHEMA {case} TO kit_{case}; "
                f"CREATE FUNCTION {case}.answer() RETURNS text LANGUAGE plpgsql AS $$ BEGIN {body} END $$"
            )
        await connection.close()
        return dsn

    def template(self, upstream: Upstream, case: str) -> Template:
        port, database = upstream.place
        role = "echo" if case == "unreachable" else case
        return {
            "call_template_type": "postgres", "host": "127.0.0.1", "database": database, "sslmode": "disable",
            "port": free_port() if case == "unreachable" else port, "username": f"kit_{role}",
            "timeout": 600_000,
        }  # fmt: skip

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "echo")

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": "postgres", "host": text, "database": "x", "username": "x"}]

    def arguments(self) -> dict[str, Any]:
        return {"query": "SELECT answer()"}

    def echoed(self, body: bytes) -> Any:
        return {"query": orjson.loads(body)["rows"][0]["answer"]}


_ANSWERS = {
    "echo": "RETURN current_query();",
    "silent": "PERFORM pg_sleep(60); RETURN 1;",
    "huge": f"RETURN repeat('x', {HUGE + 1});",
    "rejects": "RAISE EXCEPTION 'rejected';",
}


async def _watch(dsn: str, upstream: Upstream) -> None:
    """Set `gone` once the query of `silent` has run, and has ended."""
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    running = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'kit_silent' AND state = 'active'"
    begun = False
    try:
        while not upstream.gone.is_set():
            count = await connection.fetchval(running)
            if begun and not count:
                upstream.gone.set()
            begun = begun or bool(count)
            await asyncio.sleep(0.05)
    finally:
        connection.terminate()
