"""What a call template does at its origin, whatever its tool is called: two templates with the same operation
have the same effect.

Over HTTP it is the method and the path, and where the protocol names its operations (a tool of MCP, a field
of GraphQL), these names. A protocol with neither has one operation at each origin: nothing in a template
tells for sure that two of them differ.

Origins are compared by host and port alone: a text over `tcp` can be an HTTP request, and most servers answer
the same with TLS and without.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from app.core.errors import InvalidInput
from app.formats.utcp.paths import compile_url
from app.protocols.call_templates import protocol_of
from app.protocols.origins import template_origin
from app.protocols.registry import PROTOCOLS

_SOCKET: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[^\]/]*\]|[^:/\[\]]+)(?::([0-9]+))?", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"(?:0x[0-9a-f]+|[0-9]+)(?:\.(?:0x[0-9a-f]+|[0-9]+)){0,3}")
_WEB_PORTS: Final = {"http": "80", "https": "443", "ws": "80", "wss": "443"}
_WEB: Final = "web"
_LOCALHOST: Final = "localhost"
_ANY_PATH: Final = "*"
_ANY_SEGMENT: Final = "{}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What a call does. `origin` is "" where it is not known.

    `method` and `path` are those of its HTTP request, `path` None where it sends none: placeholders are `{}`,
    and `*` is a path that is not known. `names` are the protocol's own names of what is done, () where it has
    none.
    """

    protocol: str
    origin: str
    method: str = ""
    path: str | None = None
    names: tuple[str, ...] = ()

    def may_be(self, other: "Operation") -> bool:
        """Return whether a call of one operation could be one of the other; also where that is not known."""
        are_known = bool(self.origin and other.origin)
        if are_known and socket_of(self.origin) != socket_of(other.origin):
            return False
        if self.protocol == other.protocol and self.names and other.names:
            return not set(self.names).isdisjoint(other.names)
        if self.path is not None and other.path is not None:
            return self.method == other.method and _overlap(self.path, other.path)
        return are_known or self.protocol == other.protocol


def operation_of(fields: Mapping[str, Any], *, origin: str = "") -> Operation:
    """Return the operation of a stored template whose variables have been replaced as far as they are known.

    `origin` is where its calls go, "" where the template tells.
    """
    protocol = protocol_of(fields)
    if not origin:
        try:
            origin = template_origin(fields)
        except InvalidInput:
            origin = ""
    record = PROTOCOLS.get(protocol)
    if record is None:
        return Operation(protocol, origin)
    request = record.request(fields)
    names = tuple(sorted(set(record.operations(fields))))
    if request is None:
        return Operation(protocol, origin, names=names)
    method, url = request
    return Operation(protocol, origin, method, _path_pattern(url, is_fixed="parameters" in fields), names)


@lru_cache(maxsize=4096)
def socket_of(origin: str) -> str:
    """Return the host and port of an origin, in which different spellings of an address are one, and so are
    the ports of `http` and `https`; an origin without a host as it is.

    For comparisons only: loopback addresses are `localhost`, as is the address that stands for all of them.
    """
    match = _SOCKET.fullmatch(origin)
    if match is None:
        return origin
    port = match[3] or _WEB_PORTS.get(match[1].lower(), "")
    return f"{_canonical_host(match[2])}:{_WEB if port in _WEB_PORTS.values() else port}"


def _canonical_host(text: str) -> str:
    host = text.lower().strip("[]").rstrip(".")
    try:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = (
            _ipv4_address(host) if _NUMBERS.fullmatch(host) else ipaddress.ip_address(host)
        )
    except ValueError:
        return _LOCALHOST if host.endswith(f".{_LOCALHOST}") else host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    is_local = address.is_unspecified or str(address) in ("127.0.0.1", "::1")
    return _LOCALHOST if is_local else str(address)


def _ipv4_address(text: str) -> ipaddress.IPv4Address:
    """Return the address that `inet_aton` reads: `127.1`, `0x7f.0.0.1` and `017700000001` are 127.0.0.1, too.

    Raise ValueError where it reads none.
    """
    numbers = [
        int(part, 16 if part.startswith("0x") else 8 if part.startswith("0") else 10)
        for part in text.split(".")
    ]
    *leading, last = numbers
    rest = 4 - len(leading)
    if any(number > 255 for number in leading) or last >= 256**rest:
        raise ValueError(text)
    return ipaddress.IPv4Address((int.from_bytes(bytes(leading), "big") << 8 * rest) + last)


def _path_pattern(url: str, *, is_fixed: bool) -> str:
    """Return the path of a URL template as it is called, in which different spellings of a path are one.

    In one that is not `is_fixed`, a `$` begins a variable whose value is not known.
    """
    try:
        compiled = compile_url(url)
    except InvalidInput:
        return _ANY_PATH
    slots = [one for one in compiled.placeholders if one.in_path]
    pieces = [_ANY_SEGMENT + one.literal_after for one in slots]
    path = "".join([compiled.head, *pieces])[len(compiled.origin) :].partition("?")[0]
    if ("$" in path and not is_fixed) or any(one.name.startswith("+") for one in slots):
        return _ANY_PATH
    segments: list[str] = []
    for text in path.split("/"):
        if _ANY_SEGMENT in text:
            segments.append(_ANY_SEGMENT)
        else:
            # Servers take an encoded slash for a slash, and ignore case and parameters (`;v=1`), or not.
            parts = unquote(text).partition(";")[0].casefold().split("/")
            segments += [part for part in parts if part not in ("", ".")]
    return "/" + "/".join(segments)


def _overlap(one: str, other: str) -> bool:
    """Return whether there is a path that both patterns match; a `{}` is one segment or several."""
    if _ANY_PATH in (one, other):
        return True
    mine, theirs = one.split("/"), other.split("/")
    if _ANY_SEGMENT not in theirs:
        return _matches(mine, theirs)
    if _ANY_SEGMENT not in mine:
        return _matches(theirs, mine)
    # What stands between the first and the last `{}` of each fits into one `{}` of the other.
    return _agree(mine, theirs) and _agree(mine[::-1], theirs[::-1])


def _agree(mine: list[str], theirs: list[str]) -> bool:
    """Return whether two patterns are the same up to the first `{}` of either."""
    for a, b in zip(mine, theirs, strict=False):
        if _ANY_SEGMENT in (a, b):
            return True
        if a != b:
            return False
    return True


def _matches(pattern: list[str], path: list[str]) -> bool:
    """Return whether a pattern matches a path of fixed segments."""
    at = after = resume = 0
    for_any = None
    while at < len(path):
        wanted = pattern[after] if after < len(pattern) else None
        if wanted == _ANY_SEGMENT:
            at += 1
            after += 1
            for_any, resume = after, at
        elif wanted == path[at]:
            at += 1
            after += 1
        elif for_any is not None:
            resume += 1
            at, after = resume, for_any
        else:
            return False
    return after == len(pattern)
