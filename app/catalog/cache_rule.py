"""The rule by which responses of a tool are cached, from its provider's limits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How long the responses of a tool may be cached; all times in seconds."""

    seconds: float
    """Longest time for which a response is used without a request to the upstream."""
    default_seconds: float = 0.0
    """The same for a response without freshness information."""
    stale_if_error: float = 0.0
    """How much longer a stale response is used while the upstream fails (RFC 5861 section 4)."""

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, *, tool: str, safe: bool) -> Self | None:
        """Return the rule in `limits.cache` of a provider; None for a tool whose responses are not cached."""
        if not stored or not safe:
            return None
        tools = stored.get("tools")
        if tools is not None and tool not in tools:
            return None
        seconds = float(stored["seconds"])
        default_seconds = min(float(stored.get("default_seconds") or 0), seconds)
        return cls(seconds, default_seconds, float(stored.get("stale_if_error") or 0))
