"""Rights that must last: what goes on for longer than a request checks again whether its key still has them.

A check costs no query while nothing has changed: keys are verified in memory, and the change feed removes
those that have changed. A worker reads the feed at once when it is notified, and otherwise every
FEED_POLL_SECONDS; with the second between two checks a lost right ends within 5 seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias, TypeVar

import structlog

from app.core.errors import (
    Conflict,
    Forbidden,
    GatewayError,
    NotFound,
    Unauthenticated,
)
from app.security.principal import Principal

_log = structlog.get_logger(__name__)
CHECK_SECONDS: Final = 1.0
"""How often a right is checked again."""
RightCheck: TypeAlias = Callable[[], Awaitable[object]]
"""Raises Unauthenticated, Forbidden, NotFound or Conflict where a right is lost."""

_Result = TypeVar("_Result")


def when_changed(
    renew: Callable[[], Awaitable[Principal]],
    position: Callable[[], int],
    check: Callable[[Principal], Awaitable[object]],
    *,
    began_with: tuple[Principal, int] | None = None,
) -> RightCheck:
    """Return a check of a right that is evaluated again only where something may have changed.

    `renew` returns the principal, or raises what ends the right; `position` returns that of the change feed,
    by which also a change of tools, providers and toolsets is noticed. `began_with` is the pair of both with
    which the right was evaluated before; None: it is evaluated at the first check.
    """
    last = began_with

    async def checked() -> None:
        nonlocal last
        # Read before the evaluation: what changes meanwhile is evaluated at the next check.
        at = position()
        current = (await renew(), at)
        if current != last:
            await check(current[0])
            last = current

    return checked


async def wait_until_denied(check: RightCheck) -> GatewayError:
    """Return the error of a check once the right is lost.

    A check that fails otherwise, as while PostgreSQL is unavailable, is repeated: its error must not end the
    work, and one that is no GatewayError is logged.
    """
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await check()
        except (Unauthenticated, Forbidden, NotFound, Conflict) as error:
            return error
        except GatewayError:
            continue
        except Exception:  # noqa: BLE001 - it says nothing of the right.
            _log.exception("a right could not be checked")


async def run_while_permitted(work: Coroutine[Any, Any, _Result], check: RightCheck) -> _Result:
    """Return the result of work, or raise its error; once the right is lost, cancel the work, and raise the
    error of the check.
    """
    working = asyncio.ensure_future(work)
    denied = asyncio.ensure_future(wait_until_denied(check))
    try:
        await asyncio.wait((working, denied), return_when=asyncio.FIRST_COMPLETED)
        if working.done() or not denied.done():
            return await working
        raise denied.result()
    finally:
        working.cancel()
        denied.cancel()
        await asyncio.gather(working, denied, return_exceptions=True)
