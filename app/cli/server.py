"""The HTTP server of one process: uvicorn's, with a stop that loses nothing.

A first signal: not ready at once, but accepting during the pause in which balancers notice; then no new
connections, calls under way end, streams are told a moment before their time is over, the audit is stored. A
second signal ends calls at once; what they did is still recorded.
"""

import asyncio
import contextlib
import signal
from types import FrameType
from typing import Any

import structlog
import uvicorn

from app.cli.listener import Listener
from app.server.http_protocol import HttpProtocol
from app.settings import Settings

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 0.05
# What a stream gets for its last event, and a cancelled call for its record.
_LAST_EVENT_SECONDS = 5.0
_CANCEL_SECONDS = 2.0
_LAST_REQUEST_SECONDS = 0.5


def server_config(application: Any, settings: Settings, **options: Any) -> uvicorn.Config:
    """Return how `serve` serves an application (or its import string); tests and benchmarks use the same.

    `options` are further ones of uvicorn.Config, or replace those given here.
    """
    given: dict[str, Any] = {
        "loop": "uvloop",
        "http": HttpProtocol,
        "ws": "none",
        "workers": settings.workers,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": True,
        "forwarded_allow_ips": settings.forwarded_allow_ips,
        "root_path": settings.root_path,
    }
    return uvicorn.Config(application, **(given | options))


class Server(uvicorn.Server):
    """`supervised` servers are stopped by their parent, who may be late: a terminal sends Ctrl-C to all
    processes, a service manager SIGTERM, and neither counts as a second signal.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        grace_seconds: float,
        shutdown_seconds: float,
        supervised: bool = False,
    ) -> None:
        super().__init__(config)
        self._grace_seconds = grace_seconds
        self._shutdown_seconds = shutdown_seconds
        self._supervised = supervised

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal stops, a second one ends at once."""
        if self._supervised and sig == signal.SIGINT:
            return
        if self.should_exit and not self._supervised:
            self.end_now()
        self._not_ready()
        super().handle_exit(sig, frame)

    def end_now(self) -> None:
        """Ends calls at once."""
        self.should_exit = self.force_exit = True

    async def shutdown(self, sockets: list[Listener] | None = None) -> None:
        """Everything between the signal and the end of the process; in place of uvicorn's own."""
        self._not_ready()
        state = self.server_state
        # Connections of clients and balancers end with the next answer, not in the middle of one.
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in state.connections:
            cycle = getattr(connection, "cycle", None)
            if cycle is not None:
                # Its headers were chosen before; idle connections may be used once more.
                cycle.keep_alive = False
        await self._wait(self._grace_seconds)
        # Another descriptor, since a server may close the one that it was given.
        waiting = [listener.dup() for listener in sockets or []]
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for listener in waiting:
            with listener:
                await self.take_rest(listener)
        # A request may be on its way on a connection that a balancer has just opened or kept: it would not
        # be sent anywhere else once it is lost.
        await self._wait(_LAST_REQUEST_SECONDS, while_busy=True)
        for connection in list(state.connections):
            connection.shutdown()
        await self._end_calls()
        await self.lifespan.shutdown()

    async def take_rest(self, listener: Listener) -> None:
        """Accepts what stands in the queue of a listener; closing it would reset those connections.

        What a balancer has sent on one may not be sent again, and a busy event loop accepts late.
        """
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        taken = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(listener.accept()[0])
        listener.close()
        for connection in taken:
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._protocol, connection)

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    def _services(self) -> Any:
        """The services of the application; None before its lifespan has begun."""
        lifespan = getattr(self, "lifespan", None)
        return None if lifespan is None else lifespan.state.get("services")

    def _not_ready(self) -> None:
        services = self._services()
        if services is not None:
            services.readiness.open = False

    async def _wait(self, seconds: float, *, while_busy: bool = False) -> None:
        """For so long, or until a second signal or (`while_busy`) the end of the last call."""
        state = self.server_state
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # uvicorn has no event for either.
                while not self.force_exit and (  # noqa: ASYNC110
                    not while_busy or state.connections or state.tasks
                ):
                    await asyncio.sleep(_LOOK_SECONDS)

    async def _end_calls(self) -> None:
        last = min(_LAST_EVENT_SECONDS, self._shutdown_seconds / 2)
        await self._wait(self._shutdown_seconds - last, while_busy=True)
        services = self._services()
        if services is not None:
            services.stopping.set()
        await self._wait(last, while_busy=True)
        tasks = set(self.server_state.tasks)
        if tasks:
            _log.warning("calls were cut off by the stop", number=len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
