"""The number of pending approvals in the navigation, read at most every ten seconds for a key."""

import time
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from app.console.page import Page

_SECONDS: Final = 10.0
_MAX_KEYS: Final = 1_000
_OPERATION: Final = "GET /approvals"
_PATH: Final = "/console/approvals"

_read: "WeakKeyDictionary[Any, dict[str, tuple[float, int | None]]]" = WeakKeyDictionary()


async def pending_approvals(page: "Page") -> int | None:
    """Return how many approvals wait for a decision, of those that the key of a page may see; None where it
    may see none, or they cannot be read.
    """
    if not page.may(_OPERATION):
        return None
    counts = _read.setdefault(page.request.app, {})
    now = time.monotonic()
    at, count = counts.get(page.principal.key_id, (0.0, None))
    if at and now - at < _SECONDS and not page.path.startswith(_PATH):
        return count
    response = await page.api.send("GET", "/approvals", query={"state": "pending", "limit": 1}, check=False)
    count = None
    if response.status == 200:
        body = response.json()
        count = body["total"] if body["total"] is not None else body["total_at_least"]
    if len(counts) >= _MAX_KEYS:
        counts.clear()
    counts[page.principal.key_id] = (now, count)
    return count
