"""The HTTP server of one process: uvicorn's, with a graceful shutdown.

At the first signal the gateway is not ready, but accepts connections for the grace period, in which load
balancers notice. Then it accepts no new connections, waits for calls in progress, lets streams send a last
event shortly before the shutdown timeout, and stores the call log. A second signal cancels calls at once;
they are still recorded.
"""

import asyncio
import contextlib
import signal
from types import FrameType
from typing import Any

import structlog
import uvicorn

from app.cli.listener import Listener
from app.cli.work_threads import WorkThreads
from app.core.settings import Settings
from app.server.http_protocol import HttpProtocol

_log = structlog.get_logger(__name__)

_POLL_SECONDS = 0.05
# For the last event of a stream, and for the record of a cancelled call.
_LAST_EVENT_SECONDS = 5.0
_CANCEL_SECONDS = 2.0
_LAST_REQUEST_SECONDS = 0.5


def build_server_config(application: Any, settings: Settings, **options: Any) -> uvicorn.Config:
    """Return the configuration with which `serve` runs an application (or its import string).

    `options` are further options of uvicorn.Config, or override the defaults here.
    """
    defaults: dict[str, Any] = {
        "loop": "uvloop",
        "http": HttpProtocol,
        # HttpProtocol gives connections to its own protocol for WebSockets.
        "ws": "none",
        "ws_max_size": settings.max_request_bytes,
        "ws_per_message_deflate": False,
        "workers": settings.workers,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # The server adds them to every response, also to its own rejections.
        "headers": [("x-content-type-options", "nosniff")],
        "proxy_headers": True,
        "forwarded_allow_ips": settings.forwarded_allow_ips,
        "root_path": settings.root_path,
    }
    return uvicorn.Config(application, **(defaults | options))


class GatewayServer(uvicorn.Server):
    """A uvicorn server with a graceful shutdown.

    A `supervised` server is stopped by its parent process, which may be late: a terminal sends Ctrl-C to all
    processes, a service manager SIGTERM, and neither counts as a second signal. Times are in seconds.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        grace_seconds: float,
        shutdown_timeout: float,
        supervised: bool = False,
    ) -> None:
        super().__init__(config)
        self._grace_seconds = grace_seconds
        self._shutdown_timeout = shutdown_timeout
        self._supervised = supervised

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the graceful shutdown; at a second signal end at once."""
        if self._supervised and sig == signal.SIGINT:
            return
        if self.should_exit and not self._supervised:
            self.stop_now()
        self._set_not_ready()
        super().handle_exit(sig, frame)

    def stop_now(self) -> None:
        """Cancel calls at once."""
        self.should_exit = self.force_exit = True

    async def serve(self, sockets: Any = None) -> None:
        """Serve until a signal; the event loop does not wait at its end for threads that still work."""
        asyncio.get_running_loop().set_default_executor(WorkThreads())
        await super().serve(sockets)

    async def shutdown(self, sockets: list[Listener] | None = None) -> None:
        """Shut down gracefully, in place of uvicorn's own shutdown."""
        self._set_not_ready()
        state = self.server_state
        # Connections of clients and load balancers end with the next response, not in the middle of one.
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in state.connections:
            cycle = getattr(connection, "cycle", None)
            if cycle is not None:
                # Its response headers were chosen before; idle connections may be used once more.
                cycle.keep_alive = False
        await self._wait(self._grace_seconds)
        # Another descriptor, since a server may close the one that it was given.
        duplicates = [listener.dup() for listener in sockets or []]
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for listener in duplicates:
            with listener:
                await self.accept_queued(listener)
        # A load balancer may be sending a request on a connection that it has just opened or kept alive; it
        # would not send it again elsewhere.
        await self._wait(_LAST_REQUEST_SECONDS, while_busy=True)
        executors = self._executors()
        if executors is not None:
            executors.draining.set()
        for connection in list(state.connections):
            connection.shutdown()
        await self._end_calls()
        await self.lifespan.shutdown()

    async def accept_queued(self, listener: Listener) -> None:
        """Accept the connections in the queue of a listener, and close it: closing alone would reset them.

        A load balancer may not send its request again, and a busy event loop accepts late.
        """
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        accepted = []
        with contextlib.suppress(OSError):
            while True:
                accepted.append(listener.accept()[0])
        listener.close()
        for connection in accepted:
            with contextlib.suppress(OSError):
                await loop.connect_accepted_socket(self._create_protocol, connection)

    def _create_protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol

    def _services(self) -> Any:
        """The services of the application; None before its lifespan has begun."""
        lifespan = getattr(self, "lifespan", None)
        return None if lifespan is None else lifespan.state.get("services")

    def _executors(self) -> Any:
        """The server of agents and executors; None before the lifespan has begun."""
        lifespan = getattr(self, "lifespan", None)
        return None if lifespan is None else lifespan.state.get("ubp")

    def _is_busy(self) -> bool:
        """Return whether there are connections, requests, or streams of gRPC."""
        executors = self._executors()
        state = self.server_state
        return bool(state.connections or state.tasks or (executors is not None and executors.streams))

    def _set_not_ready(self) -> None:
        services = self._services()
        if services is not None:
            services.readiness.open = False

    async def _wait(self, seconds: float, *, while_busy: bool = False) -> None:
        """Wait so long, but no longer than to a second signal or (`while_busy`) the end of the last call."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                # uvicorn has no event for either.
                while not self.force_exit and (not while_busy or self._is_busy()):  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)

    async def _end_calls(self) -> None:
        last = min(_LAST_EVENT_SECONDS, self._shutdown_timeout / 2)
        await self._wait(self._shutdown_timeout - last, while_busy=True)
        services = self._services()
        if services is not None:
            services.stopping.set()
        await self._wait(last, while_busy=True)
        tasks = set(self.server_state.tasks)
        if tasks:
            _log.warning("calls were cancelled by the shutdown", number=len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
