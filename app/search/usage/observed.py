"""The searches of a worker that have not been stored yet."""

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.security.principal import Principal
from app.storage.models import now

MAX_TOOLS: Final = 50
"""So many tools of a search are noted, the best ones."""
MAX_STEMS: Final = 64
"""So many stems of a text are noted, the first ones: a whole task has more words than say what it needs."""
_MAX_WAITING: Final = 2_000
_MAX_OF_KEY: Final = 100


class ObservedSearch(NamedTuple):
    """A text that was searched by: whose search it was, its stems, and the ids of the tools that it has
    shown, best first.
    """

    principal: Principal
    text: str
    stems: tuple[str, ...]
    tools: tuple[UUID, ...]
    at: datetime


class SearchQueue:
    """A bounded queue; any thread may add to it. Beyond 2,000 searches, or 100 of one key, between two
    batches, further ones are dropped.
    """

    def __init__(self) -> None:
        self.dropped = 0
        """Searches that were dropped since the start."""
        self._lock = threading.Lock()
        self._waiting: dict[tuple[UUID, str, str, tuple[UUID, ...]], ObservedSearch] = {}
        self._of_key: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, principal: Principal, text: str, stems: Sequence[str], tools: Sequence[UUID]) -> None:
        """Add a search, unless it has no words, has shown no tools, or is there already with the same tools:
        a search with an export searches twice.
        """
        if not tools or not stems:
            return
        key_id = principal.key_id
        search = ObservedSearch(principal, text, tuple(stems[:MAX_STEMS]), tuple(tools[:MAX_TOOLS]), now())
        identity = (principal.tenant_id, key_id, text, search.tools)
        with self._lock:
            if identity in self._waiting:
                return
            if len(self._waiting) >= _MAX_WAITING or self._of_key[key_id] >= _MAX_OF_KEY:
                self.dropped += 1
                return
            self._waiting[identity] = search
            self._of_key[key_id] += 1

    def take(self) -> list[ObservedSearch]:
        """Return all searches that wait, and empty the queue."""
        with self._lock:
            taken = list(self._waiting.values())
            self._waiting.clear()
            self._of_key.clear()
        return taken
