"""What can be called now: the compiled plans of this worker, kept in step by the change feed.

One plan per name that was asked for, the least recently used leaves first. A miss reads Postgres, so that
what a 201 created is callable on every replica at once; "no such tool" is never remembered.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from uuid import UUID

from app.catalog.feed import Change
from app.catalog.plan import Plan

__all__ = ["Catalog", "Plan"]

Load = Callable[[str], Awaitable[Plan]]


class Catalog:
    """`load` reads and compiles one tool by name or alias (`loader.Loader.load`); `capacity` bounds them.

    Subscribe `on_changes` to the feed.
    """

    def __init__(self, load: Load, *, capacity: int = 10_000) -> None:
        self._load = load
        self._capacity = capacity
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._loading: dict[str, asyncio.Task[Plan]] = {}
        self._generation = 0
        self.hits = 0
        """Plans that were there, since the start."""
        self.misses = 0
        """Plans that were loaded."""

    def __len__(self) -> int:
        return len(self._plans)

    async def plan(self, name: str) -> Plan:
        """The plan of a tool by canonical name or alias.

        Raises NotFound, Uncallable for a stored tool that cannot be compiled, and Unavailable. Many callers
        of a tool that is not loaded yet cause one load.
        """
        plan = self._plans.get(name)
        if plan is not None:
            self._plans.move_to_end(name)
            self.hits += 1
            return plan
        task = self._loading.get(name)
        if task is None:
            self.misses += 1
            task = asyncio.create_task(self._fill(name), name="compile-plan")
            self._loading[name] = task
            task.add_done_callback(_seen)
        # Shielded: a caller that leaves does not take the load away from the others.
        return await asyncio.shield(task)

    async def on_changes(self, changes: list[Change]) -> None:
        """Forgets what the changes touch; a subscriber of the feed."""
        providers: set[UUID] = set()
        tools: set[str] = set()
        everything = False
        for change in changes:
            if change.kind == "key":
                continue
            if change.kind == "tool" and change.object_id:
                tools.add(change.object_id)
            elif change.provider_id is not None:
                providers.add(change.provider_id)
            else:
                # A variable of the tenant may stand in any template.
                everything = True
        if everything:
            self._plans.clear()
        elif providers or tools:
            self._forget(providers, tools)
        else:
            return
        # A load that is under way may have read the old rows: let it answer those who asked before, only.
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
        me = asyncio.current_task()
        try:
            plan = await self._load(name)
        finally:
            if self._loading.get(name) is me:
                del self._loading[name]
        if generation == self._generation:
            self._plans[name] = plan
            while len(self._plans) > self._capacity:
                self._plans.popitem(last=False)
        return plan


def _seen(task: asyncio.Task[Plan]) -> None:
    """A load whose callers have all left must not complain that nobody looked at its error."""
    if not task.cancelled():
        task.exception()
