"""The breaker against a model that knows only the rules."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from app.outbound.resilience import AttemptOutcome, BreakerState, CircuitBreaker, OriginPolicy
from tests.harness.examples import examples

POLICY = OriginPolicy(
    failure_threshold=3, failure_ratio=0.5, min_calls=10, window_seconds=10, open_seconds=5, open_max=40
)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def turns():
    return []


@pytest.fixture
def breaker(clock, turns):
    return CircuitBreaker(POLICY, now=clock, on_change=turns.append)


def fail(breaker, times=1, outcome=AttemptOutcome.FAILURE):
    for _ in range(times):
        breaker.record_failure(breaker.epoch, outcome)


def test_failures_in_a_row_open_it_and_one_response_between_them_does_not(breaker):
    fail(breaker, 2)
    breaker.record_success(breaker.epoch)
    fail(breaker, 2)
    assert breaker.state is BreakerState.CLOSED
    fail(breaker)
    assert breaker.state is BreakerState.OPEN
    assert breaker.admit() == 0


def test_a_share_of_failures_opens_it(breaker):
    for _ in range(5):
        breaker.record_success(breaker.epoch)
    for _ in range(4):
        fail(breaker)
        breaker.record_success(breaker.epoch)
    assert breaker.state is BreakerState.CLOSED
    for _ in range(2):
        fail(breaker)
        breaker.record_success(breaker.epoch)
    assert breaker.state is BreakerState.OPEN


def test_the_share_is_one_of_a_window(breaker, clock):
    for _ in range(30):
        fail(breaker)
        clock.now += 2.6
        breaker.record_success(breaker.epoch)
    # At most four calls of each kind fall into ten seconds.
    assert breaker.state is BreakerState.CLOSED


def test_faults_open_it_by_their_share_only(breaker):
    fail(breaker, 9, AttemptOutcome.SERVER_ERROR)
    assert breaker.state is BreakerState.CLOSED
    fail(breaker, 1, AttemptOutcome.SERVER_ERROR)
    assert breaker.state is BreakerState.OPEN


def test_one_probe_passes_and_its_response_closes_it(breaker, clock, turns):
    fail(breaker, 3)
    clock.now += 5 * 1.21
    probe = breaker.admit()
    assert probe
    assert breaker.state is BreakerState.HALF_OPEN
    assert [breaker.admit() for _ in range(3)] == [0, 0, 0]
    breaker.record_success(probe)
    assert breaker.state is BreakerState.CLOSED
    assert breaker.admit()
    assert turns == [BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED]


def test_a_probe_that_ends_without_a_verdict_lets_the_next_one_try(breaker, clock):
    fail(breaker, 3)
    clock.now += 6.1
    breaker.release(breaker.admit())
    assert breaker.state is BreakerState.OPEN
    assert breaker.admit()


def test_each_pause_is_twice_as_long_up_to_the_longest(breaker, clock):
    pauses = []
    fail(breaker, 3)
    for _ in range(6):
        pauses.append(breaker.retry_after())
        clock.now += pauses[-1]
        breaker.record_failure(breaker.admit(), AttemptOutcome.FAILURE)
    for pause, expected in zip(pauses, [5, 10, 20, 40, 40, 40], strict=True):
        assert expected * 0.79 < pause < expected * 1.21


def test_an_upstream_that_worked_for_long_is_paused_shortly_again(breaker, clock):
    fail(breaker, 3)
    for _ in range(3):
        clock.now += 60
        breaker.record_failure(breaker.admit(), AttemptOutcome.FAILURE)
    clock.now += 60
    breaker.record_success(breaker.admit())
    fail(breaker, 3)
    assert breaker.retry_after() > 30
    clock.now += 60
    breaker.record_success(breaker.admit())
    clock.now += 41
    fail(breaker, 3)
    assert breaker.retry_after() < 7


def test_none_failures_turn_it_off(clock):
    breaker = CircuitBreaker(OriginPolicy(failure_threshold=0), now=clock)
    fail(breaker, 1000)
    assert breaker.state is BreakerState.CLOSED


class BreakerRules(RuleBasedStateMachine):
    """Calls that begin, end in any order and with any outcome, while time passes."""

    calls = Bundle("calls")

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.breaker = CircuitBreaker(POLICY, now=self.clock, on_change=self._turned)
        self.turns = [BreakerState.CLOSED]
        self.probes = 0

    def _turned(self, state):
        self.turns.append(state)

    @rule(target=calls)
    def begin(self):
        was = self.breaker.state
        permit = self.breaker.admit()
        if was is BreakerState.CLOSED:
            assert permit
        elif permit:
            assert was is BreakerState.OPEN
            assert self.breaker.state is BreakerState.HALF_OPEN
            assert self.clock.now >= self.opened + POLICY.open_seconds * 0.8
        return permit

    @rule(permit=consumes(calls), outcome=st.sampled_from([*AttemptOutcome, None]))
    def end(self, permit, outcome):
        if not permit:
            return
        was, current = self.breaker.state, permit == self.breaker.epoch
        if outcome is AttemptOutcome.RESPONDED:
            self.breaker.record_success(permit)
        elif outcome is not None:
            self.breaker.record_failure(permit, outcome)
        if not current:
            assert self.breaker.state is was, "what began before a change says nothing after it"
        elif was is BreakerState.HALF_OPEN and outcome is not None:
            expected = BreakerState.CLOSED if outcome is AttemptOutcome.RESPONDED else BreakerState.OPEN
            assert self.breaker.state is expected
        if self.breaker.is_tripped:
            self.breaker.release(permit)
        if self.breaker.state is BreakerState.OPEN and was is not BreakerState.OPEN:
            self.opened = self.clock.now if outcome is not None else self.opened

    @rule(seconds=st.sampled_from([0.5, 3, 6, 50]))
    def pass_time(self, seconds):
        self.clock.now += seconds

    @invariant()
    def it_can_always_be_recovered(self):
        assert self.breaker.retry_after() <= POLICY.open_max * 1.2

    @invariant()
    def states_follow_each_other(self):
        allowed = {("closed", "open"), ("open", "half_open"), ("half_open", "open"), ("half_open", "closed")}
        assert set(zip(self.turns, self.turns[1:], strict=False)) <= allowed

    @precondition(lambda self: self.breaker.state is BreakerState.OPEN)
    @rule()
    def the_upstream_recovers(self):
        self.clock.now += POLICY.open_max * 1.2
        self.breaker.record_success(self.breaker.admit())
        assert self.breaker.state is BreakerState.CLOSED


TestBreakerRules = BreakerRules.TestCase
TestBreakerRules.settings = settings(examples(40), stateful_step_count=40)


def test_a_reset_closes_it_and_forgets_its_failures(breaker):
    fail(breaker, 5)
    assert breaker.is_tripped
    breaker.reset()
    assert breaker.state is BreakerState.CLOSED
    fail(breaker)
    assert not breaker.is_tripped
