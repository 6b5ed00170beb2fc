"""`utcp-gateway executors`, and the keys of executors."""

from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


CONNECTED = {
    "id": "0199f0c45e3a7c0fb1d0a2b3c4d5e6f7",
    "executor": "orders",
    "state": "busy",
    "transport": "websocket",
    "key_id": "AgentKey2346",
    "commands": ["cancel_order", "get_order_status"],
    "open_commands": 3,
    "max_commands": 32,
    "connected_at": "2026-11-22T09:00:00Z",
}


def test_connections_of_executors_are_listed(run: Run, stub: Any) -> None:
    stub.on("GET", "/executors", {"items": [CONNECTED], "next_cursor": None})
    ran = run("executors", "list", "--state", "busy", "--executor", "orders", "-q", "order")
    assert ran.code == 0, ran.err
    assert stub.seen[0].query == {"state": "busy", "executor": "orders", "q": "order", "limit": "50"}
    for text in ("orders", "busy", "32", "websocket", "get_order_status"):
        assert text in ran.out
    assert run("executors", "list", "--json").json()["items"] == [CONNECTED]


def test_a_key_of_an_executor_is_created_with_its_scope(run: Run, stub: Any) -> None:
    made = {"id": "k", "name": "orders", "key": "ugw_k_x", "scopes": ["executors:connect"]}
    stub.on("POST", "/keys", made, status=201)
    ran = run("keys", "create", "orders", "--scope", "executors:connect", "--provider", "orders")
    assert ran.code == 0, ran.err
    assert stub.seen[0].json()["scopes"] == ["executors:connect"]
    assert stub.seen[0].json()["providers"] == ["orders"]
