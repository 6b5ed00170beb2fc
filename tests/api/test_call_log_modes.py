"""The modes of the call log, while processes are killed and PostgreSQL is unavailable."""

import asyncio
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import pytest
from aiohttp import web

from app.storage.database import asyncpg_dsn
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.servers import Pair

TOOLS = 48
KILLS = 2


class Site:
    """An upstream that records which paths were called."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: Counter[str] = Counter()

    async def handle(self, request: web.Request) -> web.Response:
        """Each tool has a path of its own, so that a call of it is known by its name."""
        self.seen[request.path.strip("/")] += 1
        await asyncio.sleep(0.02)
        return web.json_response({"path": request.path})

    def openapi(self, number: int) -> dict[str, Any]:
        """Operations `t0`, `t1`... with effects, and one without."""
        responses = {"responses": {"200": {"description": "ok"}}}
        paths: dict[str, Any] = {
            f"/t{n}": {"post": {"operationId": f"t{n}", **responses}} for n in range(number)
        }
        paths["/look"] = {"get": {"operationId": "look", **responses}}
        return {
            "openapi": "3.0.3", "info": {"title": "Many", "version": "1"},
            "servers": [{"url": self.url}], "paths": paths,
        }  # fmt: skip


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """The upstream, in a thread."""
    found = Site()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", found.handle)
    with beside(web_server(application, shutdown_timeout=0.1)) as found.url:
        yield found


def register(gateway: RunningGateway, site: Site, number: int) -> None:
    with gateway.client() as client:
        made = client.post("/providers", json={"name": "many", "source": {"document": site.openapi(number)}})
    assert made.status_code == 201, made.text


def sql(dsn: str, statement: str) -> list[Any]:
    async def run() -> list[Any]:
        connection = await asyncpg.connect(asyncpg_dsn(dsn))
        try:
            return list(await connection.fetch(statement))
        finally:
            await connection.close()

    return asyncio.run(run())


@contextmanager
def killing(gateway: RunningGateway, dice: random.Random) -> Iterator[list[int]]:
    """Kill a random worker at random intervals, KILLS times; while a new one starts, few calls succeed."""
    over = threading.Event()
    killed: list[int] = []

    def run() -> None:
        while len(killed) < KILLS and not over.wait(dice.uniform(0.2, 0.8)):
            alive = sorted(gateway.workers())
            if len(alive) == 2 and ready(gateway):
                pid = dice.choice(alive)
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def ready(gateway: RunningGateway) -> bool:
    try:
        response = httpx2.get(
            f"{gateway.url}/health/ready", trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=5
        )
    except httpx2.TransportError:
        return False
    return response.status_code == 200


def call_all(gateway: RunningGateway, killed: list[int]) -> dict[str, int]:
    """Calls each tool once; the status, or 0 where the connection broke. Goes on until workers were killed."""
    responses: dict[str, int] = {}

    def one(number: int) -> None:
        deadline = time.monotonic() + 60
        while number == TOOLS - 1 and len(killed) < KILLS and time.monotonic() < deadline:
            time.sleep(0.05)
        try:
            with gateway.client() as client:
                responses[f"t{number}"] = client.post(f"/tools/many.t{number}/call", json={}).status_code
        except httpx2.TransportError:
            responses[f"t{number}"] = 0
        time.sleep(0.05)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(one, range(TOOLS)))
    return responses


@pytest.mark.long
def test_every_call_that_reached_the_upstream_is_recorded_though_workers_are_killed(
    servers: Pair, site: Site, tmp_path: Path
) -> None:
    site.seen.clear()
    dsn = servers.create_database()
    try:
        settings = {"CALL_LOG_MODE": "strict", "CALL_LOG_COMMIT_TIMEOUT": "10"}
        with serve(servers, tmp_path, database_url=dsn, workers=2, **settings) as gateway:
            register(gateway, site, TOOLS)
            with killing(gateway, random.Random(7)) as killed:
                responses = call_all(gateway, killed)
            assert len(killed) == KILLS
            deadline = time.monotonic() + 60
            while True:
                rows = sql(dsn, "SELECT tool, outcome, attempts FROM calls WHERE provider = 'many'")
                outcomes = {row["tool"].removeprefix("many."): row["outcome"] for row in rows}
                if site.seen.keys() <= outcomes.keys() or time.monotonic() > deadline:
                    break
                time.sleep(0.2)
        assert site.seen.keys() - outcomes.keys() == set()
        assert max(Counter(row["tool"] for row in rows).values()) == 1
        # No call with effects was made twice.
        assert max(site.seen.values()) == 1
        successful = {tool for tool, status in responses.items() if status == 200}
        assert {outcomes[tool] for tool in successful} == {"ok"}
        # The test is meaningful: a good part of the calls succeeded between the kills.
        assert len(successful) >= TOOLS / 8
        # Only those in progress when their worker was killed have no end: six clients, and so many kills.
        unfinished = {tool for tool, outcome in outcomes.items() if outcome in ("running", "unknown")}
        assert len(unfinished) <= 6 * len(killed)
        assert unfinished <= {tool for tool, status in responses.items() if status == 0}
    finally:
        servers.drop_database(dsn)


@contextmanager
def unavailable(dsn: str, servers: Pair) -> Iterator[None]:
    """The database rejects new connections and ends all others."""
    name = sql(dsn, "SELECT current_database() AS name")[0]["name"]
    sql(servers.database_url, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
    sql(
        servers.database_url,
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
    )
    try:
        yield
    finally:
        sql(servers.database_url, f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


@pytest.mark.parametrize(("mode", "expected"), [("fast", 200), ("strict", 503)])
@pytest.mark.long
def test_without_postgres_only_strict_calls_with_effects_are_rejected(
    servers: Pair, site: Site, tmp_path: Path, mode: str, expected: int
) -> None:
    site.seen.clear()
    dsn = servers.create_database()
    try:
        with (
            serve(servers, tmp_path, database_url=dsn, CALL_LOG_MODE=mode) as gateway,
            gateway.client() as client,
        ):
            register(gateway, site, 2)
            for tool in ("look", "t0"):
                assert client.post(f"/tools/many.{tool}/call", json={}).status_code == 200
            with unavailable(dsn, servers):
                ids = {}
                for tool, status in (("look", 200), ("t0", expected), ("t0", expected)):
                    response = client.post(f"/tools/many.{tool}/call", json={})
                    assert response.status_code == status, response.text
                    ids[response.headers["x-call-id"]] = response
                rejected = [response for response in ids.values() if response.status_code == 503]
                assert {response.json()["type"].rpartition(":")[2] for response in rejected} <= {
                    "call-log-unavailable"
                }
                assert all("retry-after" in response.headers for response in rejected)
            assert site.seen["t0"] == (1 if rejected else 3)
            # All are recorded once PostgreSQL is available again, and calls succeed again.
            deadline = time.monotonic() + 30
            while client.post("/tools/many.t1/call", json={}).status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            recorded: dict[str, Any] = {}
            while not ids.keys() <= recorded.keys() and time.monotonic() < deadline:
                time.sleep(0.1)
                found = client.get("/calls", params={"limit": 200})
                if found.status_code == 200:
                    recorded = {one["id"]: one for one in found.json()["items"]}
            for call_id, response in ids.items():
                outcome = "ok" if response.status_code == 200 else "call-log-unavailable"
                assert (recorded[call_id]["outcome"], recorded[call_id]["status"]) == (
                    outcome,
                    response.status_code,
                )
    finally:
        servers.drop_database(dsn)
