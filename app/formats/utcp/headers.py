"""Which header names and values may be sent (RFC 9110), and which must not come from a call's arguments."""

import re
from typing import Final

from app.core.errors import FieldError, InvalidArguments

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


def forbidden_in_arguments(name: str) -> bool:
    """Return whether arguments must not set the header: framing, identity, and what proxies assert."""
    lower = name.lower()
    return lower in _FRAMING or lower in _IDENTITY or lower.startswith(_PREFIXES)


def forbidden_in_credentials(name: str) -> bool:
    """Return whether not even a stored credential may set the header."""
    return name.lower() in _FRAMING


def check_header_value(text: str, *, at: str) -> str:
    """Return the text if it may be a field value; raise InvalidArguments where it is not printable ASCII.

    RFC 9110 section 5.5: senders use ASCII only, because recipients may read another byte as Latin-1 or as
    UTF-8. Our HTTP client writes UTF-8 only, and few upstreams expect that; how they would read a
    percent-encoded character is unknown. So other text is rejected rather than sent in a wrong encoding.
    """
    if text.isascii() and text.isprintable():
        return text
    raise InvalidArguments(
        "A header value contains characters that HTTP cannot carry",
        errors=[
            FieldError(at, "Use printable ASCII characters only; no line breaks or other control characters.")
        ],
    )
