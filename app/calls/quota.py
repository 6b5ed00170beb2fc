"""What a call may use: rate limits, outcomes kept under an Idempotency-Key, answers kept for a while."""

from dataclasses import dataclass

from app.calls.idempotency_store import Outcomes
from app.calls.rate_limiter import RateLimiter
from app.calls.response_cache import Answers
from app.database import Database
from app.deadlines import Timers
from app.redis_client import Cache
from app.security.vault import Vault
from app.settings import Settings

__all__ = ["Quota"]


@dataclass(slots=True)
class Quota:
    """The three of one worker. `largest` is how many bytes of an answer are kept under a key."""

    rates: RateLimiter
    outcomes: Outcomes
    answers: Answers
    largest: int

    @classmethod
    def of(
        cls, settings: Settings, *, database: Database, cache: Cache, vault: Vault, clock: Timers
    ) -> "Quota":
        """As the settings say."""
        return cls(
            rates=RateLimiter(cache, vault, workers=settings.workers),
            outcomes=Outcomes(database, vault, seconds=settings.idempotency_seconds),
            answers=Answers(clock, capacity=settings.response_cache_bytes),
            largest=settings.idempotency_bytes,
        )

    async def start(self) -> None:
        """Starts what runs in the background."""
        await self.outcomes.start()

    async def aclose(self) -> None:
        """Waits for calls whose outcome is still to be kept."""
        await self.outcomes.aclose()
