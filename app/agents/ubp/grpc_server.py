"""gRPC: `ubp.v1.Orchestrator/Connect`, a bidirectional stream of messages, on a port of its own.

This module needs the extra `grpc`. Messages are read and written as bytes by `app.formats.ubp.wire`, so that
there is no generated service. Workers share the port (SO_REUSEPORT): the kernel gives each connection to one
of them.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
import grpc.aio
import structlog
from starlette.requests import HTTPConnection
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from app.access import authorise
from app.agents.ubp.lifetime import Ended, end_of, until_ended
from app.agents.ubp.server import ExecutorServer
from app.agents.ubp.session import Session
from app.core.client_address import UNKNOWN, group_address
from app.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    GatewayError,
    RateLimited,
    Unauthenticated,
    Unavailable,
)
from app.formats.ubp import wire
from app.formats.ubp.model import Message
from app.protocols.command_routing import MessageNotSent
from app.security.principal import Principal

_log = structlog.get_logger(__name__)

SERVICE: Final = "ubp.v1.Orchestrator"
_PATH: Final = "/ubp"
_KEEPALIVE_MS: Final = 20_000
_MAX_METADATA_BYTES: Final = 16 << 10
_STREAMS_PER_CONNECTION: Final = 100
_IDENTITY: Final = 1
_STOPPING: Final = "The gateway is stopping; connect again."


class GrpcServer:
    """The service of one worker."""

    def __init__(self, server: ExecutorServer) -> None:
        self._server = server
        self._settings = server.services.settings
        self._by_address: Counter[str] = Counter()
        self._trusted = ProxyHeadersMiddleware(_no_app, self._settings.forwarded_allow_ips).trusted_hosts
        self._running: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen; raise Unavailable where the port or the certificate cannot be used."""
        settings = self._settings
        host = settings.ubp_grpc_host or settings.host
        address = f"[{host}]:{settings.ubp_grpc_port}" if ":" in host else f"{host}:{settings.ubp_grpc_port}"
        running = grpc.aio.server(options=self._options(), maximum_concurrent_rpcs=settings.max_connections)
        method = grpc.stream_stream_rpc_method_handler(self._connect)
        running.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {"Connect": method}),)
        )
        credentials = self._credentials()
        try:
            if credentials is None:
                running.add_insecure_port(address)
            else:
                running.add_secure_port(address, credentials)
        except RuntimeError:
            raise Unavailable(f"UBP_GRPC_PORT: the gateway cannot listen on {address}.") from None
        await running.start()
        self._running = running
        _log.info("gRPC listens", address=address, tls=credentials is not None)

    async def aclose(self) -> None:
        """End all streams, and stop listening."""
        self._server.draining.set()
        if self._running is not None:
            await self._running.stop(0)
        for task in list(self._server.streams):
            task.cancel()
        await asyncio.gather(*self._server.streams, return_exceptions=True)

    def _options(self) -> list[tuple[str, int]]:
        settings = self._settings
        return [
            # With one worker, a port that is in use is an error at the start.
            ("grpc.so_reuseport", int(settings.workers > 1)),
            ("grpc.max_receive_message_length", settings.max_request_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
            ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_timeout_ms", _KEEPALIVE_MS),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", _KEEPALIVE_MS // 4),
            # As by HTTP: connections without a stream, and such as send nothing.
            ("grpc.max_connection_idle_ms", int(settings.keep_alive_timeout * 1000)),
            ("grpc.server_handshake_timeout_ms", int(settings.head_timeout * 1000)),
            # A compressed message may be a thousand times its size.
            ("grpc.compression_enabled_algorithms_bitset", _IDENTITY),
        ]

    def _credentials(self) -> grpc.ServerCredentials | None:
        certificate, key = self._settings.ubp_grpc_certificate_file, self._settings.ubp_grpc_key_file
        if certificate is None or key is None:
            return None
        return grpc.ssl_server_credentials([(_read(key), _read(certificate))])

    async def _connect(self, _requests: Any, context: grpc.aio.ServicerContext) -> None:
        """Serve one stream until its peer or the gateway ends it."""
        if self._server.draining.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, _STOPPING)
        group, host = self._client(context)
        if self._by_address[group] >= self._settings.max_connections_per_address:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many streams of one address.")
        task = asyncio.current_task()
        self._by_address[group] += 1
        if task is not None:
            self._server.streams.add(task)
        try:
            await self._serve(context, host)
        finally:
            if task is not None:
                self._server.streams.discard(task)
            self._by_address[group] -= 1
            if not self._by_address[group]:
                del self._by_address[group]

    def _client(self, context: grpc.aio.ServicerContext) -> tuple[str, str]:
        """Return the address group and the address of a client; a proxy of FORWARDED_ALLOW_IPS names it."""
        group, host = _address(context.peer())
        if host not in self._trusted:
            return group, host
        named = [str(text) for key, text in context.invocation_metadata() or () if key == "x-forwarded-for"]
        client = self._trusted.get_trusted_client_address(", ".join(named))[0] if named else ""
        return (group_address(client), client) if client else (group, host)

    async def _serve(self, context: grpc.aio.ServicerContext, host: str) -> None:
        connection = HTTPConnection(_scope(self._server, context, host))

        async def verify() -> Principal:
            return await authorise(connection, "tools:call", "executors:connect")

        try:
            await verify()
        except GatewayError as error:
            await _abort(context, error)
        # The peer learns that it is admitted before it has sent anything.
        await context.send_initial_metadata(())
        sender = GrpcSender(context, seconds=self._settings.client_idle_timeout)
        session = Session(self._server, sender, verify=verify, transport="grpc", address=host)
        reason: Ended | GatewayError | None = None
        try:
            reason = await until_ended(
                self._server, session, verify, _receive(context, session), sender.failed.wait()
            )
        finally:
            await session.aclose(end_of(self._server, reason))
        if isinstance(reason, GatewayError):
            await _abort(context, reason)
        if reason is Ended.STOPPING:
            await context.abort(grpc.StatusCode.UNAVAILABLE, _STOPPING)
        if reason is Ended.NOT_READING:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "The peer does not read its messages.")


