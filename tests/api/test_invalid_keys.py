"""Hundreds of invalid keys in the right format do not delay the look-up of keys that exist."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Self

import aiohttp
import pytest

from app.security.keys import PREFIX, SECRET_LENGTH, _checksum, mint
from tests.harness.gateway import RunningGateway, serve
from tests.harness.keys import key_id_of
from tests.harness.servers import Pair

_CONNECTIONS = 300
_COLD = 30


@pytest.fixture(scope="module")
def attacked(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with few connections to PostgreSQL, which verifies a cached key again after a second.

    LISTEN is of no use on this DSN, so that a cached key that was revoked ends only with that second.
    """
    with serve(
        servers, tmp_path_factory.mktemp("attacked"), DATABASE_POOL_SIZE="3", KEY_CACHE_SECONDS="1"
    ) as running:
        yield running


class InvalidKeyRequests:
    """Continuous requests on so many connections, each with another key that was never created."""

    def __init__(self, gateway: RunningGateway, *, key: str | None = None) -> None:
        self.found: Counter[int] = Counter()
        self._gateway = gateway
        self._key = key
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
        self._tasks = [asyncio.create_task(self._hammer()) for _ in range(_CONNECTIONS)]
        async with asyncio.timeout(30):
            while self.found.total() < _CONNECTIONS:  # noqa: ASYNC110 - a counter has no event.
                await asyncio.sleep(0.02)
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    async def _hammer(self) -> None:
        while True:
            headers = {"Authorization": f"Bearer {self._key or mint().text.reveal()}"}
            url = f"{self._gateway.url}/tools/nothing/call"
            async with self._session.post(url, json={}, headers=headers) as response:
                await response.read()
                self.found[response.status] += 1


async def status_of(gateway: RunningGateway, key: str) -> int:
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.post(
            f"{gateway.url}/tools/nothing/call", json={}, headers={"Authorization": f"Bearer {key}"}
        ) as response,
    ):
        return response.status


def create_keys(gateway: RunningGateway, number: int) -> list[dict[str, str]]:
    with gateway.client() as client:
        found = [
            client.post("/keys", json={"name": f"cold {index}", "scopes": ["tools:call"]})
            for index in range(number)
        ]
    assert {one.status_code for one in found} == {201}
    return [one.json() for one in found]


@pytest.mark.long
async def test_uncached_keys_are_served_while_invalid_keys_are_sent(attacked: RunningGateway) -> None:
    keys = await asyncio.to_thread(create_keys, attacked, _COLD)
    async with InvalidKeyRequests(attacked) as invalid:
        # There is no such tool: 404 means that the key was accepted.
        statuses = Counter([await status_of(attacked, key["key"]) for key in keys])
    assert statuses == {404: _COLD}
    assert set(invalid.found) == {401}


@pytest.mark.long
async def test_uncached_keys_are_served_while_a_known_id_is_sent_with_a_wrong_secret(
    attacked: RunningGateway,
) -> None:
    keys = await asyncio.to_thread(create_keys, attacked, _COLD + 1)
    body = f"{PREFIX}_{key_id_of(keys[0]['key'])}_{'x' * SECRET_LENGTH}"
    async with InvalidKeyRequests(attacked, key=body + _checksum(body)) as invalid:
        statuses = Counter([await status_of(attacked, key["key"]) for key in keys[1:]])
    assert statuses == {404: _COLD}
    assert set(invalid.found) == {401}
