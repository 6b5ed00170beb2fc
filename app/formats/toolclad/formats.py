"""Checkers of the formats that the schemas of arguments name, for what no pattern of linear time says."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

_HOST: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*\.?", re.ASCII)
_MAX_TARGET: Final = 253


def is_ipv4(text: str) -> bool:
    """Return whether the text is an IPv4 address."""
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def is_ipv6(text: str) -> bool:
    """Return whether the text is an IPv6 address without a zone."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def is_cidr(text: str) -> bool:
    """Return whether the text is an address, a slash and the length of a prefix; host bits may be set."""
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdecimal() or "%" in address:
        return False
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def is_scope_target(text: str) -> bool:
    """Return whether the text is an IP address, a CIDR, or a host name in ASCII without punycode."""
    if not 0 < len(text) <= _MAX_TARGET or not text.isascii():
        return False
    if is_ipv4(text) or is_ipv6(text) or is_cidr(text):
        return True
    punycode = any(label[:4].lower() == "xn--" for label in text.split("."))
    return not punycode and _HOST.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    """Return whether the text is a URL with a scheme and a host."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc and parts.hostname)


def is_scope_url(text: str) -> bool:
    """Return whether the text is a URL without userinfo whose host is a scope target."""
    if not is_uri(text):
        return False
    parts = urlsplit(text)
    return parts.username is None and parts.password is None and is_scope_target(parts.hostname or "")


CHECKERS: Final[Mapping[str, Callable[[str], bool]]] = {
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "cidr": is_cidr,
    "scope-target": is_scope_target,
    "uri": is_uri,
    "scope-url": is_scope_url,
}
"""The checkers by the name of the format."""
