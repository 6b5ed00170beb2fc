"""The headers of cross-origin requests of web pages (Fetch standard, "CORS protocol")."""

import re
from typing import Final

ALLOWED_HEADERS: Final = (
    "Authorization", "Cache-Control", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match",
    "Last-Event-ID", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "Prefer",
    "X-API-Key", "X-Call-Interface", "X-Recording-Run", "X-Timeout-Ms",
)  # fmt: skip
"""What pages may send, beside the headers that every page may."""
EXPOSED_HEADERS: Final = (
    "Age", "Deprecation", "ETag", "Idempotency-Replayed", "Link", "Location",
    "Preference-Applied", "RateLimit",
    "Mcp-Session-Id", "RateLimit-Limit", "RateLimit-Policy", "RateLimit-Remaining", "RateLimit-Reset",
    "Retry-After", "Sunset", "WWW-Authenticate", "X-Cache",
    "X-Argument-Repairs", "X-Call-Id", "X-Call-Source", "X-Continuation", "X-Error-Source", "X-Pages",
    "X-Recording", "X-Recording-Warning",
    "X-Response-Violations", "X-Result-Notes", "X-Upstream-Status",
)  # fmt: skip
"""What pages may read."""
_PARAMETER: Final = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,100}")


def parameter_headers(requested: str) -> list[str]:
    """Return the headers `Mcp-Param-*` that a preflight request names, in lower case.

    The tools decide what these are called (`x-mcp-header`), so no list can have them. They only repeat
    arguments, with which they are compared, so allowing them allows nothing else.
    """
    names = {one.strip() for one in requested.lower().split(",")}
    return sorted(name for name in names if _PARAMETER.fullmatch(name))
