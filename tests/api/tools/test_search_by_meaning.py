"""Search by meaning in a whole gateway: paraphrases find their tool, all workers share the vectors, and all works
without them.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.harness.gateway import RunningGateway, serve
from tests.harness.semantic_models import built_model, slow_graph, write_model
from tests.harness.servers import Pair

OPERATIONS = {
    "createCoupon": "Create a coupon that lowers the price of an order.",
    "sendInvoice": "Send the invoice of an order to the customer by mail.",
    "listOrders": "List the orders of a customer, the newest first.",
    "bookRide": "Order a cab for the customer at the given address.",
    "deleteCustomer": "Delete the customer with all orders.",
}
PARAPHRASES = {
    "a discount voucher for the next order": "createCoupon",
    "a taxi home for the customer": "bookRide",
    "wipe all data of a customer": "deleteCustomer",
}


def document(operations: dict[str, str]) -> dict[str, object]:
    paths = {
        f"/{name}": {
            "post": {"operationId": name, "summary": text, "responses": {"200": {"description": "ok"}}}
        }
        for name, text in operations.items()
    }
    servers = [{"url": "http://127.0.0.1:9"}]
    return {"openapi": "3.0.3", "info": {"title": "Shop", "version": "1"}, "servers": servers, "paths": paths}


def register(gateway: RunningGateway, name: str, operations: dict[str, str]) -> None:
    with gateway.client() as client:
        made = client.post("/providers", json={"name": name, "source": {"document": document(operations)}})
        assert made.status_code == 201, made.text


def metric(gateway: RunningGateway, name: str) -> float:
    with gateway.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"utcp_gateway_{name} "))


def wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_encoded(gateway: RunningGateway, tools: int) -> None:
    """Wait until these many tools have vectors, and every worker has loaded the model and vectors."""
    wait(
        lambda: (
            metric(gateway, "search_vectors_encoded") == tools
            and metric(gateway, "search_vectors_ready") == 1
        )
    )


def first_hits(gateway: RunningGateway, text: str, *, times: int = 8) -> set[str]:
    """Return the best hits of several requests, each by a connection of its own: the workers take turns."""
    found = set()
    for _ in range(times):
        with gateway.client() as client:
            response = client.get("/tools/search", params={"q": text})
            assert response.status_code == 200, response.text
            body = response.json()
            hits = body["tools"] if isinstance(body, dict) and "tools" in body else body["items"]
            found.add(hits[0]["name"].partition(".")[2])
    return found


def encoding_processes(gateway: RunningGateway) -> list[int]:
    return [
        child.pid
        for child in psutil.Process(gateway.process.pid).children(recursive=True)
        if "app.search.vectors.encoding_process" in " ".join(child.cmdline())
    ]


def test_paraphrases_find_their_tool_on_every_worker(servers: Pair, tmp_path: Path) -> None:
    settings = {
        "SEMANTIC_MODEL_DIR": str(built_model()), "DATA_DIR": str(tmp_path / "data"), "SEMANTIC_QUERY_TIMEOUT": "5",
    }  # fmt: skip
    with serve(servers, tmp_path, workers=2, **settings) as gateway:
        register(gateway, "shop", OPERATIONS)
        wait_encoded(gateway, len(OPERATIONS))
        for text, name in PARAPHRASES.items():
            assert first_hits(gateway, text) == {name}
        (process,) = encoding_processes(gateway)
        assert psutil.Process(process).nice() == 19
        vectors = list((tmp_path / "data" / "search-vectors").glob("*.vectors"))
        mapped = [
            worker
            for worker in gateway.workers()
            if any(one.path == str(vectors[0]) for one in psutil.Process(worker).memory_maps())
        ]
        assert len(mapped) == 2
        # Killed, another one takes over what is left to do.
        os.kill(process, signal.SIGKILL)
        register(gateway, "lamps", {"switchOn": "Turn the lamps of a room on."})
        wait_encoded(gateway, len(OPERATIONS) + 1)
        assert encoding_processes(gateway) != [process]
        assert first_hits(gateway, "light up the bedroom lamps") == {"switchOn"}
        log = gateway.log.read_text()
        assert "the encoding process has ended and is restarted" in log
        assert gateway.database_url not in log


def test_a_slow_model_leaves_the_words(servers: Pair, tmp_path: Path) -> None:
    settings = {
        "SEMANTIC_MODEL_DIR": str(write_model(tmp_path / "model", graph=slow_graph())), "DATA_DIR": str(tmp_path / "data"),
        "SEMANTIC_QUERY_TIMEOUT": "0.001",
    }  # fmt: skip
    with serve(servers, tmp_path, **settings) as gateway:
        register(gateway, "shop", OPERATIONS)
        wait_encoded(gateway, len(OPERATIONS))
        assert first_hits(gateway, "send an invoice", times=1) == {"sendInvoice"}
        assert metric(gateway, 'search_query_vectors_total{outcome="late"}') == 1


def test_without_a_model_the_log_says_in_one_line_that_words_rank(servers: Pair, tmp_path: Path) -> None:
    with serve(servers, tmp_path, DATA_DIR=str(tmp_path / "data")) as gateway:
        register(gateway, "shop", OPERATIONS)
        assert first_hits(gateway, "send an invoice", times=1) == {"sendInvoice"}
        assert gateway.log.read_text().count("searches rank tools by words only") == 1
        assert not (tmp_path / "data" / "search-vectors").exists()


def test_a_folder_that_is_no_model_prevents_the_start(servers: Pair, tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"The gateway cannot start: SEMANTIC_MODEL_DIR: .* cannot be read"),
        serve(servers, tmp_path, SEMANTIC_MODEL_DIR=str(tmp_path)),
    ):
        pass
