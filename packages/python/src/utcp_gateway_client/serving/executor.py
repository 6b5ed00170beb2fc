"""An executor: connects to a gateway, registers its tools there, and executes the commands that it is sent.

The protocol is `ubp.v1`, as JSON over the WebSocket `/ubp` of the gateway or over gRPC. Functions run in this
process; those that are not async run in threads.
"""

import asyncio
import contextlib
import json
import logging
import random
import signal
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake

from utcp_gateway_client.keys import require_key
from utcp_gateway_client.serving.connection import (
    MAX_MESSAGE_BYTES,
    Connection,
    GatewayRejected,
    Opener,
)
from utcp_gateway_client.serving.ubp_json import (
    CANCEL,
    DEREGISTER_TOOLS,
    PING,
    Command,
    MalformedMessage,
    Response,
    progress,
    read_message,
    registration,
    request,
    response,
    result_response,
)
from utcp_gateway_client.serving.websocket import SCHEMES, open_websocket, websocket_url
from utcp_gateway_client.tools import Progress, ToolCollection, preview, progress_to, traced_by

_log = logging.getLogger(__name__)
_ANSWER_SECONDS: Final = 30.0
_DEREGISTER_SECONDS: Final = 5.0
_PERMANENT: Final = frozenset({"INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED", "PERMISSION_DENIED"})
# Reports of progress that wait to be sent; further ones are left out until the gateway takes them.
_MAX_WAITING_PROGRESS: Final = 100


