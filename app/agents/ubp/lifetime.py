"""How long a connection lasts: until its peer, its API key or the gateway ends it."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from enum import Enum
from typing import Any

from app.agents.ubp.server import ExecutorServer
from app.agents.ubp.session import Session, Verify
from app.core.errors import BadRequest, GatewayError
from app.security.lasting_rights import wait_until_denied, when_changed


class Ended(Enum):
    """Why a connection has ended, where no GatewayError says so."""

    BY_PEER = "by-peer"
    LOST = "lost"
    TOO_LARGE = "too-large"
    STOPPING = "stopping"
    NOT_READING = "not-reading"


async def until_ended(
    server: ExecutorServer,
    session: Session,
    verify: Verify,
    receiving: Coroutine[Any, Any, Ended],
    stalled: Coroutine[Any, Any, Any] | None = None,
) -> Ended | GatewayError:
    """Wait for the end of a connection, and return its reason.

    `receiving` gives messages to the session; it returns why there are no more, and raises a GatewayError for
    a message that ends the connection. `stalled` returns where the peer does not read. An error of the key,
    and the loss of a right that the connection uses, are reasons, too. While the gateway stops, open commands
    are completed first.
    """

    check = when_changed(verify, lambda: server.services.feed.position, session.check_rights)
    received = asyncio.ensure_future(receiving)
    key = asyncio.ensure_future(wait_until_denied(check))
    stop = asyncio.ensure_future(_until_stopped(server, session))
    unread = None if stalled is None else asyncio.ensure_future(stalled)
    tasks = {received, key, stop} | (set() if unread is None else {unread})
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if received in done:
            with suppress(asyncio.CancelledError):
                error = received.exception()
                if isinstance(error, GatewayError):
                    return error
                if error is not None:
                    raise error
                return received.result()
            return Ended.LOST
        if key in done:
            return key.result()
        return Ended.STOPPING if stop in done else Ended.NOT_READING
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def end_of(server: ExecutorServer, end: Ended | GatewayError | None) -> str:
    """Return the reason of an end for the audit event, None being that of a cancelled task.

    A message that has ended the connection is counted.
    """
    rejected = server.services.commands.counts.rejected
    if end is Ended.TOO_LARGE:
        rejected["too-large"] += 1
    if isinstance(end, BadRequest):
        rejected["malformed"] += 1
    if isinstance(end, GatewayError):
        return end.slug
    if end is None:
        end = Ended.STOPPING if server.draining.is_set() else Ended.LOST
    return end.value


async def _until_stopped(server: ExecutorServer, session: Session) -> None:
    """Return when the gateway stops: once the open commands are completed, or when it waits no longer."""
    await server.draining.wait()
    drained = asyncio.ensure_future(session.drain())
    stopping = asyncio.ensure_future(server.services.stopping.wait())
    try:
        await asyncio.wait((drained, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        drained.cancel()
        stopping.cancel()
        await asyncio.gather(drained, stopping, return_exceptions=True)
