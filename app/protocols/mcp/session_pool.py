"""The pool of open sessions with MCP servers: one for each server, credential and egress."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import GatewayError, UpstreamTimeout, UpstreamUnreachable
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.mcp.server import McpServerSettings
from app.protocols.mcp.session import McpSession
from app.protocols.shared.programs import ProgramRules
from app.security.masking import Masker


class SessionPool:
    """A pool of at most `max_sessions`; a session that is idle for `idle_seconds` is closed."""

    def __init__(
        self, engine: Engine, rules: ProgramRules, masker: Masker, *, max_sessions: int, idle_seconds: float
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._masker = masker
        self._max_sessions = max_sessions
        self._idle_seconds = idle_seconds
        self._sessions: OrderedDict[bytes, McpSession] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def session(
        self, server: McpServerSettings, *, limits: Limits, deadline: float
    ) -> AsyncIterator[McpSession]:
        """Yield an open session, pooled or new; `deadline` is a `loop.time()`.

        Raise what opening it raises, with `request_sent` False.
        """
        found = self._acquire(server, limits)
        found.users += 1
        if found.idle_timer is not None:
            found.idle_timer.cancel()
        try:
            try:
                with Deadline(get_timer_queue(), deadline):
                    await found.wait_opened()
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
            self._start_idle_timer(found)

    def drop(self, session: McpSession) -> None:
        """Remove a session from the pool and close it."""
        if self._sessions.get(session.server.key) is session:
            del self._sessions[session.server.key]
        if session.idle_timer is not None:
            session.idle_timer.cancel()
        session.close()
        closing = asyncio.ensure_future(session.wait_closed())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close all sessions and wait for their end."""
        for session in list(self._sessions.values()):
            self.drop(session)
        await asyncio.gather(*self._closing, return_exceptions=True)

    def _acquire(self, server: McpServerSettings, limits: Limits) -> McpSession:
        found = self._sessions.get(server.key)
        if found is not None and found.is_usable:
            self._sessions.move_to_end(server.key)
            return found
        if found is not None:
            self.drop(found)
        self._evict_unused()
        created = McpSession(server, self._engine, self._rules, self._masker)
        created.open(limits, max(limits.connect, limits.first_byte))
        self._sessions[server.key] = created
        return created

    def _evict_unused(self) -> None:
        if len(self._sessions) < self._max_sessions:
            return
        unused = next((session for session in self._sessions.values() if not session.users), None)
        if unused is None:
            detail = "The maximum number of sessions with MCP servers is in use."
            raise UpstreamUnreachable(detail, request_sent=False)
        self.drop(unused)

    def _start_idle_timer(self, session: McpSession) -> None:
        if session.users:
            return
        if self._sessions.get(session.server.key) is not session:
            return
        if not session.is_usable:
            self.drop(session)
            return
        clock = get_timer_queue()
        session.idle_timer = clock.call_at(clock.loop.time() + self._idle_seconds, lambda: self.drop(session))
