"""The address guard against server-side request forgery: which addresses may be connected to at all.

It checks the very address that a socket is about to be connected to (`socket_factory`), whatever text or name
led there, so there is nothing between check and use. `GuardedResolver` checks names earlier: one denied
record among allowed ones denies the whole name, which stops DNS rebinding by mixed records.

The list of what is not public is our own, because `ipaddress.is_global` of Python 3.11 calls NAT64, 6to4,
IPv4-compatible and multicast addresses global (IANA special-purpose registries, RFC 6890 and its updates).
"""

import asyncio
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, Literal

from app.core.errors import BlockedAddress

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

_DENIED_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host agent, which looks public
        "169.254.0.0/16",  # link-local, and the metadata services
        "172.16.0.0/12",
        "192.0.0.0/24",  # IETF protocol assignments, and Oracle's metadata service
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# Only 2000::/3 is allocated for public use, so loopback, NAT64, link-local, site-local, unique local (with
# AWS's fd00:ec2::254), IPv4-compatible, segment routing and multicast are excluded.
_PUBLIC_6 = IPv6Network("2000::/3")
_DENIED_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo, ORCHID and other protocol assignments
        "2001:db8::/32",
        "2002::/16",  # 6to4, which embeds any IPv4 address
        "3fff::/20",
    )
)
_MAX_ADDRESSES = 16
_ENTRY_6 = re.compile(r"\[(?P<address>[^\]]+)\](?P<length>/\d+)?(?::(?P<port>\d+))?")
_ENTRY_4 = re.compile(r"(?P<address>[\d.]+)(?P<length>/\d+)?(?::(?P<port>\d+))?")


@dataclass(frozen=True, slots=True)
class DeniedAddress:
    """An IP address and port, or the path of a Unix socket, that the guard denies; and the setting that would
    allow it.

    An address inside a network tells where its host name leads: it is shown to keys with `providers:write`
    only.
    """

    address: str
    port: int
    setting: Literal["ALLOW_NETWORKS", "ALLOW_PORTS", "UNIX_SOCKETS"]

    @property
    def place(self) -> str:
        """The address and port, or the socket, as a part of a sentence."""
        if self.setting == "UNIX_SOCKETS":
            return f"the Unix socket {self.address}"
        return f"{self.address}, port {self.port}"

    @property
    def entry(self) -> str:
        """The narrowest entry of the setting that allows it."""
        if self.setting == "UNIX_SOCKETS":
            return self.address
        if self.setting == "ALLOW_PORTS":
            return str(self.port)
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class AddressDenied(OSError):
    """Raised inside the connector, which passes OSErrors on; the engine converts it to BlockedAddress."""

    def __init__(self) -> None:
        super().__init__("denied by the address guard")


