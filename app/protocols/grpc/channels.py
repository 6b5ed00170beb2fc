"""gRPC channels to addresses that the guard allows, shared between calls and closed when idle.

The library gets a checked address, never a name: `ipv4:IP:port`, with the name as authority and for TLS. A
channel that has lost its connection is replaced by a new one, for which the name is resolved again.
"""

import asyncio
import ipaddress
import os
import ssl
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

from app.core.deadlines import Deadline, get_timer_queue
from app.core.errors import InvalidInput, UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings
from app.outbound.network import Address, Network

# The library reads this when it is loaded; by default it writes upstreams' messages to stderr, past the log.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio

__all__ = ["Channels", "Lease"]

_MAX_ORIGINS: Final = 256
_IDLE_SECONDS: Final = 60.0
_OPTIONS: Final = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", "utcp-gateway"),
    # Identity only: a few compressed bytes could otherwise expand to any number.
    ("grpc.compression_enabled_algorithms_bitset", 1),
)


@dataclass(frozen=True, slots=True)
class _ChannelKey:
    address: Address
    tls: bool
    egress: bytes
    max_bytes: int
    scope: bytes


@dataclass(slots=True, eq=False)
class _Shared:
    channel: Any
    users: int = 0
    retired: bool = False


@dataclass(slots=True, eq=False)
class _ChannelSet:
    """The channel for one key. `waiters` is the number of calls that wait for it."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    shared: _Shared | None = None
    waiters: int = 0
    idle_since: float = 0.0

    @property
    def is_busy(self) -> bool:
        return bool(self.waiters or (self.shared is not None and self.shared.users))


class Lease:
    """A connected channel for one call. It must be released; `release` is idempotent."""

    def __init__(
        self, channels: "Channels", pool: _ChannelSet, shared: _Shared, *, is_single_use: bool
    ) -> None:
        self._channels = channels
        self._pool = pool
        self._shared: _Shared | None = shared
        self._is_single_use = is_single_use
        self.channel = shared.channel

    def mark_broken(self) -> None:
        """Mark the connection as broken: the next call opens a new one, and resolves the name again."""
        if self._shared is not None:
            self._channels.retire(self._pool, self._shared)

    def release(self) -> None:
        """Return the channel to the pool; a second call has no effect."""
        shared, self._shared = self._shared, None
        if shared is not None:
            if self._is_single_use:
                self._channels.retire(self._pool, shared)
            self._channels.release_user(self._pool, shared)


class Channels:
    """The pool of channels. Use it in one event loop, and `aclose()` it there."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._pools: OrderedDict[_ChannelKey, _ChannelSet] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def lease(
        self,
        address: Address,
        *,
        tls: bool,
        egress: EgressSettings | None,
        scope: bytes,
        max_bytes: int,
        deadline: float,
    ) -> Lease:
        """Return a connected channel that receives messages of at most `max_bytes` bytes.

        It is shared within its scope (see `outbound.scope`); with b"" it is closed after this call.
        `deadline` is a `loop.time()`. Raise BlockedAddress, InvalidInput, UpstreamUnreachable and
        UpstreamTimeout, all before anything of the call is sent.
        """
        if egress is not None and egress.proxy_url is not None:
            raise InvalidInput("gRPC does not go through an HTTP proxy: remove proxy_url.")
        scope_key = scope or uuid4().bytes
        pool = self._pool(
            _ChannelKey(address, tls, egress.key if egress is not None else b"", max_bytes, scope_key)
        )
        pool.waiters += 1
        try:
            shared = _ready(pool)
            if shared is None:
                with Deadline(get_timer_queue(), deadline):
                    shared = await self._connect(
                        pool, address, tls=tls, egress=egress, max_bytes=max_bytes, deadline=deadline
                    )
        except TimeoutError:
            raise _connect_timeout() from None
        finally:
            pool.waiters -= 1
            self._schedule_sweep(pool)
        shared.users += 1
        return Lease(self, pool, shared, is_single_use=not scope)

    def retire(self, pool: _ChannelSet, shared: _Shared) -> None:
        """Take the channel out of use; it is closed after its last call."""
        if pool.shared is shared:
            self._retire_current(pool)

    def release_user(self, pool: _ChannelSet, shared: _Shared) -> None:
        """Count one user less; close a retired channel after its last one."""
        shared.users -= 1
        if shared.retired and not shared.users:
            self._close(shared)
        self._schedule_sweep(pool)

    async def aclose(self) -> None:
        """Close all channels, which cancels their calls."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for pool in self._pools.values():
            if pool.shared is not None:
                self._close(pool.shared)
        self._pools.clear()
        while self._closing:
            await asyncio.wait(self._closing)

    def __len__(self) -> int:
        """Return the number of open channels."""
        return sum(pool.shared is not None for pool in self._pools.values())

    async def _connect(
        self,
        pool: _ChannelSet,
        address: Address,
        *,
        tls: bool,
        egress: EgressSettings | None,
        max_bytes: int,
        deadline: float,
    ) -> _Shared:
        async with pool.lock:
            shared = _ready(pool)
            if shared is not None:
                return shared
            if pool.shared is not None:
                self._retire_current(pool)
            credentials = _credentials(self._network, egress) if tls else None
            options = (
                *_OPTIONS,
                *_name_options(address, tls=tls),
                ("grpc.max_receive_message_length", max_bytes),
            )
            targets = _targets(await self._network.resolve(address, deadline=deadline), address.port)
            loop = asyncio.get_running_loop()
            for remaining, target in zip(range(len(targets), 0, -1), targets, strict=True):
                share = loop.time() + (deadline - loop.time()) / remaining
                channel = await _open_channel(target, credentials, options, deadline=share)
                if channel is not None:
                    pool.shared = _Shared(channel)
                    return pool.shared
            if loop.time() >= deadline - 0.01:
                raise _connect_timeout()
            detail = "The upstream accepts no gRPC connection" + (
                " with a valid certificate." if tls else "."
            )
            raise UpstreamUnreachable(detail, request_sent=False)

    def _pool(self, key: _ChannelKey) -> _ChannelSet:
        pool = self._pools.get(key)
        if pool is None:
            if len(self._pools) >= _MAX_ORIGINS:
                self._evict_idle()
            pool = self._pools[key] = _ChannelSet()
        self._pools.move_to_end(key)
        return pool

    def _evict_idle(self) -> None:
        for key, pool in self._pools.items():
            if not pool.is_busy:
                self._drop(key, pool)
                return
        raise UpstreamUnreachable("Too many gRPC connections are open already.", request_sent=False)

    def _schedule_sweep(self, pool: _ChannelSet) -> None:
        loop = asyncio.get_running_loop()
        pool.idle_since = loop.time()
        if self._sweep_timer is None:
            self._sweep_timer = loop.call_later(_IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_timer = None
        for key, pool in list(self._pools.items()):
            if not pool.is_busy and pool.idle_since <= loop.time() - _IDLE_SECONDS + 1:
                self._drop(key, pool)
        if self._pools:
            self._sweep_timer = loop.call_later(_IDLE_SECONDS / 2, self._close_idle)

    def _drop(self, key: _ChannelKey, pool: _ChannelSet) -> None:
        del self._pools[key]
        if pool.shared is not None:
            self._retire_current(pool)

    def _retire_current(self, pool: _ChannelSet) -> None:
        shared, pool.shared = pool.shared, None
        if shared is not None:
            shared.retired = True
            if not shared.users:
                self._close(shared)

    def _close(self, shared: _Shared) -> None:
        closing = asyncio.get_running_loop().create_task(shared.channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


def _ready(pool: _ChannelSet) -> _Shared | None:
    shared = pool.shared
    if shared is not None and shared.channel.get_state() is grpc.ChannelConnectivity.READY:
        return shared
    return None


async def _open_channel(
    target: str, credentials: Any, options: tuple[tuple[str, Any], ...], *, deadline: float
) -> Any | None:
    """Return a connected channel; None where no gRPC server responds by `deadline`."""
    if credentials is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        channel = grpc.aio.secure_channel(target, credentials, options=options)
    connected = False
    try:
        with Deadline(get_timer_queue(), deadline):
            state = channel.get_state(try_to_connect=True)
            while state not in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
                await channel.wait_for_state_change(state)
                state = channel.get_state(try_to_connect=True)
        connected = state is grpc.ChannelConnectivity.READY
    except TimeoutError:
        return None
    finally:
        if not connected:
            await channel.close()
    return channel if connected else None


def _targets(addresses: list[tuple[int, str]], port: int) -> list[str]:
    """Return one target for each address family; the library tries its addresses in their order."""
    found: dict[str, list[str]] = {}
    for _, text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        literal = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
        found.setdefault(f"ipv{address.version}", []).append(literal)
    return [f"{scheme}:{','.join(literals)}" for scheme, literals in found.items()]


def _name_options(address: Address, *, tls: bool) -> list[tuple[str, str]]:
    host = f"[{address.host}]" if ":" in address.host else address.host
    names = [("grpc.default_authority", f"{host}:{address.port}")]
    if tls:
        names.append(("grpc.ssl_target_name_override", address.host.rstrip(".")))
    return names


def _credentials(network: Network, egress: EgressSettings | None) -> Any:
    """Return the provider's authorities and certificate, else the system's; raise InvalidInput."""
    context = network.tls_context(egress)
    bundle = egress.ca_bundle if egress is not None else None
    if bundle is None:
        known = context.get_ca_certs(binary_form=True)
        bundle = "".join(ssl.DER_cert_to_PEM_cert(one) for one in known)
    key = egress.client_key if egress is not None else None
    chain = egress.client_certificate if egress is not None else None
    return grpc.ssl_channel_credentials(
        # With None the library uses its bundled authorities.
        root_certificates=bundle.encode() or None,
        private_key=key.reveal().encode() if key is not None and chain else None,
        certificate_chain=chain.encode() if key is not None and chain else None,
    )


def _connect_timeout() -> UpstreamTimeout:
    return UpstreamTimeout("No connection to the upstream was made in time.", request_sent=False)
