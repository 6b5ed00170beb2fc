"""Client addresses as keys of limits: one group for each network of a client."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

UNKNOWN: Final = "unknown"
"""The group of clients without an address, e.g. those of a Unix socket whose proxy names none."""
_IPV6_PREFIX: Final = 64


@lru_cache(maxsize=4096)
def group_address(host: str) -> str:
    """Return the group of a client address, whose requests are counted together.

    IPv4: the address. IPv6: its /64 (RFC 6177: a single site gets at least that), written `2001:db8::/64`;
    an IPv4-mapped address (RFC 4291 section 2.5.5.2) counts as IPv4, and a zone is ignored. For text that is
    not an IP address: `unknown`, so that made-up names do not create groups.
    """
    try:
        address: IPv4Address | IPv6Address = ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        if mapped is None:
            shift = 128 - _IPV6_PREFIX
            return f"{IPv6Address(int(address) >> shift << shift)}/{_IPV6_PREFIX}"
        address = mapped
    return str(address)
