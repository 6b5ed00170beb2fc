"""`subscriptions/listen`: a stream that says when the list of tools has changed for its key.

It is acknowledged once no further change can be missed. A client that has listed before may have missed one:
the stream then begins with a notification (`app.agents.mcp.served_lists`).

A change of the registry wakes the streams of the worker; each waits a moment for further changes, and then
compares the list that its key sees with the one before. A key that is no longer valid, or may not read the
list any more, ends its streams, also where it expires without a change.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.types import Receive, Scope, Send

from app.agents.mcp.jsonrpc import SUBSCRIPTION_KEY, Id, result_envelope
from app.agents.mcp.response_stream import EVENT_HEADERS, KEEP_ALIVE, event
from app.api.streams.connection import ResponseWriter, until_disconnected
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.calls.response.streams import StreamRegistry
from app.catalog.feed import ChangeNotice
from app.core import exact_json
from app.core.errors import ClientTimeout, GatewayError, Overloaded, Unavailable
from app.security.lasting_rights import RightCheck, wait_until_denied

DEBOUNCE_SECONDS: Final = 1.0
_KINDS: Final = frozenset({"all", "provider", "tool", "toolset", "key"})


class SubscribedList(NamedTuple):
    """The list of tools of a subscription, for its key as it is now."""

    check: RightCheck
    """Raises where the key may not read it any more."""
    digest: Callable[[], Awaitable[str]]
    """Returns its digest; raises what `check` raises."""
    has_other: Callable[[str], Awaitable[bool]]
    """Returns whether the client may have another list than that with this digest."""


class ListSubscriptions:
    """The open streams of a worker: at most `max_streams`, of one key `max_streams_per_key`."""

    def __init__(self, *, max_streams: int, max_streams_per_key: int) -> None:
        self._max_streams = max_streams
        self._max_streams_per_key = max_streams_per_key
        self._open: set[ListenResponse] = set()
        self._per_key: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def on_changes(self, changes: Sequence[ChangeNotice]) -> None:
        """Wake the streams where the changes may affect a list of tools."""
        if any(change.kind in _KINDS for change in changes):
            for stream in self._open:
                stream.wake()

    def add(self, stream: "ListenResponse") -> None:
        """Add a stream; raise Overloaded where there are too many."""
        if len(self._open) >= self._max_streams or self._per_key[stream.key_id] >= self._max_streams_per_key:
            raise Overloaded("There are as many open subscriptions as there may be; close one first.")
        self._open.add(stream)
        self._per_key[stream.key_id] += 1

    def discard(self, stream: "ListenResponse") -> None:
        """Remove a stream that has ended."""
        if stream in self._open:
            self._open.discard(stream)
            self._per_key -= Counter((stream.key_id,))


class ListenResponse:
    """The stream of one subscription, of which only `wants_tools` is honoured: other lists never change."""

    status_code = 200

    def __init__(
        self,
        request_id: Id,
        subscriptions: ListSubscriptions,
        streams: StreamRegistry,
        *,
        key_id: str,
        wants_tools: bool,
        tools: SubscribedList,
        result_meta: dict[str, Any],
    ) -> None:
        self.key_id = key_id
        self._id = request_id
        self._subscriptions = subscriptions
        self._streams = streams
        self._wants_tools = wants_tools
        self._tools = tools
        self._result_meta = result_meta
        self._woken = asyncio.Event()
        self._ended = False
        # Before the response begins, so that one too many has its own status. Changes wake it from now on.
        subscriptions.add(self)

    def wake(self) -> None:
        """Compare the list soon."""
        self._woken.set()

    def end(self, cause: GatewayError) -> None:  # noqa: ARG002 - an OpenStream.
        """End the stream with its result; see `OpenStream`."""
        self._end()

    def _end(self) -> None:
        self._ended = True
        self._woken.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the acknowledgement, then a notification for each change, until the client leaves."""
        streams = self._streams
        writer = ResponseWriter(send, clock=streams.clock, stall=streams.stall)
        streams.add(self)
        # An idle stream is no call in progress.
        admission = scope.get("admission")
        if admission is not None:
            admission.running -= 1
        denied = asyncio.ensure_future(wait_until_denied(self._tools.check))
        # The client learns why when it begins again.
        denied.add_done_callback(lambda _: self._end())
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock, after=0):
                await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
                await self._run(writer)
        except (ClientDisconnected, ClientTimeout, OSError):
            return
        finally:
            denied.cancel()
            if admission is not None:
                admission.running += 1
            streams.discard(self)
            self._subscriptions.discard(self)

    async def _run(self, writer: ResponseWriter) -> None:
        known = await self._tools.digest() if self._wants_tools else ""
        honoured = {"toolsListChanged": True} if self._wants_tools else {}
        await writer.write(
            self._build_notification("subscriptions/acknowledged", {"notifications": honoured})
        )
        if self._wants_tools and await self._tools.has_other(known):
            await writer.write(self._build_notification("tools/list_changed", {}))
        while not self._has_ended():
            digest = await self._await_next_digest(writer, known)
            if digest is None:
                break
            if self._wants_tools and digest != known:
                known = digest
                await writer.write(self._build_notification("tools/list_changed", {}))
        result = {"resultType": "complete", "_meta": {SUBSCRIPTION_KEY: self._id, **self._result_meta}}
        await writer.write(event(result_envelope(self._id, exact_json.dumps(result))), more=False)

    async def _await_next_digest(self, writer: ResponseWriter, known: str) -> str | None:
        """Return the digest after the next change or heartbeat; None where the stream is to end."""
        try:
            async with asyncio.timeout(self._streams.heartbeat):
                await self._woken.wait()
            if not self._has_ended():
                await asyncio.sleep(DEBOUNCE_SECONDS)
        except TimeoutError:
            await writer.write(KEEP_ALIVE)
        self._woken.clear()
        try:
            return None if self._has_ended() else await self._tools.digest()
        except Unavailable:
            return known
        except GatewayError:
            # The key was revoked, or has lost its scope or its toolset.
            return None

    def _has_ended(self) -> bool:
        return self._ended or self._streams.stopping.is_set()

    def _build_notification(self, name: str, params: dict[str, Any]) -> bytes:
        message = {
            "jsonrpc": "2.0",
            "method": f"notifications/{name}",
            "params": {"_meta": {SUBSCRIPTION_KEY: self._id}, **params},
        }
        return event(exact_json.dumps(message))
