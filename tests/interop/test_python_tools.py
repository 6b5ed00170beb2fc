"""Functions that utcp_gateway_client serves: called through a gateway that has registered them, and by UTCP clients."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import RunningGateway
from tests.interop.clients import HERE, run_at
from tests.interop.environments import install_client_library, required

TOKEN = "a-token-for-tests"
FORECAST = {"place": {"city": "Hull"}, "days": 2, "unit": "fahrenheit"}
FORECASTS = [{"city": "Hull", "temperature": 10.0 + day, "unit": "fahrenheit"} for day in range(2)]


@contextmanager
def served(token: str = "") -> Iterator[str]:
    """Serve the functions of python_tools.py; the value is the URL."""
    interpreter = required(install_client_library)
    process = subprocess.Popen(
        [str(interpreter), str(Path(HERE) / "python_tools.py"), token], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def open_tools() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture(scope="module")
def guarded_tools() -> Iterator[str]:
    with served(TOKEN) as url:
        yield url


@contextmanager
def registered(gateway: RunningGateway, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Register a provider; the value is the report."""
    with gateway.client() as client:
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        try:
            yield made.json()
        finally:
            client.delete(f"/providers/{body['name']}").raise_for_status()


def test_functions_are_called_through_a_gateway(gateway: RunningGateway, open_tools: str) -> None:
    with registered(gateway, {"name": "python", "url": f"{open_tools}/utcp"}), gateway.client() as client:
        found = client.get("/tools", params={"provider": "python"}).json()["items"]
        names = [
            "python.double_me",
            "python.get_cookie",
            "python.get_forecast",
            "python.get_picture",
            "python.reserve",
        ]
        assert sorted(each["name"] for each in found) == names
        hits = client.get("/tools/search", params={"q": "weather forecast"}).json()["items"]
        assert "python.get_forecast" in [hit["name"] for hit in hits]
        called = client.post("/tools/python.get_forecast/call", json={"body": FORECAST})
        assert called.json() == FORECASTS
        assert client.post("/tools/python.double_me/call", json={"body": {"a": 2}}).json() == 4
        assert client.post("/tools/python.get_cookie/call", json={"body": {}}).json() == "all out!"
        assert client.post("/tools/python.get_picture/call", json={"body": {}}).content == b"\x89PNG\x00\xff"


def test_gateway_rejects_what_the_function_does_not_take(gateway: RunningGateway, open_tools: str) -> None:
    with registered(gateway, {"name": "python", "url": f"{open_tools}/utcp"}), gateway.client() as client:
        wrong = {"body": {"place": {"city": 1}, "days": 9, "extra": 1}}
        rejected = client.post("/tools/python.get_forecast/call", json=wrong)
        assert rejected.status_code == 422
        pointers = {each["pointer"] for each in rejected.json()["errors"]}
        assert {"/body/place/city", "/body/days"} <= pointers
        failed = client.post("/tools/python.reserve/call", json={"body": {}})
        assert "The restaurant is closed." in failed.json()["detail"]


def test_gateway_has_the_token_of_the_tools(gateway: RunningGateway, guarded_tools: str) -> None:
    body = {
        "name": "python",
        "url": f"{guarded_tools}/utcp",
        "credentials": {"discovery": {"kind": "bearer", "token": TOKEN}},
        "variables": {"TOOLS_TOKEN": {"value": TOKEN, "secret": True}},
    }
    with registered(gateway, body) as report, gateway.client() as client:
        assert TOKEN not in str(report)
        called = client.post("/tools/python.double_me/call", json={"body": {"a": 4}})
        assert (called.status_code, called.json()) == (200, 8)
        shown = client.get("/tools/python.double_me")
        assert TOKEN not in shown.text


@pytest.mark.parametrize("client", ["1", "0", "typescript"])
def test_released_clients_call_the_functions_themselves(client: str, guarded_tools: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get_forecast", {"body": FORECAST}),
        ("double_me", {"body": {"a": 2}}),
        ("get_cookie", {"body": {}}),
        ("double_me", {"body": {"a": "many"}}),
    ]
    query = "?version=0" if client == "0" else ""
    result = run_at(client, f"{guarded_tools}/utcp{query}", TOKEN, calls, variables={"TOOLS_TOKEN": TOKEN})
    assert result["success"], result["errors"]
    names = ["double_me", "get_cookie", "get_forecast", "get_picture", "reserve"]
    assert sorted(result["tools"]) == [f"gw.{name}" for name in names]
    forecast, doubled, cookie, rejected = result["results"]
    assert (forecast, doubled, cookie) == ({"ok": FORECASTS}, {"ok": 4}, {"ok": "all out!"})
    assert "422" in rejected["error"]