class Guard:
    """The network policy of the gateway.

    `allow_networks` allows what is denied by default, as `CIDR` or `CIDR:port`: `10.0.0.0/8`,
    `127.0.0.1:8001`, `[::1]/128:8001`. `allow_ports`, where given, are the only allowed ports, except for
    destinations that match an entry with a port. `own_addresses` (`host:port`, wildcards included) are where
    the gateway itself listens: denied even inside an allowed network, unless an entry names the port.
    Raises ValueError for an entry that cannot be parsed.
    """

    def __init__(
        self,
        *,
        allow_networks: Sequence[str] = (),
        allow_ports: Iterable[int] | None = None,
        own_addresses: Sequence[str] = (),
        unix_sockets: Iterable[str] = (),
    ) -> None:
        self._allowed = tuple(_parse_entry(entry) for entry in allow_networks)
        self._ports = None if allow_ports is None else frozenset(allow_ports)
        self._unix_sockets = frozenset(unix_sockets)
        self._own = tuple(_parse_listener(entry) for entry in own_addresses)

    def check(self, address: str, port: int) -> None:
        """Raise BlockedAddress unless connections to this IP address and port are allowed."""
        if not self.allows(address, port):
            raise BlockedAddress("The gateway's network policy does not allow the destination.")

    def allows(self, address: str, port: int) -> bool:
        """Return whether connections to this IP address (never a name) and port are allowed."""
        try:
            ip = _parsed(address.partition("%")[0])
        except ValueError:
            return False
        open_ports = [allowed for network, allowed in self._allowed if ip in network]
        if port in open_ports:
            return True
        if not 0 < port < 65536 or (self._ports is not None and port not in self._ports):
            return False
        if self._is_own(ip, port):
            return False
        return None in open_ports or _is_public(ip)

    def denied(self, address: str, port: int) -> DeniedAddress | None:
        """Return why connections to this IP address and port are not allowed, None where they are.

        Raise ValueError for what is no IP address.
        """
        if self.allows(address, port):
            return None
        ip = _parsed(address.partition("%")[0])
        # For other addresses an entry of ALLOW_NETWORKS with a port is needed, which is enough for the port.
        is_port = self._ports is not None and port not in self._ports and _is_public(ip)
        return DeniedAddress(str(ip), port, "ALLOW_PORTS" if is_port else "ALLOW_NETWORKS")

    def allows_socket(self, path: str) -> bool:
        """Return whether connections to the Unix socket with exactly this path are allowed."""
        return path in self._unix_sockets

    def unix_socket(self, path: str) -> socket.socket:
        """Return a socket that may be connected to an allowed path. Raises AddressDenied."""
        if not self.allows_socket(path):
            raise AddressDenied
        return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def socket_factory(self, addr_info: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an allowed address: a `socket_factory` for `aiohappyeyeballs`.

        Raises AddressDenied.
        """
        family, kind, protocol, _, sockaddr = addr_info
        if family not in (socket.AF_INET, socket.AF_INET6) or not self.allows(sockaddr[0], sockaddr[1]):
            raise AddressDenied
        return socket.socket(family=family, type=kind, proto=protocol)

    def _is_own(self, ip: _Address, port: int) -> bool:
        for own, own_port in self._own:
            if port == own_port and (own == ip if own is not None else _is_local(ip)):
                return True
        return False


class GuardedResolver:
    """Resolves names in threads of its own, and denies a name of which one record is not allowed.

    It has its own threads, because a name server that never responds blocks a thread for the resolver's whole
    timeout, and the loop's default threads have other work.
    """

    def __init__(
        self, guard: Guard, *, threads: int = 16, look_up: Callable[..., Any] = socket.getaddrinfo
    ) -> None:
        self._guard = guard
        self._look_up = look_up
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="resolver")

    async def resolve(self, host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        """Return at most 16 addresses of a name, IPv4 and IPv6, each with its family.

        Raises BlockedAddress where one record, of all, is not allowed, and OSError for an unknown name.
        """
        addresses = await self.look_up(host, port)
        for _, address in addresses:
            self._guard.check(address, port)
        return addresses[:_MAX_ADDRESSES]

    async def look_up(self, host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
        """Return all addresses of a name, allowed or not, each with its family; raise OSError for an unknown
        name.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._pool,
                self._look_up,
                host,
                port,
                socket.AF_UNSPEC,
                socket.SOCK_STREAM,
                0,
                socket.AI_ADDRCONFIG,
            )
        except UnicodeError:
            raise OSError("no such name") from None
        return list(dict.fromkeys((entry[0], str(entry[4][0])) for entry in found))

    def shutdown(self) -> None:
        """Stop the threads; one that still waits for a name server ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def literal_addresses(host: str) -> list[str]:
    """Return the addresses of a host that is an IP literal in any spelling (`127.1`, `0x7f.1`, `::1`)."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [str(entry[4][0]) for entry in found]


def _parsed(address: str) -> _Address:
    """Return the address that is connected to: IPv4 for an IPv4-mapped one; raise ValueError."""
    ip = ip_address(address)
    return ip.ipv4_mapped or ip if isinstance(ip, IPv6Address) else ip


def _is_public(ip: _Address) -> bool:
    if isinstance(ip, IPv4Address):
        return not any(ip in network for network in _DENIED_4)
    return ip in _PUBLIC_6 and not any(ip in network for network in _DENIED_6)


def _is_local(ip: _Address) -> bool:
    """Return whether this machine has the address: only then can a socket be bound to it."""
    family = socket.AF_INET if isinstance(ip, IPv4Address) else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(ip), 0))
        except OSError:
            return False
    return True


def _parse_entry(entry: str) -> tuple[_Network, int | None]:
    """Parse `CIDR` or `CIDR:port`; without a prefix length, it is one address."""
    text = entry.strip()
    found = _ENTRY_6.fullmatch(text) or _ENTRY_4.fullmatch(text)
    try:
        if found is None:
            return ip_network(text), None
        network = ip_network(found["address"] + (found["length"] or ""))
        port = int(found["port"]) if found["port"] else None
    except ValueError:
        raise ValueError(f"{entry!r} is not a network as CIDR or CIDR:port.") from None
    if port is not None and not 0 < port < 65536:
        raise ValueError(f"{entry!r} has no usable port.")
    return network, port


def _parse_listener(entry: str) -> tuple[_Address | None, int]:
    """Parse `host:port`; the address None stands for every address of this machine."""
    host, _, port = entry.strip().rpartition(":")
    host = host.strip("[]")
    if host in ("", "*", "0.0.0.0", "::", "localhost"):  # noqa: S104  Read, not bound.
        return None, int(port)
    return ip_address(host), int(port)
