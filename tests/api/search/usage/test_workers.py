"""Two worker processes learn by themselves, in the background; what is searched for is stored nowhere."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_canaries import Collected, dump_postgres, dump_redis
from tests.harness.canaries import canary
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream, upstream

SETTINGS = {
    "SEARCH_USAGE_SECONDS": "0.1",
    "CALL_LOG_FLUSH_SECONDS": "0.05",
    "FEED_POLL_SECONDS": "0.2",
    "LOG_LEVEL": "debug",
}


@pytest.fixture(scope="module")
def site() -> Iterator[Upstream]:
    """The upstream."""
    with upstream() as running:
        yield running


@pytest.fixture(scope="module")
def workers(
    servers: Pair, tmp_path_factory: pytest.TempPathFactory, site: Upstream
) -> Iterator[RunningGateway]:
    """A gateway with two worker processes, whose tools differ in nothing but the end of their names."""
    operation = {"summary": "Switch a lamp", "responses": {"200": {"description": "ok"}}}
    paths = {f"/echo/open/{name}": {"get": {"operationId": f"lamp{name}", **operation}} for name in "ABCDE"}
    document = site.openapi() | {"paths": paths}
    with serve(servers, tmp_path_factory.mktemp("learning"), workers=2, **SETTINGS) as running:
        with running.client() as client:
            made = client.post("/providers", json={"name": "house", "source": {"document": document}})
            assert made.status_code == 201, made.text
        yield running


def first_tools(gateway: RunningGateway, number: int) -> list[str]:
    """The first tools of searches on connections of their own, which both workers accept."""
    found = []
    for _ in range(number):
        with gateway.client() as client:
            items: list[dict[str, str]] = []
            # The worker that did not register the tools reads them a moment later.
            deadline = time.monotonic() + 30
            while not items and time.monotonic() < deadline:
                items = client.get("/tools/search", params={"q": "switch lamp"}).json()["items"]
            found.append(items[0]["name"])
    return found


def test_both_workers_learn_in_the_background(workers: RunningGateway) -> None:
    assert len(set(first_tools(workers, 8)) - {"house.lampD"}) == 1
    deadline = time.monotonic() + 20
    while set(first_tools(workers, 12)) != {"house.lampD"} and time.monotonic() < deadline:
        with workers.client() as client:
            assert client.post("/tools/house.lampD/call", json={}).status_code == 200
    assert set(first_tools(workers, 12)) == {"house.lampD"}


def stored(client: Any) -> dict[str, Any]:
    """The numbers of what was learned."""
    found: dict[str, Any] = client.get("/search/usage").json()
    return found


def test_texts_of_searches_are_in_no_database_and_no_log(workers: RunningGateway) -> None:
    planted = {name: canary(name) for name in ("rest", "utcp", "mcp")}
    # A canary is split into words; these are searched for, too.
    planted |= {f"{name}-word": value.split("-")[2].split("/")[0] for name, value in planted.items()}
    with workers.client() as client:
        before = stored(client)
        client.get("/tools/search", params={"q": f"switch lamp {planted['rest']}"})
        client.get("/utcp", params={"q": f"switch lamp {planted['utcp']}"})
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "find_tools", "arguments": {"query": f"switch lamp {planted['mcp']}"}},
        }
        client.post("/mcp", json=message, headers={"Accept": "application/json, text/event-stream"})
        client.post("/tools/house.lampB/call", json={})
        deadline = time.monotonic() + 20
        # The words of three searches, each of which is new.
        while stored(client)["words"] < before["words"] + 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stored(client)["words"] >= before["words"] + 3
    seen = Collected()
    seen.parts.append(("the log", workers.log.read_bytes()))
    seen.parts.append(("PostgreSQL", asyncio.run(dump_postgres(workers.database_url))))
    seen.parts.append(("Redis", dump_redis(workers.redis_url)))
    assert seen.leaks(planted) == []
    assert {path.suffix for path in Path(workers.log).parent.iterdir()} <= {".log"}
