"""One origin of calls, with its bulkhead, circuit breaker and retry budget; and the registry of origins.

permit = origin.try_acquire() or await origin.acquire(deadline)            before the first attempt
origin.record_success(permit) / origin.record_failure(permit, outcome)     after each attempt
origin.release(permit)                                                     after the body, exactly once
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from uuid import UUID
from weakref import WeakValueDictionary

from app.core.deadlines import TimerQueue
from app.core.errors import CircuitOpen, OriginBusy
from app.outbound.resilience.breaker import BreakerState, CircuitBreaker
from app.outbound.resilience.budget import RetryBudget
from app.outbound.resilience.bulkhead import Bulkhead
from app.outbound.resilience.outcomes import AttemptOutcome
from app.outbound.resilience.policy import OriginPolicy

BreakerListener = Callable[["Origin", BreakerState], None]


class Origin:
    """The origin that an adapter's `origin(target)` names, for one tenant and one egress route.

    It is not thread-safe: use it in one event loop.

    `providers` are the names of the providers whose tools are at this origin: labels for metrics, since an
    origin's text is chosen by whoever registers it. `rejected_busy` and `rejected_open` count the calls that
    were rejected because no permit became free, and because the breaker was open.
    """

    __slots__ = (
        "__weakref__",
        "_timers",
        "breaker",
        "budget",
        "bulkhead",
        "now",
        "policy",
        "providers",
        "rejected_busy",
        "rejected_open",
    )  # fmt: skip

    def __init__(
        self, policy: OriginPolicy, timers: TimerQueue, *, on_breaker_change: BreakerListener | None = None
    ) -> None:
        self.policy = policy
        self.providers: set[str] = set()
        self.breaker = CircuitBreaker(
            policy,
            now=timers.loop.time,
            on_change=lambda state: self._breaker_changed(state, on_breaker_change),
        )
        self.bulkhead = Bulkhead(timers, max_running=policy.concurrency, max_waiting=policy.max_queued)
        self.budget = RetryBudget(policy.retry_budget)
        self.rejected_busy = 0
        self.rejected_open = 0
        self.now = timers.loop.time
        self._timers = timers

    def try_acquire(self) -> int:
        """Return a permit, which is never 0, if one is free at once and the breaker is closed; else 0."""
        bulkhead = self.bulkhead
        if self.breaker.is_tripped or bulkhead.waiting or bulkhead.running >= bulkhead.max_running:
            return 0
        bulkhead.running += 1
        self.budget.calls += 1
        return self.breaker.epoch

    async def acquire(self, deadline: float) -> int:
        """Return a permit, waiting for one until `deadline` (`loop.time()`) or the timeout of the queue.

        Raise CircuitOpen at once while the breaker is open, and OriginBusy where no permit became free.
        """
        breaker, bulkhead = self.breaker, self.bulkhead
        if breaker.is_tripped:
            # Calls do not queue to be the probe.
            has_permit = breaker.can_probe() and bulkhead.try_acquire()
        else:
            until = min(deadline, self.now() + self.policy.queue_timeout)
            has_permit = await bulkhead.acquire(until)
        if not has_permit:
            if breaker.is_tripped:
                raise self._circuit_open()
            self.rejected_busy += 1
            raise OriginBusy(
                f"{self.policy.concurrency} calls to this upstream are in progress, and none ended in time."
            )
        permit = breaker.admit()
        if not permit:
            bulkhead.release()
            raise self._circuit_open()
        self.budget.calls += 1
        return permit

    def record_success(self, permit: int) -> None:
        """Record an attempt with a response; a 4xx counts as a success here."""
        self.breaker.record_success(permit)

    def record_response_head(self, permit: int) -> None:
        """Record that a response has begun: a probe is complete, though the body may take long."""
        if self.breaker.is_tripped:
            self.breaker.record_success(permit)

    def record_failure(self, permit: int, outcome: AttemptOutcome) -> None:
        """Record an attempt by its outcome: a failure, a server error, or a response as with a success."""
        if outcome is AttemptOutcome.RESPONDED:
            self.breaker.record_success(permit)
        else:
            self.breaker.record_failure(permit, outcome)

    def release(self, permit: int) -> None:
        """Release the permit of a call that has ended, whatever its outcome."""
        bulkhead = self.bulkhead
        if bulkhead.waiting:
            bulkhead.release()
        else:
            bulkhead.running -= 1
        if self.breaker.is_tripped:
            self.breaker.release(permit)

    def _circuit_open(self) -> CircuitOpen:
        self.rejected_open += 1
        return CircuitOpen(
            "Calls to this upstream are paused, because it has failed repeatedly.",
            retry_after=math.ceil(self.breaker.retry_after()),
        )

    def _breaker_changed(self, state: BreakerState, changed: BreakerListener | None) -> None:
        if state is BreakerState.OPEN:
            self.bulkhead.reject_waiting()
        if changed is not None:
            changed(self, state)


class Origins:
    """The origins of this worker.

    Each is held as long as a plan or a call refers to it; the `capacity` most recently used ones are held
    longer, so that a recompiled plan finds its open breaker. `on_breaker_change` is called at each change of
    a breaker.
    """

    def __init__(
        self, timers: TimerQueue, *, capacity: int = 4096, on_breaker_change: BreakerListener | None = None
    ) -> None:
        self._timers = timers
        self._capacity = capacity
        self._changed = on_breaker_change
        self._known: WeakValueDictionary[tuple[UUID, str, bytes, OriginPolicy], Origin] = (
            WeakValueDictionary()
        )
        self._recent: OrderedDict[tuple[UUID, str, bytes, OriginPolicy], Origin] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Origin]:
        """Return an iterator over all origins, for metrics."""
        return iter(list(self._known.values()))

    def of_providers(self, names: Collection[str]) -> list[tuple[str, Origin]]:
        """Return the origins of providers that this worker has called or compiled tools of, with their texts,
        sorted by these.
        """
        found = [(key[1], one) for key, one in self._known.items() if not one.providers.isdisjoint(names)]
        return sorted(found, key=lambda pair: pair[0])

    def tripped_providers(self) -> frozenset[str]:
        """Return the names of the providers of origins whose breaker is not closed."""
        return frozenset().union(*(one.providers for one in self if one.breaker.is_tripped))

    def reset(self, tenant: UUID, origin: str) -> None:
        """Reset the breakers of an origin, whatever its egress route and policy."""
        for key, found in list(self._known.items()):
            if key[:2] == (tenant, origin):
                found.breaker.reset()

    def get(self, tenant: UUID, origin: str, egress: bytes, policy: OriginPolicy) -> Origin:
        """Return the origin for the text of `Adapter.origin`; create it at first use.

        `egress` is the `EgressSettings.key` of its egress route, b"" for a direct connection.
        """
        key = (tenant, origin, egress, policy)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Origin(policy, self._timers, on_breaker_change=self._changed)
        self._recent[key] = found
        self._recent.move_to_end(key)
        while len(self._recent) > self._capacity:
            self._recent.popitem(last=False)
        return found