class Executor:
    """Serves the tools of a collection to a gateway, under the name `name`, until it is stopped.

    `gateway` is its URL (http, https, ws or wss), or the host and port of its gRPC as `grpc://HOST:PORT`
    (with TLS, `grpcs://`), which needs the extra `grpc`; `key` is an API key. `max_commands` are executed at
    once. `reconnect_seconds` are the shortest and the longest delay between two attempts to connect; it
    doubles with each attempt. A stop waits `grace_seconds` for open commands. Raises ValueError for what
    these cannot be, and ImportError for gRPC without its extra.
    """

    def __init__(
        self,
        tools: ToolCollection,
        *,
        gateway: str,
        key: str | None = None,
        name: str = "python",
        max_commands: int = 8,
        reconnect_seconds: tuple[float, float] = (0.5, 30.0),
        grace_seconds: float = 30.0,
    ) -> None:
        if not len(tools):
            raise ValueError("There is no tool to serve.")
        if max_commands < 1:
            raise ValueError("max_commands must be at least 1.")
        require_key(key)
        self.tools = tools
        self.name = name
        self.url, self._open = _address(gateway)
        self._key = key
        self._max_commands = max_commands
        self._reconnect_seconds = reconnect_seconds
        self._grace_seconds = grace_seconds
        self._stopping = asyncio.Event()
        self._registered = asyncio.Event()
        self._attempts = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def is_registered(self) -> bool:
        """Whether the gateway has the tools, and sends commands."""
        return self._registered.is_set()

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; a second one ends open commands. Raises GatewayRejected."""
        asyncio.run(self._run_with_signals())

    async def run_async(self) -> None:
        """Serve until `stop`. Raises GatewayRejected; other failures are followed by another attempt."""
        threads = ThreadPoolExecutor(self._max_commands, thread_name_prefix="utcp-tool")
        try:
            while not self._stopping.is_set():
                await self._attempt(threads)
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """End `run_async`: no new commands are taken, open ones finish. Call it in the event loop."""
        self._stopping.set()

    async def wait_registered(self) -> None:
        """Return once the gateway has the tools. Raises GatewayRejected where it rejects them."""
        waiting = asyncio.ensure_future(self._registered.wait())
        others = {self._running} if self._running is not None else set()
        try:
            await asyncio.wait({waiting, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._running is not None and self._running.done():
            self._running.result()

    async def __aenter__(self) -> Self:
        """Start to serve in a task."""
        self._stopping.clear()
        self._running = asyncio.create_task(self.run_async())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until open commands have finished."""
        self.stop()
        running, self._running = self._running, None
        if running is not None:
            await running

    async def _run_with_signals(self) -> None:
        running = asyncio.create_task(self.run_async())

        def ended() -> None:
            if self._stopping.is_set():
                running.cancel()
            self.stop()

        with _signals(ended), contextlib.suppress(asyncio.CancelledError):
            await running

    async def _attempt(self, threads: ThreadPoolExecutor) -> None:
        """Connect, and serve until the connection ends; then wait for the time of the next attempt."""
        try:
            async with self._connected() as connection:
                session = _Session(self.tools, connection, threads, self._max_commands)
                await self._serve(session)
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            _log.warning("No connection to %s: %s", self.url, error)
        if self._stopping.is_set():
            return
        delay = reconnect_delay(self._attempts, self._reconnect_seconds)
        self._attempts += 1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._stopping.wait()

    @contextlib.asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        connecting = asyncio.ensure_future(self._open(self.url, self._key))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((connecting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not connecting.done():
                raise ConnectionError("stopped before the gateway has responded")
            connection = connecting.result()
        finally:
            connecting.cancel()
            stopping.cancel()
        try:
            yield connection
        finally:
            await connection.close()

    async def _serve(self, session: "_Session") -> None:
        """Register the tools, execute commands, and deregister and finish them at a stop."""
        async with session:
            found = await self._unless_stopped(session.registered(self.name))
            if found is None:
                return
            if found.status in _PERMANENT or _is_permanent(found.result):
                raise GatewayRejected(f"The gateway rejects the tools: {_reason(found)}")
            if found.status != "SUCCESS":
                raise ConnectionError(f"the tools are not registered: {_reason(found)}")
            self._attempts = 0
            self._registered.set()
            _log.info("Registered %d tools at %s", len(self.tools), self.url)
            if found.result:
                _log.info("The gateway says of the tools: %s", preview(json.dumps(found.result)))
            try:
                await session.until(self._stopping)
            finally:
                self._registered.clear()
            if self._stopping.is_set():
                await session.finish(self._grace_seconds)

    async def _unless_stopped(self, answer: Coroutine[Any, Any, Response]) -> Response | None:
        """Return the response of the gateway; None where a stop comes before it."""
        waiting = asyncio.ensure_future(answer)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        finally:
            waiting.cancel()
            stopping.cancel()


def _is_permanent(problem: Any) -> bool:
    """Return whether a problem document says that the request is the reason, as a name that is taken."""
    status = problem.get("status") if isinstance(problem, dict) else None
    return isinstance(status, int) and 400 <= status < 500 and problem.get("retryable") is False


def _reason(found: Response) -> str:
    """Return what a response says of its failure, with the pointers of its problem document."""
    errors = found.result.get("errors") if isinstance(found.result, dict) else None
    each = errors if isinstance(errors, list) else []
    pointers = [f"{one.get('pointer')}: {one.get('detail')}" for one in each if isinstance(one, dict)]
    return " ".join([found.error or found.status, *pointers])


class _Session:
    """One connection: its open commands, and what is sent."""

    def __init__(
        self, tools: ToolCollection, connection: Connection, threads: ThreadPoolExecutor, max_commands: int
    ) -> None:
        self._tools = tools
        self._connection = connection
        self._threads = threads
        self._max_commands = max_commands
        self._permits = asyncio.Semaphore(max_commands)
        self._outgoing: asyncio.Queue[str] = asyncio.Queue()
        self._open: dict[str, tuple[Command, asyncio.Task[str]]] = {}
        self._answers: dict[str, asyncio.Future[Response]] = {}
        self._deregistered = False
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def __aenter__(self) -> Self:
        self._tasks = (asyncio.create_task(self._read()), asyncio.create_task(self._write()))
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it. Nobody can be told the results of open commands, so they are cancelled."""
        tasks = [*(task for _, task in self._open.values()), *self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def registered(self, executor: str) -> Response:
        """Register the tools and return the response."""
        return await self._ask(*registration(self._tools, executor=executor, max_commands=self._max_commands))

    async def until(self, stopping: asyncio.Event) -> None:
        """Return when `stopping` is set. Raises ConnectionClosed."""
        waiting = asyncio.ensure_future(stopping.wait())
        try:
            await self._first(waiting)
        finally:
            waiting.cancel()

    async def finish(self, seconds: float) -> None:
        """Deregister the tools, so that no command follows, and wait for the open ones to finish.

        Open commands that take longer than `seconds` are cancelled. Raises ConnectionClosed.
        """
        try:
            answer = await self._ask(*request(DEREGISTER_TOOLS), seconds=_DEREGISTER_SECONDS)
            if answer.status != "SUCCESS":
                _log.warning("The gateway has not deregistered the tools: %s", answer.error or answer.status)
        except TimeoutError:
            _log.warning("The gateway has not confirmed that the tools are deregistered")
        self._deregistered = True
        if self._open:
            _log.info("Waiting for %d open commands", len(self._open))
            _, late = await asyncio.wait([task for _, task in self._open.values()], timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self._first(asyncio.ensure_future(self._outgoing.join()))

    async def _ask(self, text: str, message_id: str, *, seconds: float = _ANSWER_SECONDS) -> Response:
        """Send a command and return its response; raise TimeoutError where there is none."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._answers[message_id] = answer
        self._outgoing.put_nowait(text)
        try:
            async with asyncio.timeout(seconds):
                await self._first(answer)
                return answer.result()
        finally:
            self._answers.pop(message_id, None)
            answer.cancel()

    async def _first(self, waited_for: "asyncio.Future[Any]") -> None:
        """Wait for it; raise ConnectionClosed where the connection ends before."""
        await asyncio.wait((waited_for, *self._tasks), return_when=asyncio.FIRST_COMPLETED)
        if not waited_for.done():
            for task in self._tasks:
                if task.done():
                    task.result()

    async def _write(self) -> None:
        while True:
            text = await self._outgoing.get()
            await self._connection.send(text)
            self._outgoing.task_done()

    async def _read(self) -> None:
        while True:
            try:
                message = read_message(await self._connection.receive())
            except MalformedMessage as error:
                _log.warning("A message of the gateway is left out: %s", error)
                continue
            if isinstance(message, Command):
                self._take(message)
            elif message is not None:
                answer = self._answers.get(message.reply_to or message.command_id)
                if answer is not None and not answer.done():
                    answer.set_result(message)

    def _take(self, command: Command) -> None:
        """Respond to a command, or start a task that will."""
        if command.name == PING:
            self._outgoing.put_nowait(response(command, "SUCCESS"))
        elif command.name == CANCEL:
            self._cancel(command)
        elif command.name not in self._tools:
            error = f"This executor has no tool {command.name}."
            self._outgoing.put_nowait(response(command, "NOT_FOUND", error=error))
        elif self._deregistered:
            self._outgoing.put_nowait(response(command, "UNAVAILABLE", error="The executor is stopping."))
        else:
            task = asyncio.create_task(self._execute(command))
            # An envelope has an id of its own; a command without one is known by its command_id.
            key = command.message_id or command.command_id
            self._open[key] = (command, task)
            task.add_done_callback(lambda done: self._finished(key, command, done))

    def _finished(self, key: str, command: Command, task: asyncio.Task[str]) -> None:
        """Respond to a command with the text that its task has returned, or with why there is none."""
        self._open.pop(key, None)
        if task.cancelled():
            text = response(command, "CANCELLED", error="The command was cancelled.")
        elif (error := task.exception()) is not None:
            _log.error("The result of %s cannot be sent", command.name, exc_info=error)
            text = response(command, "ERROR", error=f"The result cannot be sent ({type(error).__name__}).")
        else:
            text = task.result()
        self._outgoing.put_nowait(text)

    def _cancel(self, cancellation: Command) -> None:
        """Cancel the command of the named envelope, or all with the named command_id."""
        named = cancellation.arguments if isinstance(cancellation.arguments, dict) else {}
        message_id = named.get("message_id")
        command_id = named.get("command_id")
        found = [
            task
            for command, task in self._open.values()
            if (command.message_id == message_id if message_id else command.command_id == command_id)
        ]
        for task in found:
            task.cancel()
        error = "" if found else "There is no such open command."
        self._outgoing.put_nowait(response(cancellation, "SUCCESS" if found else "NOT_FOUND", error=error))

    async def _execute(self, command: Command) -> str:
        """Return the response to a command for a tool as text."""
        loop = asyncio.get_running_loop()

        def report(step: Progress) -> None:
            loop.call_soon_threadsafe(self._report, command, step)

        async with self._permits:
            with progress_to(report), traced_by(command.trace):
                arguments = "{}" if command.arguments is None else json.dumps(command.arguments)
                result = await self._tools[command.name].execute_async(arguments, threads=self._threads)
        text = result_response(command, result)
        if len(text) > MAX_MESSAGE_BYTES:
            return response(command, "ERROR", error=f"The result has more than {MAX_MESSAGE_BYTES} bytes.")
        return text

    def _report(self, command: Command, step: Progress) -> None:
        if self._outgoing.qsize() < _MAX_WAITING_PROGRESS:
            members = {"progress": step.progress, "total": step.total, "message": step.message}
            value = {name: member for name, member in members.items() if member is not None}
            self._outgoing.put_nowait(progress(command, value))


def reconnect_delay(failed: int, limits: tuple[float, float]) -> float:
    """Return the seconds until the next attempt after `failed` others; `limits` are the shortest and the
    longest.

    Half of it is random, so that the executors of a gateway that restarts do not all return at once.
    """
    shortest, longest = limits
    return min(longest, shortest * 2.0 ** min(failed, 60)) * random.uniform(0.5, 1)  # noqa: S311


def _address(gateway: str) -> tuple[str, Opener]:
    """Return the address of a gateway, and what opens connections to it."""
    parts = urlsplit(gateway)
    if "@" in parts.netloc:
        # It would be in logs.
        raise ValueError("The URL of the gateway has no user.")
    if parts.scheme in SCHEMES and parts.netloc:
        return websocket_url(gateway), open_websocket
    if parts.scheme not in ("grpc", "grpcs") or not parts.netloc:
        raise ValueError("The URL of the gateway begins with https://, http://, grpcs:// or grpc://.")
    if parts.port is None or parts.path.rstrip("/"):
        raise ValueError("The URL of a gateway's gRPC has a host and a port, and no path.")
    try:
        from utcp_gateway_client.serving.grpc_stream import open_grpc  # noqa: PLC0415
    except ImportError:
        raise ImportError("gRPC needs the extra grpc: pip install 'utcp-gateway-client[grpc]'.") from None
    return gateway, open_grpc


@contextlib.contextmanager
def _signals(ended: Any) -> Iterator[None]:
    """Call `ended` at SIGINT and SIGTERM, where the platform can do so in an event loop."""
    loop = asyncio.get_running_loop()
    handled = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, ended)
            handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
