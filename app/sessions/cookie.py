"""The cookie of a session (placeholder)."""

from typing import Any


def read_cookie(scope: Any, settings: Any) -> str | None:
    """Return the text of the session in a request's cookies, None without one."""
    return None
