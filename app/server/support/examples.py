"""Examples of the responses, for the OpenAPI document: those of a real gateway name its machine."""

from typing import Any, Final

SETTING: Final[dict[str, Any]] = {
    "name": "CALL_LOG_MODE",
    "value": "strict",
    "default": "fast",
    "is_secret": False,
    "is_set": True,
    "is_default": False,
    "description": "When a call is recorded in PostgreSQL.",
}
DETAILS: Final[dict[str, Any]] = {
    "build": {"version": "0.2.0", "python": "3.11.7", "platform": "Linux-6.1-x86_64-with-glibc2.36"},
    "process": {"pid": 17, "started_at": "2026-11-24T09:00:00Z", "workers": 4},
    "database": {
        "state": "ok",
        "version": "17.2",
        "schema_revision": "0026",
        "connections_busy": 1,
        "connections_idle": 4,
        "connections_max": 10,
    },
    "redis": {"state": "ok", "version": "Valkey 8.1.1"},
    "key_ring": {
        "ids": ["k2", "k1"],
        "stored": [{"key_ring_id": "k2", "data_keys": 2, "in_ring": True}],
    },
    "change_feed": {"position": 1204, "lag_seconds": 0.4},
    "call_records": {"mode": "strict", "durable": True, "waiting": 0, "dropped": 0, "bodies": "off"},
    "semantic_search": {"state": "ready", "is_ready": True, "encoded": 1863, "total": 1863},
    "counts": {"providers": 12, "tools": 1863, "toolsets": 4, "keys": 9, "approvals_pending": 1},
}
BUNDLE: Final[dict[str, Any]] = {
    "made_at": "2026-11-24T09:00:00Z",
    "settings": [SETTING],
    "details": DETAILS,
    "metrics": "utcp_gateway_workers 4.0\n",
}


def build_response(example: Any, **members: Any) -> dict[int | str, dict[str, Any]]:
    """Return the response 200 of a route with this example."""
    return {200: {"content": {"application/json": {"example": example}}, **members}}
