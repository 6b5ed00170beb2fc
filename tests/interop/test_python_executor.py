"""Functions that utcp_gateway_client executes for a gateway to which it connects, through the whole of both."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.interop.clients import HERE
from tests.interop.environments import install_client_library, required
from tests.protocols.kits.base import free_port

Program = subprocess.Popen[bytes]


def wait_for(condition: Callable[[], Any], *, program: Program | None = None) -> None:
    """Wait until it is true; the end of `program` fails the test, and the test's own time limit what never is."""
    while not condition():
        if program is not None and program.poll() is not None:
            pytest.fail(f"the executor has ended: {read_errors(program)}")
        time.sleep(0.02)


def read_errors(program: Program) -> str:
    """Return what an ended executor has written to its standard error."""
    _, errors = program.communicate()
    return errors.decode()


def key_of(client: httpx2.Client, *scopes: str) -> str:
    made = client.post("/keys", json={"name": "executor", "scopes": list(scopes)})
    assert made.status_code == 201, made.text
    key: str = made.json()["key"]
    return key


@contextmanager
def started(
    gateway: RunningGateway, key: str, folder: Path, *, address: str | None = None
) -> Iterator[Program]:
    """Run python_executor.py in a process of its own; it connects to `address`, by default that of the gateway."""
    interpreter = required(install_client_library)
    program = str(Path(HERE) / "python_executor.py")
    command = [str(interpreter), program, address or gateway.url, key, str(folder)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[httpx2.Client]:
    with gateway.client() as opened:
        yield opened
        opened.delete("/providers/orders")


@pytest.fixture
def key(client: httpx2.Client) -> str:
    """The key of the executor, which owns the name `orders`."""
    return key_of(client, "executors:connect", "tools:call")


@pytest.fixture
def program(gateway: RunningGateway, client: httpx2.Client, key: str, tmp_path: Path) -> Iterator[Program]:
    with started(gateway, key, tmp_path) as process:
        wait_for(lambda: is_called(client), program=process)
        yield process


def is_called(client: httpx2.Client) -> bool:
    """Whether a function of the executor is called through the gateway."""
    return client.post("/tools/orders.get_order_status/call", json={"order_id": 1}).status_code == 200


def call(client: httpx2.Client, name: str, /, **arguments: Any) -> httpx2.Response:
    return client.post(f"/tools/orders.{name}/call", json=arguments)


def test_functions_are_tools_of_a_provider_and_are_called(client: httpx2.Client, program: Program) -> None:
    tool = client.get("/tools/orders.get_order_status").json()
    assert tool["description"] == "Return the status of an order."
    assert tool["inputs"]["properties"]["order_id"]["description"] == "The number of the order"
    assert call(client, "get_order_status", order_id=123).json() == "Shipped"
    assert call(client, "label").content == b"\x89PNG\x00\xff"
    rejected = call(client, "get_order_status", order_id="many")
    assert rejected.status_code == 422
    assert [each["pointer"] for each in rejected.json()["errors"]] == ["/order_id"]
    failed = call(client, "get_order_status", order_id=-1)
    assert failed.status_code >= 400
    assert "There is no order -1." in failed.text
    hits = client.get("/tools/search", params={"q": "status of an order"}).json()["items"]
    assert "orders.get_order_status" in [hit["name"] for hit in hits]


def test_command_is_cancelled_when_its_client_leaves(
    client: httpx2.Client, program: Program, tmp_path: Path
) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        client.post("/tools/orders.pack/call", json={"name": "a"}, timeout=2)
    wait_for((tmp_path / "a.cancelled").exists)
    assert is_called(client)


def test_open_command_finishes_at_a_stop_and_further_ones_are_away(
    client: httpx2.Client, program: Program, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as threads:
        packing = threads.submit(call, client, "pack", name="b")
        wait_for((tmp_path / "b.started").exists)
        program.send_signal(signal.SIGTERM)
        # The tools are deregistered while the command is still open.
        wait_for(lambda: not is_called(client))
        assert call(client, "get_order_status", order_id=1).status_code in (502, 503)
        assert program.poll() is None
        (tmp_path / "b.go").touch()
        packed = packing.result()
    assert (packed.status_code, packed.json()) == (200, "packed")
    assert program.wait() == 0


def test_killed_executor_is_away_at_once_and_back_with_the_next(
    gateway: RunningGateway, client: httpx2.Client, key: str, program: Program, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as threads:
        packing = threads.submit(call, client, "pack", name="c")
        wait_for((tmp_path / "c.started").exists)
        program.kill()
        lost = packing.result()
    assert lost.status_code in (502, 503)
    assert call(client, "get_order_status", order_id=1).status_code in (502, 503)
    with started(gateway, key, tmp_path) as restarted:
        wait_for(lambda: is_called(client), program=restarted)
        assert call(client, "get_order_status", order_id=123).json() == "Shipped"


def test_functions_are_called_by_grpc(servers: Pair, tmp_path: Path) -> None:
    port = free_port()
    with serve(servers, tmp_path, UBP_GRPC_PORT=str(port)) as running, running.client() as admin:
        key = key_of(admin, "executors:connect", "tools:call")
        with started(running, key, tmp_path, address=f"grpc://127.0.0.1:{port}") as process:
            wait_for(lambda: is_called(admin), program=process)
            assert call(admin, "get_order_status", order_id=123).json() == "Shipped"
            assert call(admin, "label").content == b"\x89PNG\x00\xff"
            with pytest.raises(httpx2.ReadTimeout):
                admin.post("/tools/orders.pack/call", json={"name": "g"}, timeout=2)
            wait_for((tmp_path / "g.cancelled").exists)
            assert {one["transport"] for one in admin.get("/executors").json()["items"]} == {"grpc"}
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        key = key_of(admin, "tools:call")
        with started(running, key, tmp_path, address=f"grpc://127.0.0.1:{port}") as process:
            _, errors = process.communicate()
        assert process.returncode != 0
        assert b"GatewayRejected" in errors
        assert key.encode() not in errors


def test_key_without_the_scope_is_rejected(
    gateway: RunningGateway, client: httpx2.Client, tmp_path: Path
) -> None:
    with started(gateway, key_of(client, "tools:read"), tmp_path) as process:
        _, errors = process.communicate()
    assert process.returncode == 1
    assert b"GatewayRejected" in errors
    assert b"executors:connect" in errors
