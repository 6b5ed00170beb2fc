"""The rate limit of a key or a provider: the value that the rate limiter enforces."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

MAX_REQUESTS = 1_000_000
"""The maximum number of requests, and the maximum burst."""
MAX_PERIOD_SECONDS = 86_400
_TEXT = re.compile(r"(\d{1,7})/(\d{1,5})(?::(\d{1,7}))?")


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`requests` per `per_seconds`, spread evenly, of which `burst` may be made at once."""

    requests: int
    per_seconds: int
    burst: int
    is_own: bool = True
    """False where it is the gateway's default and not the key's own."""

    @classmethod
    def from_stored(cls, stored: Mapping[str, Any] | None) -> Self | None:
        """Return the limit from its stored form `{"requests", "per_seconds", "burst"?}`, None for no value.

        Without a burst, all requests may be made at once.
        """
        if not stored:
            return None
        requests = int(stored["requests"])
        return cls(requests, int(stored["per_seconds"]), int(stored.get("burst") or requests))

    @classmethod
    def parse(cls, text: str, *, is_own: bool = True) -> Self:
        """Return the limit from the text `REQUESTS/SECONDS` or `REQUESTS/SECONDS:BURST`; else raise
        ValueError.
        """
        match = _TEXT.fullmatch(text.strip())
        numbers = [int(number) for number in match.groups() if number] if match else []
        if not numbers or not all(numbers) or max(numbers) > MAX_REQUESTS or numbers[1] > MAX_PERIOD_SECONDS:
            msg = "must be REQUESTS/SECONDS or REQUESTS/SECONDS:BURST, e.g. 600/60 or 600/60:50"
            raise ValueError(msg)
        return cls(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else numbers[0], is_own)

    def to_stored(self) -> dict[str, int]:
        """Return the form that is stored and shown: `{"requests", "per_seconds", "burst"}`."""
        return {"requests": self.requests, "per_seconds": self.per_seconds, "burst": self.burst}

    def covers(self, other: "RateLimit | None") -> bool:
        """Return whether another limit allows no more than this one in any period; False for no limit."""
        if other is None:
            return False
        slower = other.requests * self.per_seconds <= self.requests * other.per_seconds
        return slower and other.burst <= self.burst
