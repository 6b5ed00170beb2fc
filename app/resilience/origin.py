"""One origin that calls go to, with its bulkhead, breaker and retry budget; and the registry of them.

permit = origin.enter() or await origin.wait(deadline)     a place, and the right to try
origin.answered(permit) / origin.failed(permit, verdict)   after each attempt
origin.leave(permit)                                       when the body has ended, exactly once
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from uuid import UUID
from weakref import WeakValueDictionary

from app.deadlines import Timers
from app.errors import CircuitOpen, OriginBusy
from app.resilience.breaker import Breaker, BreakerState
from app.resilience.budget import Budget
from app.resilience.bulkhead import Bulkhead
from app.resilience.policy import Policy
from app.resilience.verdicts import Verdict

BreakerListener = Callable[["Origin", BreakerState], None]


class Origin:
    """What an adapter's `origin(target)` names, for one tenant and one way out; used in one event loop.

    `providers` are the names of those whose tools lie here: labels for metrics, since an origin's text is
    chosen by whoever registers it. `busy` and `open` count the calls that were refused.
    """

    __slots__ = (
        "__weakref__", "_timers", "breaker", "budget", "bulkhead", "busy", "now", "open", "policy",
        "providers",
    )  # fmt: skip

    def __init__(self, policy: Policy, timers: Timers, *, changed: BreakerListener | None = None) -> None:
        self.policy = policy
        self.providers: set[str] = set()
        self.breaker = Breaker(
            policy, now=timers.loop.time, changed=lambda state: self._breaker_changed(state, changed)
        )
        self.bulkhead = Bulkhead(timers, most=policy.concurrency, queue=policy.queue)
        self.budget = Budget(policy.budget)
        self.busy = 0
        self.open = 0
        self.now = timers.loop.time
        self._timers = timers

    def enter(self) -> int:
        """Return a permit, never 0, where there is a place and no trouble; else 0, and `wait` says more."""
        bulkhead = self.bulkhead
        if self.breaker.shut or bulkhead.waiting or bulkhead.running >= bulkhead.most:
            return 0
        bulkhead.running += 1
        self.budget.calls += 1
        return self.breaker.epoch

    async def wait(self, deadline: float) -> int:
        """Return a permit, waited for until `deadline` (`loop.time()`) or the end of the queue's patience.

        Raises CircuitOpen at once while calls are refused, and OriginBusy where no place became free.
        """
        breaker, bulkhead = self.breaker, self.bulkhead
        if breaker.shut:
            # Nobody queues up to be the probe.
            has_permit = breaker.ripe() and bulkhead.take()
        else:
            until = min(deadline, self.now() + self.policy.queue_seconds)
            has_permit = await bulkhead.wait(until)
        if not has_permit:
            if breaker.shut:
                raise self._circuit_open()
            self.busy += 1
            raise OriginBusy(
                f"{self.policy.concurrency} calls to this upstream are under way, and none ended in time."
            )
        permit = breaker.admit()
        if not permit:
            bulkhead.leave()
            raise self._circuit_open()
        self.budget.calls += 1
        return permit

    def answered(self, permit: int) -> None:
        """An attempt was answered; what the upstream said is between it and the caller."""
        self.breaker.answered(permit)

    def begun(self, permit: int) -> None:
        """The head of an answer is here, whose body may take its time: a probe is over."""
        if self.breaker.shut:
            self.breaker.answered(permit)

    def failed(self, permit: int, verdict: Verdict) -> None:
        """An attempt that was not, or with a fault; `Verdict.ANSWERED` is as good as `answered`."""
        if verdict is Verdict.ANSWERED:
            self.breaker.answered(permit)
        else:
            self.breaker.failed(permit, verdict)

    def leave(self, permit: int) -> None:
        """The call has ended, whichever way."""
        bulkhead = self.bulkhead
        if bulkhead.waiting:
            bulkhead.leave()
        else:
            bulkhead.running -= 1
        if self.breaker.shut:
            self.breaker.give_back(permit)

    def _circuit_open(self) -> CircuitOpen:
        self.open += 1
        return CircuitOpen(
            "Calls to this upstream are paused, because it has failed repeatedly.",
            retry_after=math.ceil(self.breaker.seconds_left()),
        )

    def _breaker_changed(self, state: BreakerState, changed: BreakerListener | None) -> None:
        if state is BreakerState.OPEN:
            self.bulkhead.turn_away()
        if changed is not None:
            changed(self, state)


class Origins:
    """The origins of this worker.

    Each lives as long as a plan or a call holds it; the `capacity` that were asked for last live on, so that
    a plan compiled anew finds an open breaker open. `changed` is told each change of a breaker.
    """

    def __init__(
        self, timers: Timers, *, capacity: int = 4096, changed: BreakerListener | None = None
    ) -> None:
        self._timers = timers
        self._capacity = capacity
        self._changed = changed
        self._known: WeakValueDictionary[tuple[UUID, str, bytes, Policy], Origin] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[UUID, str, bytes, Policy], Origin] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Origin]:
        """Return all that are known: for metrics."""
        return iter(list(self._known.values()))

    def of(self, tenant: UUID, origin: str, egress: bytes, policy: Policy) -> Origin:
        """Return the one for what `Adapter.origin` gives, reached by the `EgressSettings.key` (b"" for
        directly).
        """
        key = (tenant, origin, egress, policy)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Origin(policy, self._timers, changed=self._changed)
        self._recent[key] = found
        self._recent.move_to_end(key)
        while len(self._recent) > self._capacity:
            self._recent.popitem(last=False)
        return found
