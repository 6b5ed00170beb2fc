"""What a provider's limits say about repeating a tool's calls: how often, from memory, under which key."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class CacheRule:
    """How a tool's answers may be kept; times in seconds."""

    seconds: float
    """Longest time for which an answer is used without asking the upstream."""
    assumed: float = 0.0
    """The same where the upstream says nothing."""
    stale_if_error: float = 0.0
    """How much longer it is used while the upstream fails."""

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None, *, tool: str, safe: bool) -> Self | None:
        """From `limits.cache` of the provider; None for a tool whose answers are not kept."""
        if not stored or not safe:
            return None
        tools = stored.get("tools")
        if tools is not None and tool not in tools:
            return None
        seconds = float(stored["seconds"])
        assumed = min(float(stored.get("assumed") or 0), seconds)
        return cls(seconds, assumed, float(stored.get("stale_if_error") or 0))
