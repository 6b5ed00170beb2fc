"""The head of a request: the parts of its URL, and the lines that are sent (RFC 9112 sections 3 and 5)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from yarl import URL

from app.core.errors import InvalidInput
from app.outbound.http1.decoding import ACCEPTED
from app.outbound.http1.dialing import Address

_URL: Final = re.compile(r"(https?://[!-.0->@-\[\]-~]+)([!-\[\]-~]*)", re.IGNORECASE)
# RFC 9110 section 5.6.2.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 section 5.5: no control character except the tab, since a value could end its line with one.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
COMMON_METHODS: Final = frozenset(
    {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "QUERY", "TRACE", "CONNECT"}
)
_METHODS_WITH_LENGTH: Final = frozenset({"POST", "PUT", "PATCH", "QUERY"})
# RFC 9110 sections 7.6.1 and 10.1.1: these belong to the connection, which the engine manages.
_RESERVED: Final = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_MAX_CACHED: Final = 4096
_ACCEPT_ENCODING: Final = f"Accept-Encoding: {ACCEPTED}\r\n"
_DEFAULTS: Final = (
    ("accept", "Accept: */*\r\n"),
    ("user-agent", f"User-Agent: utcp-gateway/{version('utcp-gateway')}\r\n"),
)


@dataclass(frozen=True, slots=True)
class Authority:
    """The part of a URL before its path.

    `address` is the host and port, `host_header` the value of Host, `origin` is `scheme://host[:port]`
    without a default port.
    """

    tls: bool
    address: Address
    host_header: str
    origin: str


_authorities: dict[str, Authority] = {}
_names: dict[str, str] = {}


def split_url(url: str) -> tuple[Authority, str]:
    """Return a URL's authority, and its path and query byte for byte. Raises InvalidInput."""
    found = _URL.fullmatch(url)
    if found is None:
        raise _invalid_url()
    text, target = found[1], found[2].partition("#")[0]
    authority = _authorities.get(text)
    if authority is None:
        if len(_authorities) >= _MAX_CACHED:
            _authorities.clear()
        authority = _authorities[text] = _parse_authority(text)
    if not target.startswith("/"):
        target = "/" + target
    return authority, target


def normalize_method(method: str) -> str:
    """Return a usual method in upper case and any other as it is: methods are case-sensitive (RFC 9110
    section 9.1).

    Raises InvalidInput unless it is a token.
    """
    if (upper := method.upper()) in COMMON_METHODS:
        return upper
    if not _TOKEN.fullmatch(method):
        raise InvalidInput("The method has characters that HTTP does not allow.")
    return method


def encode_head(
    method: str,
    target: str,
    authority: Authority,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    extra: str = "",
) -> bytes:
    """Return the head of a request, including its empty line.

    Headers are encoded as UTF-8; no content type is invented. `extra` are whole lines of the engine's own.
    Raises InvalidInput for a header that must not be set, or holds characters that HTTP does not allow.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {authority.host_header}\r\n"]
    present = set()
    for name, value in headers:
        lowered = _names.get(name) or _validated_name(name)
        if _CONTROL.search(value):
            raise InvalidInput("A header value has characters that HTTP does not allow.")
        if lowered == "accept-encoding":
            continue
        present.add(lowered)
        lines.append(f"{name}: {value}\r\n")
    for name, line in _DEFAULTS:
        if name not in present:
            lines.append(line)
    lines.append(_ACCEPT_ENCODING)
    if body is not None:
        lines.append(f"Content-Length: {len(body)}\r\n")
    elif method in _METHODS_WITH_LENGTH:
        lines.append("Content-Length: 0\r\n")
    lines.append(extra)
    lines.append("\r\n")
    try:
        # A value that repeats one of the upstream (Digest) has its bytes, whatever their charset.
        return "".join(lines).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise InvalidInput("A header value has characters that HTTP does not allow.") from None


def _validated_name(name: str) -> str:
    lowered = name.lower()
    if not _TOKEN.fullmatch(name):
        raise InvalidInput("A header name has characters that HTTP does not allow.")
    if lowered in _RESERVED:
        raise InvalidInput(f"The header {name} belongs to the connection and cannot be set.")
    if len(_names) >= _MAX_CACHED:
        _names.clear()
    _names[name] = lowered
    return lowered


def _parse_authority(text: str) -> Authority:
    try:
        url = URL(text, encoded=True)
        host, port = url.raw_host, url.port
    except ValueError:
        host, port = None, None
    if not host or port is None or "@" in text:
        raise _invalid_url()
    bracketed_host = f"[{host}]" if ":" in host else host
    default_port = 443 if url.scheme == "https" else 80
    host_header = bracketed_host if port == default_port else f"{bracketed_host}:{port}"
    return Authority(url.scheme == "https", Address(host, port), host_header, f"{url.scheme}://{host_header}")


def _invalid_url() -> InvalidInput:
    return InvalidInput("The URL is not a usable http or https URL.")