class GrpcSender:
    """Sends messages one after the other; `failed` is set where the peer takes none of them in time."""

    def __init__(self, context: grpc.aio.ServicerContext, *, seconds: float) -> None:
        self._context = context
        self._seconds = seconds
        self._turn = asyncio.Lock()
        self._writing: asyncio.Task[None] | None = None
        self.failed = asyncio.Event()

    async def send(self, message: Message) -> None:
        """See `MessageSender`."""
        data = wire.encode_message(message)
        await self._turn.acquire()
        if self.failed.is_set():
            self._turn.release()
            raise MessageNotSent
        # gRPC goes on with a write whose task is cancelled, and rejects the next one until it has ended.
        self._writing = asyncio.ensure_future(self._write(data))
        self._writing.add_done_callback(self._written)
        await asyncio.shield(self._writing)

    async def _write(self, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await self._context.write(data)
        except TimeoutError:
            self.failed.set()
            raise ConnectionResetError from None
        except (grpc.aio.UsageError, grpc.aio.AbortError):
            # The stream had ended before the write began.
            raise MessageNotSent from None
        except (grpc.RpcError, grpc.aio.InternalError, RuntimeError):
            # What grpcio raises for a stream that ends during a write depends on how it does.
            raise ConnectionResetError from None

    def _written(self, task: asyncio.Task[None]) -> None:
        self._turn.release()
        if not task.cancelled():
            # Retrieved: the sender may have been cancelled.
            task.exception()


async def _receive(context: grpc.aio.ServicerContext, session: Session) -> Ended:
    """Give each message to the session until the peer ends its side, and return so.

    Raise BadRequest for a malformed message whose id cannot be read.
    """
    while True:
        data = await context.read()
        if data is grpc.aio.EOF:
            return Ended.BY_PEER
        try:
            message = wire.decode_message(data)
        except BadRequest as error:
            await session.receive_malformed(wire.identify_message(data), error)
        else:
            await session.receive(message)


async def _abort(context: grpc.aio.ServicerContext, error: GatewayError) -> NoReturn:
    """End a stream with the status of an error."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), grpc.StatusCode.INTERNAL)
    await context.abort(code, error.problem_detail)
    raise AssertionError  # `abort` raises.


_CODES: Final = (
    (Unauthenticated, grpc.StatusCode.UNAUTHENTICATED),
    (Forbidden, grpc.StatusCode.PERMISSION_DENIED),
    (Conflict, grpc.StatusCode.FAILED_PRECONDITION),
    (RateLimited, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (Unavailable, grpc.StatusCode.UNAVAILABLE),
    (BadRequest, grpc.StatusCode.INVALID_ARGUMENT),
)


def _scope(server: ExecutorServer, context: grpc.aio.ServicerContext, host: str) -> dict[str, Any]:
    """Return what `authorise` reads of a request, from the metadata of a stream."""
    headers = [
        (key.encode(), value.encode("latin-1", "replace"))
        for key, value in context.invocation_metadata() or ()
        if isinstance(value, str)
    ]
    return {
        "type": "websocket",
        "path": _PATH,
        "headers": headers,
        "client": (host, 0) if host else None,
        "state": {"services": server.services},
    }


def _address(peer: str) -> tuple[str, str]:
    """Return the address group and the address of a peer, e.g. of `ipv6:[2001:db8::1]:5000`."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return UNKNOWN, ""
    host = rest.rpartition(":")[0].strip("[]")
    return group_address(host), host


async def _no_app(*_: object) -> None:
    """Do nothing: the application that ProxyHeadersMiddleware is made for."""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unavailable(f"UBP_GRPC_CERTIFICATE_FILE, UBP_GRPC_KEY_FILE: {error.strerror}.") from None
