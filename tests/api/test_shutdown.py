"""A shutdown loses nothing: calls in progress complete, load balancers see it, streams and records are completed."""

import asyncio
import http.client
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import psutil
import pytest
from aiohttp import web

from app.storage.database import asyncpg_dsn
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, is_alive, serve
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.servers import Pair


class Slow:
    """An upstream whose responses begin when the test releases them."""

    def __init__(self) -> None:
        self.url = ""
        self.arrived = threading.Semaphore(0)
        self.released = threading.Event()

    async def handle(self, request: web.Request) -> web.Response:
        """Respond once released."""
        self.arrived.release()
        while not self.released.is_set():  # noqa: ASYNC110 - the event is another thread's.
            await asyncio.sleep(0.01)
        return web.json_response({"done": request.path})

    def wait_for(self, number: int) -> None:
        """Wait until so many requests have arrived."""
        for _ in range(number):
            assert self.arrived.acquire(timeout=30)


@contextmanager
def slow_upstream() -> Iterator[Slow]:
    site = Slow()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", site.handle)
    with beside(web_server(application, handler_cancellation=True, shutdown_timeout=0.1)) as site.url:
        yield site
        site.released.set()


@pytest.fixture
def site() -> Iterator[Slow]:
    with slow_upstream() as running:
        yield running


@pytest.fixture
def own_database(servers: Pair) -> Iterator[str]:
    """A database whose only calls are the test's."""
    dsn = servers.create_database()
    yield dsn
    servers.drop_database(dsn)


def add_tool(gateway: RunningGateway, site: Slow) -> None:
    template = {"call_template_type": "http", "http_method": "POST", "url": f"{site.url}/work"}
    with gateway.client() as client:
        made = client.post("/tools", json={"provider": "slow", "name": "work", "call_template": template})
    assert made.status_code == 201, made.text


def calling(gateway: RunningGateway, number: int) -> list[Any]:
    """Calls in progress, each in a thread and on a connection of its own."""

    def one() -> httpx2.Response:
        with gateway.client() as client:
            return client.post("/tools/slow.work/call", json={})

    pool = ThreadPoolExecutor(number)
    return [pool.submit(one) for _ in range(number)]


def recorded(gateway: RunningGateway) -> dict[str, str]:
    async def read() -> dict[str, str]:
        connection = await asyncpg.connect(asyncpg_dsn(gateway.database_url))
        rows = await connection.fetch("SELECT id, outcome FROM calls")
        await connection.close()
        return {str(row["id"]): row["outcome"] for row in rows}

    return asyncio.run(read())


def ready(gateway: RunningGateway) -> int:
    return httpx2.get(f"{gateway.url}/health/ready", trust_env=False, verify=WITHOUT_CERTIFICATES).status_code


def refuses(gateway: RunningGateway) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])), timeout=5).close()
    except OSError:
        return True
    return False


