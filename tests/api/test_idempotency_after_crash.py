"""A gateway that is killed in the middle of a call with an Idempotency-Key, and its successor."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import httpx2
import pytest

from app.security.vault import KeyRing
from app.storage.database import asyncpg_dsn
from tests.harness.beside import beside, raw_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

_LATE = "UPDATE idempotency_keys SET leased_until = now() WHERE sealed IS NULL"


class Till:
    """An upstream that receives each request, signals its arrival, and never responds."""

    def __init__(self) -> None:
        self.requests = 0
        self.arrived = threading.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            self.arrived.set()
        writer.close()


@contextmanager
def till() -> Iterator[Till]:
    site = Till()
    with beside(raw_server(site.serve)) as site.url:
        yield site


def register(gateway: RunningGateway, site: Till) -> None:
    operation = {"operationId": "pay", "responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.0.3",
        "info": {"title": "Till", "version": "1"},
        "servers": [{"url": site.url}],
        "paths": {"/pay": {"post": operation}},
    }
    with gateway.client() as client:
        made = client.post("/providers", json={"name": "till", "source": {"document": document}})
    assert made.status_code == 201, made.text


async def expire_leases(dsn: str) -> None:
    """Let the leases of unfinished calls end now."""
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    await connection.execute(_LATE)
    await connection.close()


async def recorded(dsn: str) -> list[str]:
    """The recorded outcomes of the calls."""
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    rows = await connection.fetch("SELECT outcome FROM calls WHERE tool = 'till.pay'")
    await connection.close()
    return [row["outcome"] for row in rows]


@pytest.mark.parametrize(("mode", "records"), [("fast", []), ("strict", ["running"])])
@pytest.mark.long
def test_a_payment_is_sent_once_though_the_gateway_crashes(
    servers: Pair, tmp_path: Path, mode: str, records: list[str]
) -> None:
    dsn = servers.create_database()
    ring = KeyRing.generate("test")
    headers = {"Idempotency-Key": "payment-1"}
    with till() as site:
        with (
            serve(servers, tmp_path, database_url=dsn, SEALING_KEYS=ring, CALL_LOG_MODE=mode) as first,
            ThreadPoolExecutor() as pool,
        ):
            register(first, site)
            with first.client() as client:
                paying = pool.submit(client.post, "/tools/till.pay/call", json={}, headers=headers)
                assert site.arrived.wait(20)
                first.process.kill()
                first.process.wait()
                assert isinstance(paying.exception(20), httpx2.TransportError)
        # With the key, in one commit, and before anything was sent.
        assert asyncio.run(recorded(dsn)) == records
        with (
            serve(servers, tmp_path, database_url=dsn, SEALING_KEYS=ring, CALL_LOG_MODE=mode) as second,
            second.client(first.key) as client,
        ):
            running = client.post("/tools/till.pay/call", json={}, headers=headers)
            assert running.json()["type"].endswith("idempotency-running")
            asyncio.run(expire_leases(dsn))
            for _ in range(2):
                unknown = client.post("/tools/till.pay/call", json={}, headers=headers)
                assert unknown.status_code == 409
                assert unknown.json()["type"].endswith("idempotency-unknown")
                assert unknown.headers["x-call-id"] == running.headers["x-call-id"]
        assert site.requests == 1
    servers.drop_database(dsn)
