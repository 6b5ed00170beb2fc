"""The number of pending approvals in the navigation, read at most every ten seconds for a key."""

import time
from typing import Any, Final
from weakref import WeakKeyDictionary

from app.console.http.api_client import ApiClient

_SECONDS: Final = 10.0
_MAX_KEYS: Final = 1_000

_read: "WeakKeyDictionary[Any, dict[str, tuple[float, int | None]]]" = WeakKeyDictionary()


async def pending_approvals(app: object, api: ApiClient, key_id: str, *, is_current: bool) -> int | None:
    """Return how many approvals wait for a decision, of those that a key may see; None where they cannot be
    read. With `is_current`, the number is read now; otherwise it may be ten seconds old.
    """
    counts = _read.setdefault(app, {})
    now = time.monotonic()
    read_time, count = counts.get(key_id, (0.0, None))
    if read_time and now - read_time < _SECONDS and not is_current:
        return count
    response = await api.send("GET", "/approvals", query={"state": "pending", "limit": 1}, check=False)
    count = None
    if response.status == 200:
        body = response.json()
        count = body["total"] if body["total"] is not None else body["total_at_least"]
    if len(counts) >= _MAX_KEYS:
        counts.clear()
    counts[key_id] = (now, count)
    return count
