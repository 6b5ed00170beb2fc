"""The address of a client as the key of a limit."""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

_MAX_NAME = 64


@lru_cache(maxsize=4096)
def address_group(host: str) -> str:
    """Return what stands for a client in a limit per address: an IPv4 address, or the /64 of an IPv6 address.

    A /64 is what one subscriber gets, who can use each of its addresses. An IPv4-mapped address counts as the
    IPv4 address. Text that is no address (a proxy's `unknown`, RFC 7239 section 6) stands for itself, cut to
    64 characters.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host[:_MAX_NAME]
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return f"{IPv6Address(int(address) >> 64 << 64)}/64"
    return str(address)