def until(condition: Any, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_request_that_arrives_as_the_listener_closes_gets_a_response(servers: Pair, tmp_path: Path) -> None:
    with serve(servers, tmp_path, SHUTDOWN_GRACE_SECONDS="0") as gateway:
        address = ("127.0.0.1", int(gateway.url.rpartition(":")[2]))

        connection = http.client.HTTPConnection(*address, timeout=10)
        statuses, headers = [], []
        for turn in range(2):
            connection.request("GET", "/health/live")
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            headers.append(response.headers["connection"])
            if turn == 0:
                gateway.process.send_signal(signal.SIGTERM)
                until(lambda: refuses(gateway))
        assert (statuses, headers) == ([200, 200], [None, "close"])
        assert gateway.process.wait(30) == 0


@pytest.mark.parametrize(("workers", "number"), [(1, signal.SIGTERM), (2, signal.SIGINT)])
def test_calls_in_progress_end_and_are_recorded(
    servers: Pair, own_database: str, site: Slow, tmp_path: Path, workers: int, number: signal.Signals
) -> None:
    settings = {"SHUTDOWN_GRACE_SECONDS": "6", "CALL_LOG_FLUSH_SECONDS": "60"}
    with serve(servers, tmp_path, database_url=own_database, workers=workers, **settings) as gateway:
        add_tool(gateway, site)
        in_progress = calling(gateway, 4)
        site.wait_for(4)
        gateway.process.send_signal(number)
        until(lambda: ready(gateway) == 503, seconds=5)

        def ends() -> bool:
            # Not ready, but a client that has not noticed yet is still served, on a connection that is then closed. Each
            # worker has its connections; so many new ones do not all go to the same.
            closes = []
            for _ in range(20 * workers - 19):
                with gateway.client() as client:
                    late = client.get("/tools/slow.work")
                assert late.status_code == 200
                closes.append(late.headers.get("connection") == "close")
            return all(closes)

        # A server looks for the signal every 0.1 s.
        until(ends, seconds=5)
        site.released.set()
        responses = [one.result(30) for one in in_progress]
        assert [one.status_code for one in responses] == [200] * 4
        assert {one.headers["connection"] for one in responses} == {"close"}
        assert gateway.process.wait(30) == 0
    outcomes = recorded(gateway)
    assert {outcomes[one.headers["x-call-id"]] for one in responses} == {"ok"}


def test_connections_are_refused_after_the_grace_time_while_calls_still_run(
    servers: Pair, site: Slow, tmp_path: Path
) -> None:
    with serve(servers, tmp_path, workers=2) as gateway:
        add_tool(gateway, site)
        in_progress = calling(gateway, 1)
        site.wait_for(1)
        gateway.process.send_signal(signal.SIGTERM)

        def refused() -> bool:
            try:
                ready(gateway)
            except httpx2.ConnectError:
                return True
            except httpx2.TransportError:
                # The connection was in the backlog when the listener was closed.
                return False
            return False

        until(lambda: refuses(gateway))
        assert not in_progress[0].done()
        site.released.set()
        assert in_progress[0].result(30).status_code == 200
        assert gateway.process.wait(30) == 0


@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_that_takes_longer_is_cut_off_and_recorded(
    servers: Pair, own_database: str, site: Slow, tmp_path: Path, workers: int
) -> None:
    settings = {"SHUTDOWN_TIMEOUT": "1", "CALL_LOG_FLUSH_SECONDS": "60"}
    with serve(servers, tmp_path, database_url=own_database, workers=workers, **settings) as gateway:
        add_tool(gateway, site)
        in_progress = calling(gateway, 1)
        site.wait_for(1)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(20) == 0
        assert in_progress[0].exception(10) is not None or in_progress[0].result().status_code >= 500
    assert list(recorded(gateway).values()) == ["cancelled"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_signal_ends_at_once_and_still_records(
    servers: Pair, own_database: str, site: Slow, tmp_path: Path, workers: int
) -> None:
    settings = {"SHUTDOWN_GRACE_SECONDS": "60", "CALL_LOG_FLUSH_SECONDS": "60"}
    with serve(servers, tmp_path, database_url=own_database, workers=workers, **settings) as gateway:
        add_tool(gateway, site)
        calling(gateway, 1)
        site.wait_for(1)
        gateway.process.send_signal(signal.SIGTERM)
        until(lambda: ready(gateway) == 503, seconds=5)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(20) == 0
    assert list(recorded(gateway).values()) == ["cancelled"]


@pytest.fixture(scope="module")
def two_workers(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that learns of changes by notifications only: it polls for them once a minute."""
    folder = tmp_path_factory.mktemp("two")
    with serve(servers, folder, workers=2, FEED_POLL_SECONDS="60") as gateway:
        yield gateway


def test_both_workers_see_a_change_before_they_would_poll(two_workers: RunningGateway, site: Slow) -> None:
    site.released.set()
    add_tool(two_workers, site)

    def statuses(number: int = 12) -> set[int]:
        found = set()
        for _ in range(number):
            with two_workers.client() as client:
                found.add(client.post("/tools/slow.work/call", json={}).status_code)
        return found

    for enabled, expected in ((True, 200), (False, 404), (True, 200)):
        with two_workers.client() as client:
            assert client.patch("/tools/slow.work", json={"enabled": enabled}).status_code == 200
        # Without the notification it would be a minute.
        until(lambda expected=expected: statuses() == {expected})


def test_a_killed_worker_is_started_again(two_workers: RunningGateway) -> None:
    until(lambda: len(two_workers.workers()) == 2)
    killed = next(iter(two_workers.workers()))
    os.kill(killed, signal.SIGKILL)
    until(lambda: killed not in two_workers.workers() and len(two_workers.workers()) == 2)
    for _ in range(10):
        assert ready(two_workers) == 200


def list_tree(gateway: RunningGateway) -> list[psutil.Process]:
    return [
        psutil.Process(gateway.process.pid),
        *psutil.Process(gateway.process.pid).children(recursive=True),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_a_signal_to_all_processes_lets_calls_end(
    servers: Pair, own_database: str, site: Slow, tmp_path: Path
) -> None:
    """As of a service manager that signals each process of a service."""
    with serve(servers, tmp_path, database_url=own_database, workers=2) as gateway:
        add_tool(gateway, site)
        in_progress = calling(gateway, 2)
        site.wait_for(2)
        for process in list_tree(gateway):
            process.send_signal(signal.SIGTERM)
        until(lambda: refuses(gateway))
        assert gateway.process.poll() is None
        site.released.set()
        assert [one.result(30).status_code for one in in_progress] == [200, 200]
        assert gateway.process.wait(30) == 0
    assert set(recorded(gateway).values()) == {"ok"}


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_outlive_their_fork_server_and_not_their_parent(servers: Pair, tmp_path: Path) -> None:
    with serve(servers, tmp_path, workers=2, execute=True) as gateway:
        until(lambda: len(gateway.workers()) == 2)
        workers = [psutil.Process(pid) for pid in gateway.workers()]
        fork_server = workers[0].parent()
        assert fork_server is not None
        fork_server.kill()
        until(lambda: not is_alive(fork_server))
        for _ in range(10):
            assert ready(gateway) == 200
        workers[0].kill()
        # By a new fork server.
        until(lambda: len(gateway.workers()) == 1, seconds=60)
        until(lambda: ready(gateway) == 200)
        assert workers[1].is_running()
        processes = [*list_tree(gateway), workers[1]]
        gateway.process.kill()
        until(lambda: not any(is_alive(one) for one in processes), seconds=60)


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_import_nothing_from_the_folder_of_the_gateway(servers: Pair, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    with serve(servers, tmp_path, workers=2, execute=True) as gateway:
        until(lambda: ready(gateway) == 200)
    assert not (tmp_path / "imported").exists()
