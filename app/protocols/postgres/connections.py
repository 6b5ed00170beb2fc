"""Connections to PostgreSQL: their sockets are opened by `outbound`, so that the address guard, proxies and
limits hold for them, also for the connection by which a query is cancelled.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import asyncpg
from asyncpg import exceptions

from app.core.errors import (
    GatewayError,
    UpstreamErrorResponse,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.egress import EgressSettings
from app.outbound.network import Address, Network
from app.outbound.relay import ByteRelay
from app.protocols.postgres.template import PostgresTemplate

_CANCEL_BYTES: Final = 64 << 10
_CLOSE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class PostgresLogin:
    """A user name and password; None where there is none."""

    username: str | None = field(repr=False)
    password: str | None = field(repr=False)


class GuardedLoop:
    """An event loop for asyncpg, whose connections are relays of sockets that the address guard allows.

    Everything else is the running loop's.
    """

    def __init__(
        self, network: Network, *, egress: EgressSettings | None, deadline: float, max_bytes: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._network = network
        self._egress = egress
        self._deadline = deadline
        self._max_bytes = max_bytes
        self.relays: list[ByteRelay] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._loop

    def __hash__(self) -> int:
        return hash(self._loop)

    @property
    def has_exceeded(self) -> bool:
        """Whether the server has sent more than is allowed."""
        return any(relay.has_exceeded for relay in self.relays)

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.BaseProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect as a loop does, but through `outbound`; raise what `Network.connect_socket` raises."""
        is_first = not self.relays
        # A later one cancels a query, perhaps because the deadline has passed.
        deadline = self._deadline if is_first else self._loop.time() + _CLOSE_SECONDS
        upstream = await self._network.connect_socket(
            Address(host, port), egress=self._egress, deadline=deadline
        )
        relay = ByteRelay(upstream, max_bytes=self._max_bytes if is_first else _CANCEL_BYTES)
        self.relays.append(relay)
        return await self._loop.create_connection(protocol_factory, sock=relay.socket, **options)

    async def create_unix_connection(self, *_: Any, **__: Any) -> None:
        """Raise UpstreamUnreachable: no path of a socket is ever given."""
        raise UpstreamUnreachable("Unix sockets are not used.", request_sent=False)

    def close(self) -> None:
        """End all connections."""
        for relay in self.relays:
            relay.close()


async def open_connection(
    model: PostgresTemplate,
    login: PostgresLogin,
    loop: GuardedLoop,
    *,
    context: ssl.SSLContext | None,
    timeout: float,
) -> Any:
    """Return a connection with which only reading transactions are begun; raise what a call raises.

    Nothing of the gateway's environment is used: no PG* variable, no password file, no certificate.
    """
    settings = {
        "application_name": "utcp-gateway",
        "default_transaction_read_only": "on",
        "statement_timeout": str(model.timeout),
        "idle_in_transaction_session_timeout": str(model.timeout + 5_000),
        "DateStyle": "ISO",
        "IntervalStyle": "iso_8601",
        "bytea_output": "hex",
        "extra_float_digits": "1",
    }
    try:
        found: Any = await asyncpg.connect(  # type: ignore[no-untyped-call]
            # An IPv6 address has brackets in a template only.
            host=model.host.removeprefix("[").removesuffix("]"),
            port=model.port,
            user=login.username or "postgres",
            # Without any, asyncpg would look for a password file.
            password=login.password or "",
            database=model.database,
            ssl=context if context is not None else False,
            timeout=max(timeout, 0.001),
            statement_cache_size=0,
            server_settings=settings,
            target_session_attrs="any",
            loop=loop,
        )
    except GatewayError:
        raise
    except TimeoutError:
        raise UpstreamTimeout(
            "The server did not accept the connection in time.", request_sent=False
        ) from None
    except exceptions.PostgresError as error:
        raise connection_error(error) from None
    except ssl.SSLError:
        raise UpstreamUnreachable("The TLS handshake failed.", request_sent=False) from None
    except (OSError, exceptions.InterfaceError, exceptions.InternalClientError, ValueError):
        detail = "No connection was made." if context is None else "No connection with TLS was made."
        raise UpstreamUnreachable(detail, request_sent=False) from None
    return found


def connection_error(error: exceptions.PostgresError) -> GatewayError:
    """Return the error for a connection that the server has rejected."""
    if isinstance(error, exceptions.InvalidAuthorizationSpecificationError):
        return UpstreamUnauthorized("The server rejected the user name or the password.")
    response = UpstreamErrorResponse(503, error_body(error))
    rejection = UpstreamRejected("The server rejected the connection.", response=response)
    rejection.request_sent = False
    return rejection


def error_body(error: exceptions.PostgresError) -> dict[str, Any]:
    """Return what an error of the server says, as JSON."""
    # The library sets the fields of the server's message as attributes, where the message has them.
    fields = {
        "error": "message",
        "code": "sqlstate",
        "detail": "detail",
        "hint": "hint",
        "position": "position",
    }
    members = {name: getattr(error, field_name, None) for name, field_name in fields.items()}
    return {name: value for name, value in members.items() if value is not None}


async def close_connection(connection: Any, loop: GuardedLoop) -> None:
    """Cancel what the server still does for a connection, and close it."""
    try:
        await connection.close(timeout=_CLOSE_SECONDS)
    except Exception:  # noqa: BLE001 - whatever fails, the connection ends.
        connection.terminate()
    finally:
        loop.close()
