"""The head of a request: what is in a URL, and the lines that go out (RFC 9112 sections 3 and 5)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from yarl import URL

from app.errors import InvalidInput
from app.outbound.http1.decoding import ACCEPTED
from app.outbound.http1.dialing import Place

_URL: Final = re.compile(r"(https?://[!-.0->@-\[\]-~]+)([!-\[\]-~]*)", re.IGNORECASE)
# RFC 9110 section 5.6.2.
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# RFC 9110 section 5.5: besides the tab, no control character, or a value would end its line.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_USUAL: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
_WITH_LENGTH: Final = frozenset({"POST", "PUT", "PATCH"})
# RFC 9110 sections 7.6.1 and 10.1.1: these belong to the connection, which is the engine's.
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
_MOST_REMEMBERED: Final = 4096
_ACCEPT_ENCODING: Final = f"Accept-Encoding: {ACCEPTED}\r\n"
_DEFAULTS: Final = (
    ("accept", "Accept: */*\r\n"),
    ("user-agent", f"User-Agent: utcp-gateway/{version('utcp-gateway')}\r\n"),
)


@dataclass(frozen=True, slots=True)
class Authority:
    """What stands before the path of a URL. `host_line` is the value of Host, `text` the whole of it."""

    tls: bool
    place: Place
    host_line: str
    text: str


_authorities: dict[str, Authority] = {}
_names: dict[str, str] = {}


def split(url: str) -> tuple[Authority, str]:
    """A URL's authority and its path with the query, byte for byte; raises InvalidInput."""
    found = _URL.fullmatch(url)
    if found is None:
        raise _no_url()
    text, target = found[1], found[2].partition("#")[0]
    authority = _authorities.get(text)
    if authority is None:
        if len(_authorities) >= _MOST_REMEMBERED:
            _authorities.clear()
        authority = _authorities[text] = _read(text)
    if not target.startswith("/"):
        target = "/" + target
    return authority, target


def checked_method(method: str) -> str:
    """The method in upper case; raises InvalidInput for what is no token."""
    method = method.upper()
    if method not in _USUAL and not _TOKEN.fullmatch(method):
        raise InvalidInput("The method holds characters that HTTP does not allow.")
    return method


def encode(
    method: str,
    target: str,
    authority: Authority,
    headers: Sequence[tuple[str, str]],
    body: bytes | None,
    *,
    extra: str = "",
) -> bytes:
    """The head of a request, its empty line included; raises InvalidInput for a header that may not be.

    Headers go out as UTF-8. No content type is made up. `extra` are whole lines of the engine's own.
    """
    lines = [f"{method} {target} HTTP/1.1\r\nHost: {authority.host_line}\r\n"]
    present = set()
    for name, value in headers:
        lowered = _names.get(name) or _checked_name(name)
        if _CONTROL.search(value):
            raise InvalidInput("A header's value holds characters that HTTP does not allow.")
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
    elif method in _WITH_LENGTH:
        lines.append("Content-Length: 0\r\n")
    lines.append(extra)
    lines.append("\r\n")
    try:
        return "".join(lines).encode()
    except UnicodeEncodeError:
        raise InvalidInput("A header's value holds characters that HTTP does not allow.") from None


def _checked_name(name: str) -> str:
    lowered = name.lower()
    if not _TOKEN.fullmatch(name):
        raise InvalidInput("A header name holds characters that HTTP does not allow.")
    if lowered in _RESERVED:
        raise InvalidInput(f"The header {name} belongs to the connection and cannot be set.")
    if len(_names) >= _MOST_REMEMBERED:
        _names.clear()
    _names[name] = lowered
    return lowered


def _read(text: str) -> Authority:
    try:
        url = URL(text, encoded=True)
        host, port = url.raw_host, url.port
    except ValueError:
        host, port = None, None
    if not host or port is None or "@" in text:
        raise _no_url()
    shown = f"[{host}]" if ":" in host else host
    usual = 443 if url.scheme == "https" else 80
    host_line = shown if port == usual else f"{shown}:{port}"
    return Authority(url.scheme == "https", Place(host, port), host_line, f"{url.scheme}://{host_line}")


def _no_url() -> InvalidInput:
    return InvalidInput("The URL is not a usable http or https URL.")
