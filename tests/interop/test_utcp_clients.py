"""The released UTCP clients register /utcp, list, search and call tools of each auth kind."""

import time
from pathlib import Path
from typing import Any

import pytest

from app.cli.sample import serve_sample_api
from tests.harness.gateway import RunningGateway
from tests.interop.clients import CLIENTS, run


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


def interfaces_of(gateway: RunningGateway, provider: str, count: int) -> set[str]:
    """Return the interfaces of the last calls of a provider's tools; records are stored after a second."""
    with gateway.client() as client:
        client.post(f"/tools/{provider}.searchBooks/call", json={"q": "sea"}).raise_for_status()
        for _ in range(100):
            found = client.get("/calls", params={"provider": provider, "limit": count + 1}).json()["items"]
            if found and found[0]["interface"] == "rest" and len(found) == count + 1:
                break
            time.sleep(0.1)
    assert found[0]["interface"] == "rest"
    return {record["interface"] for record in found[1:]}


@pytest.mark.parametrize("version", CLIENTS)
def test_a_released_client_discovers_and_calls_every_auth_kind(
    version: str, gateway: RunningGateway, library: str
) -> None:
    with gateway.client() as client:
        listed = client.get("/tools", params={"provider": library, "limit": 200}).json()["items"]
    alias = {tool["name"].partition(".")[2]: tool["alias"] for tool in listed}
    calls = [
        (alias[name], {"body": arguments})
        for name, arguments in calls_with(f"bk-00{3 + CLIENTS.index(version)}")
    ]
    result = run(version, gateway, calls)
    assert result["success"], result["errors"]
    assert sorted(result["tools"]) == sorted(f"gw.{name}" for name in alias.values())
    assert result["found"]
    assert interfaces_of(gateway, library, len(calls)) == {"utcp"}
    search, loan, members, stock, popular = (one.get("ok", one) for one in result["results"])
    assert search["items"], search
    assert all(book["available"] for book in search["items"])
    assert loan["member_id"] == "mb-001", loan
    assert members["items"]
    assert stock["copies"] >= 0
    assert len(popular["items"]) <= 2


@pytest.mark.parametrize("version", CLIENTS)
def test_a_client_may_give_the_arguments_without_a_body(
    version: str, gateway: RunningGateway, library: str
) -> None:
    arguments = {"q": "sea", "genre": ["adventure", "classic"], "limit": 3}
    with gateway.client() as client:
        alias = client.get(f"/tools/{library}.searchBooks").json()["alias"]
        found = client.post(f"/tools/{alias}/call", json=arguments).json()
    misspelt = {"q": "sea", "genres": "classic"}
    result = run(version, gateway, [(alias, arguments), (alias, {"q": "sea"}), (alias, misspelt)])
    named, sea, rejected = result["results"]
    assert named == {"ok": found}
    titles = [book["title"] for book in sea["ok"]["items"]]
    assert titles
    assert len(titles) < 12
    assert "422" in rejected["error"]


@pytest.mark.parametrize("version", CLIENTS)
def test_a_client_sees_why_a_call_failed(version: str, gateway: RunningGateway, library: str) -> None:
    with gateway.client() as client:
        alias = client.get(f"/tools/{library}.getBook").json()["alias"]
    result = run(version, gateway, [(alias, {"body": {"book_id": 7}})])
    assert "error" in result["results"][0]


@pytest.mark.parametrize("version", CLIENTS)
def test_a_client_calls_the_upstream_itself_with_credentials_of_its_own(
    version: str, gateway: RunningGateway, tmp_path: Path
) -> None:
    with serve_sample_api(tmp_path, port=0) as registration, gateway.client() as client:
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
        calls: list[tuple[str, dict[str, Any]]] = [
            (alias["searchBooks"], {"q": "sea", "limit": 3}),
            (alias["listMembers"], {}),
            (alias["getStock"], {"book_id": "bk-001"}),
            (alias["getPopularBooks"], {"limit": 2}),
        ]
        result = run(version, gateway, calls, query="?mode=direct&provider=direct", variables=variables)
        assert result["success"], result["errors"]
        assert {f"gw.{name}" for name, _ in calls} <= set(result["tools"])
        through = [client.post(f"/tools/{name}/call", json=arguments).json() for name, arguments in calls]
        assert [one.get("ok", one) for one in result["results"]] == through
        client.delete("/providers/direct")
