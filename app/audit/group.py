"""Group commit: what arrives while one commit is under way goes into the next one, all together."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import structlog

_log = structlog.get_logger(__name__)

Item = TypeVar("Item")


class GroupCommit(Generic[Item]):
    """One commit at a time: with it, many calls at once cost little more than one.

    `commit` says whether it kept all of its items. It is called from one task, with items in their order.
    """

    def __init__(self, commit: Callable[[list[Item]], Awaitable[bool]]) -> None:
        self._commit = commit
        self._waiting: list[tuple[Item, asyncio.Future[bool]]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, item: Item) -> "asyncio.Future[bool]":
        """Takes an item; the future says whether it was kept, and raises nothing."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = loop.create_task(self._run(), name="group-commit")
        return future

    async def settle(self) -> None:
        """Waits until everything that was added has been committed, or could not be."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                kept = False
                try:
                    kept = await self._commit([item for item, _ in group])
                except Exception:  # noqa: BLE001 - the callers that wait must hear of it.
                    _log.exception("call records could not be committed")
                finally:
                    for _, future in group:
                        if not future.done():
                            future.set_result(kept)
        finally:
            self._task = None


async def decided(future: "asyncio.Future[bool]", *, seconds: float) -> bool:
    """What a future of `add` says; False when it says nothing in time. The item is committed all the same."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done() and not future.cancelled() and future.result()
