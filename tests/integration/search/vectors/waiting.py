"""Waiting for what other processes do."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def until(is_true: Callable[[], Any], *, seconds: float = 60) -> None:
    """Wait until the condition holds; raise TimeoutError."""
    async with asyncio.timeout(seconds):
        while True:
            found = is_true()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)
