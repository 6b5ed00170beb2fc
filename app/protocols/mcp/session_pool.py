"""The sessions with MCP servers that are kept open: one for each server, credential and way out."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator

from app.deadlines import Deadline, timer_queue
from app.errors import GatewayError, UpstreamTimeout, UpstreamUnreachable
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.mcp.server import McpServerSettings
from app.protocols.mcp.session import McpSession
from app.protocols.shared.programs import ProgramRules
from app.security.masking import Masker


class Sessions:
    """At most `most`; one that nobody has used for `idle` seconds is closed."""

    def __init__(
        self, engine: Engine, rules: ProgramRules, masker: Masker, *, most: int, idle: float
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._masker = masker
        self._most = most
        self._idle = idle
        self._sessions: OrderedDict[bytes, McpSession] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(
        self, server: McpServerSettings, *, limits: Limits, by: float
    ) -> AsyncIterator[McpSession]:
        """An open session, the kept one where there is one; `by` is a `loop.time()`.

        Raises what opening it raises, with `sent` False.
        """
        found = self._taken(server, limits)
        found.users += 1
        if found.resting is not None:
            found.resting.cancel()
        try:
            try:
                with Deadline(timer_queue(), by):
                    await found.opened()
            except TimeoutError:
                raise UpstreamTimeout(
                    "The MCP server did not open a session in time.", request_sent=False
                ) from None
            except GatewayError:
                self.drop(found)
                raise
            yield found
        finally:
            found.users -= 1
            self._rest(found)

    def drop(self, session: McpSession) -> None:
        """Close a session that is of no more use; others of its server are not touched."""
        if self._sessions.get(session.server.key) is session:
            del self._sessions[session.server.key]
        if session.resting is not None:
            session.resting.cancel()
        session.close()
        closing = asyncio.ensure_future(session.gone())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close all of them."""
        for session in list(self._sessions.values()):
            self.drop(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _taken(self, server: McpServerSettings, limits: Limits) -> McpSession:
        found = self._sessions.get(server.key)
        if found is not None and found.usable:
            self._sessions.move_to_end(server.key)
            return found
        if found is not None:
            self.drop(found)
        self._make_room()
        made = McpSession(server, self._engine, self._rules, self._masker)
        made.open(limits, max(limits.connect, limits.first_byte))
        self._sessions[server.key] = made
        return made

    def _make_room(self) -> None:
        if len(self._sessions) < self._most:
            return
        unused = next((session for session in self._sessions.values() if not session.users), None)
        if unused is None:
            detail = "As many sessions with MCP servers are in use as may be open."
            raise UpstreamUnreachable(detail, request_sent=False)
        self.drop(unused)

    def _rest(self, session: McpSession) -> None:
        if session.users:
            return
        if self._sessions.get(session.server.key) is not session:
            return
        if not session.usable:
            self.drop(session)
            return
        clock = timer_queue()
        session.resting = clock.call_at(clock.loop.time() + self._idle, lambda: self.drop(session))
