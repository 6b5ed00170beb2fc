"""The released UTCP clients register /utcp, list, search and call tools of each auth kind."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.sample import sample_api
from tests.harness.gateway import RunningGateway
from tests.interop.environments import interpreter

HERE = Path(__file__).parent
SCRIPTS = {"1": "client_v1.py", "0": "client_v0.py"}


@pytest.fixture(scope="module")
def library(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample API, registered as `interop`."""
    with (
        sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration,
        gateway.client() as client,
    ):
        made = client.post("/providers", json=registration | {"name": "interop"})
        assert made.status_code == 201, made.text
        yield "interop"
        client.delete("/providers/interop")


def run(
    version: str,
    gateway: RunningGateway,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    query: str = "?provider=interop",
    variables: dict[str, str] | None = None,
) -> dict[str, Any]:
    query += "&version=0" if version == "0" else ""
    more = json.dumps(variables or {})
    done = subprocess.run(
        [interpreter(f"utcp{version}"), HERE / SCRIPTS[version], f"{gateway.url}/utcp{query}", gateway.key, json.dumps(calls), more],
        capture_output=True, text=True, timeout=120, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def calls_with(book: str) -> list[tuple[str, dict[str, Any]]]:
    """A call of each auth kind; `book` is lent, so each client takes its own."""
    return [
        # No auth; a boolean, an array and an enum as query parameters.
        ("searchBooks", {"q": "sea", "available": True, "genre": ["adventure", "classic"], "limit": 3}),
        # An API key; a nested object with an array.
        (
            "createLoan",
            {
                "body": {
                    "member_id": "mb-001",
                    "items": [{"book_id": book, "days": 7}],
                    "delivery": {"method": "post", "address": {"street": "1 Quay", "city": "Hull"}},
                }
            },
        ),
        ("listMembers", {}),
        # Basic.
        ("getStock", {"book_id": "bk-001"}),
        # OAuth2 client credentials.
        ("getPopularBooks", {"limit": 2}),
    ]


@pytest.mark.parametrize("version", ["1", "0"])
def test_a_released_client_discovers_and_calls_every_auth_kind(
    version: str, gateway: RunningGateway, library: str
) -> None:
    with gateway.client() as client:
        listed = client.get("/tools", params={"provider": library, "limit": 200}).json()["items"]
    alias = {tool["name"].partition(".")[2]: tool["alias"] for tool in listed}
    calls = [(alias[name], {"body": arguments}) for name, arguments in calls_with(f"bk-00{3 + int(version)}")]
    told = run(version, gateway, calls)
    assert told["success"], told["errors"]
    assert sorted(told["tools"]) == sorted(f"gw.{name}" for name in alias.values())
    assert told["found"]
    search, loan, members, stock, popular = (result.get("ok", result) for result in told["results"])
    assert search["items"], search
    assert all(book["available"] for book in search["items"])
    assert loan["member_id"] == "mb-001", loan
    assert members["items"]
    assert stock["copies"] >= 0
    assert len(popular["items"]) <= 2


@pytest.mark.parametrize("version", ["1", "0"])
def test_a_client_sees_why_a_call_failed(version: str, gateway: RunningGateway, library: str) -> None:
    with gateway.client() as client:
        alias = client.get(f"/tools/{library}.getBook").json()["alias"]
    told = run(version, gateway, [(alias, {"body": {"book_id": 7}})])
    assert "error" in told["results"][0]


@pytest.mark.parametrize("version", ["1", "0"])
def test_a_client_calls_the_upstream_itself_with_credentials_of_its_own(
    version: str, gateway: RunningGateway, tmp_path: Path
) -> None:
    with sample_api(tmp_path, port=0) as registration, gateway.client() as client:
        given = registration["credentials"]
        made = client.post("/providers", json=registration | {"name": "direct", "options": {"direct": True}})
        assert made.status_code == 201, made.text
        listed = client.get("/tools", params={"provider": "direct", "limit": 200}).json()["items"]
        alias = {tool["name"].partition(".")[2]: tool["alias"] for tool in listed}
        variables: dict[str, str] = {}
        for slot, credential in given.items():
            name = f"DIRECT_{slot}".upper()
            for key, suffix in (
                ("value", ""), ("token", ""), ("username", "_USERNAME"), ("password", "_PASSWORD"),
                ("client_id", "_CLIENT_ID"), ("client_secret", "_CLIENT_SECRET"),
            ):  # fmt: skip
                if key in credential:
                    variables[name + suffix] = credential[key]
        calls = [
            (alias["searchBooks"], {"q": "sea", "limit": 3}),
            (alias["listMembers"], {}),
            (alias["getStock"], {"book_id": "bk-001"}),
            (alias["getPopularBooks"], {"limit": 2}),
        ]
        told = run(version, gateway, calls, query="?mode=direct&provider=direct", variables=variables)
        assert told["success"], told["errors"]
        assert {f"gw.{name}" for name, _ in calls} <= set(told["tools"])
        through = [client.post(f"/tools/{name}/call", json=arguments).json() for name, arguments in calls]
        assert [result.get("ok", result) for result in told["results"]] == through
        client.delete("/providers/direct")
