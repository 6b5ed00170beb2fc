"""The searches of a worker that have not been stored yet."""

import threading
from collections import Counter, deque
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.models import now
from app.search.signals import SearchScope

MAX_TOOLS: Final = 50
"""So many tools of a search are noted, the best ones."""
_MAX_WAITING: Final = 2_000
_MAX_OF_KEY: Final = 100


class ObservedSearch(NamedTuple):
    """A search: whose it was, its texts, and the ids of the tools that it has shown, best first."""

    scope: SearchScope
    texts: tuple[str, ...]
    tools: tuple[UUID, ...]
    at: datetime


class SearchQueue:
    """A bounded queue; any thread may add to it. Beyond 2,000 searches, or 100 of one key, between two batches,
    further ones are dropped.
    """

    def __init__(self) -> None:
        self.dropped = 0
        """Searches that were dropped since the start."""
        self._lock = threading.Lock()
        self._waiting: deque[ObservedSearch] = deque()
        self._of_key: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, scope: SearchScope, texts: Sequence[str], tools: Sequence[UUID]) -> None:
        """Add a search, unless it has no text or has shown no tools."""
        if not tools or not any(texts):
            return
        search = ObservedSearch(scope, tuple(texts), tuple(tools[:MAX_TOOLS]), now())
        with self._lock:
            if len(self._waiting) >= _MAX_WAITING or self._of_key[scope.key_id] >= _MAX_OF_KEY:
                self.dropped += 1
                return
            self._waiting.append(search)
            self._of_key[scope.key_id] += 1

    def take(self) -> list[ObservedSearch]:
        """Return all searches that wait, and empty the queue."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            self._of_key.clear()
        return taken
