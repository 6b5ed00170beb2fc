"""Which header names and values may be sent (RFC 9110), and which never come from a caller's arguments."""

import re
from typing import Final

from app.errors import Fault, InvalidArguments

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")

# The connection and the request's framing belong to the HTTP client.
_FRAMING: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "te",
        "connection",
        "upgrade",
        "keep-alive",
        "trailer",
        "expect",
    }
)
_IDENTITY: Final = frozenset({"cookie", "authorization", "forwarded", "x-real-ip"})
_PREFIXES: Final = ("proxy-", "x-forwarded-")


def never_from_arguments(name: str) -> bool:
    """True for names that a caller must not set: framing, identity, and what proxies vouch for."""
    lower = name.lower()
    return lower in _FRAMING or lower in _IDENTITY or lower.startswith(_PREFIXES)


def never_set_by_credentials(name: str) -> bool:
    """True for names that not even a stored credential sets."""
    return name.lower() in _FRAMING


def header_value(text: str, *, at: str) -> str:
    """The text if it may be a field value. Raises InvalidArguments for what is not printable ASCII.

    RFC 9110 section 5.5: senders keep to ASCII, because whoever reads another byte may take it for Latin-1 or
    for UTF-8. Our HTTP client writes UTF-8 only, and few upstreams expect that; what they would make of a
    percent-encoded character is unknown. So it is refused rather than sent wrong.
    """
    if text.isascii() and text.isprintable():
        return text
    raise InvalidArguments(
        "A header value holds characters that HTTP cannot carry",
        errors=[
            Fault(at, "Use printable ASCII characters only; no line breaks or other control characters.")
        ],
    )
