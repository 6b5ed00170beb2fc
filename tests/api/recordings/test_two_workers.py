"""Two workers at one database: recordings have no gaps, and a run gets each recorded response once."""

import asyncio
from collections import Counter

import httpx2
import pytest

from tests.harness.application import run_application
from tests.harness.plain_http import WITHOUT_CERTIFICATES


@pytest.fixture
async def both(api):
    """Sends a call to one of two workers, in turns."""
    async with run_application(api.services.settings) as other:
        client = httpx2.AsyncClient(trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=20)

        async def call(number, key, run="a"):
            url = (api.url, other.url)[number % 2]
            headers = {"Authorization": key.headers["authorization"], "X-Recording-Run": run}
            response = await client.post(
                f"{url}/tools/library.search/call", json={"q": "sea"}, headers=headers
            )
            assert response.status_code == 200, response.text
            return response.json()["number"]

        yield call
        await client.aclose()


async def test_run_gets_each_response_once_whichever_worker_serves_it(
    both, admin, recorder, player, upstream
):
    recorded = await asyncio.gather(*(both(number, recorder) for number in range(12)))
    assert sorted(recorded) == list(range(1, 13))
    items = (await admin.get("/recordings/r/interactions?limit=200")).json()["items"]
    assert sorted(one["position"] for one in items) == list(range(1, 13))
    for run in ("a", "b"):
        replayed = await asyncio.gather(*(both(number, player, run) for number in range(12)))
        assert Counter(replayed) == Counter(recorded)
    in_turns = [[await both(number, player, run) for number in range(12)] for run in ("c", "d")]
    assert in_turns[0] == in_turns[1]
    assert upstream.count == 12


async def test_worker_sees_what_the_other_one_has_changed(both, api, admin, recorder, player):
    await both(0, recorder)
    assert await both(0, player) == await both(1, player) == 1
    document = (await admin.get("/recordings/r/export")).json()
    changed = await admin.patch("/recordings/r", json={"options": {"ignored": ["/q"]}})
    assert changed.status_code == 200
    assert await both(0, player) == 1
    assert (await admin.put("/recordings/r", json=document)).status_code == 200
    assert await both(1, player, "x") == 1
