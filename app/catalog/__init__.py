"""The compiled plans of this worker: a cache of callable tools, invalidated by the change feed.

One plan per requested name; the least recently used is evicted first. A miss reads Postgres, so that a tool
whose creation was confirmed with 201 is callable on every replica at once; "no such tool" is never cached.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

from app.catalog.feed import ChangeNotice
from app.catalog.plan import Plan
from app.core.errors import NotFound
from app.core.resource_names import TOOL_NAME

__all__ = ["Catalog", "Plan", "check_tool_name"]

_NAME: Final = re.compile(TOOL_NAME)
_WITHOUT_PLANS: Final = frozenset(
    ("key", "toolset", "import", "recording", "search-usage", "search-words", "session")
)
"""The kinds of changes that no plan contains."""

Load = Callable[[str], Awaitable[Plan]]


class Catalog:
    """An LRU cache of at most `capacity` plans. Subscribe `on_changes` to the change feed.

    `load` reads and compiles one tool by canonical name or alias (`catalog.loader`).
    """

    def __init__(self, load: Load, *, capacity: int = 10_000) -> None:
        self._load = load
        self._capacity = capacity
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Plan]] = {}
        self._generation = 0
        self.hits = 0
        """Number of plans found in the cache since the start."""
        self.misses = 0
        """Number of plans that had to be loaded since the start."""

    def __len__(self) -> int:
        return len(self._plans)

    async def plan(self, name: str) -> Plan:
        """Return the plan of a tool by canonical name or alias. Concurrent requests for it share one load.

        Raises NotFound, Uncallable for a stored tool that cannot be compiled, and Unavailable.
        """
        plan = self._plans.get(name)
        if plan is not None:
            self._plans.move_to_end(name)
            self.hits += 1
            return plan
        task = self._loading.get(name)
        if task is None:
            check_tool_name(name)
            self.misses += 1
            task = asyncio.create_task(self._fill(name), name="compile-plan")
            self._loading[name] = task
            task.add_done_callback(_retrieve_error)
        # Shielded: a request that is cancelled does not cancel the load for the others.
        return await asyncio.shield(task)

    async def on_changes(self, changes: list[ChangeNotice]) -> None:
        """Evict the plans that the changes affect; a subscriber of the feed."""
        providers: set[UUID] = set()
        tools: set[str] = set()
        everything = False
        for change in changes:
            if change.kind in _WITHOUT_PLANS:
                continue
            if change.kind == "tool" and change.object_id:
                tools.add(change.object_id)
            elif change.provider_id is not None:
                providers.add(change.provider_id)
            else:
                # Any template may contain a variable of the tenant.
                everything = True
        if everything:
            self._plans.clear()
        elif providers or tools:
            self._forget(providers, tools)
        else:
            return
        # A load in progress may have read the old rows: only the requests that already wait for it get its
        # plan.
        self._generation += 1
        self._loading.clear()

    def _forget(self, providers: set[UUID], tools: set[str]) -> None:
        stale = [
            key
            for key, plan in self._plans.items()
            if plan.provider_id in providers or str(plan.tool_id) in tools or plan.name in tools
        ]
        for key in stale:
            del self._plans[key]

    async def _fill(self, name: str) -> Plan:
        generation = self._generation
        task = asyncio.current_task()
        try:
            plan = await self._load(name)
        finally:
            if self._loading.get(name) is task:
                del self._loading[name]
        if generation == self._generation:
            self._plans[name] = plan
            while len(self._plans) > self._capacity:
                self._plans.popitem(last=False)
        return plan


def check_tool_name(name: str) -> None:
    """Raise NotFound for a text that cannot be the name of a tool: PostgreSQL rejects some of these."""
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")


def _retrieve_error(task: asyncio.Task[Plan]) -> None:
    """Retrieve a load's exception, so that asyncio does not log it where all waiting requests were
    cancelled.
    """
    if not task.cancelled():
        task.exception()
