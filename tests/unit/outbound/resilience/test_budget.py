"""The budget holds from the first call on, and nothing is hoarded."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import (
    ResponseTooLarge,
    UpstreamErrorResponse,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.resilience import AttemptOutcome, RetryBudget, classify_error
from tests.harness.cases import for_each


@given(st.lists(st.integers(0, 20), min_size=1, max_size=200), st.sampled_from([0.0, 0.05, 0.1, 0.5]))
def test_retries_are_a_share_of_the_calls(batches, share):
    budget = RetryBudget(share)
    spent = 0
    for calls in batches:
        budget.calls += calls
        for _ in range(calls * 2):
            spent += budget.try_spend()
        assert spent <= max(1.0 if share else 0.0, share * budget.calls + 1e-6)
    assert spent == budget.spent


def test_every_call_that_fails_is_offered_a_tenth_of_the_retries():
    budget = RetryBudget(0.1)
    spent = 0
    for _ in range(1000):
        budget.calls += 1
        spent += budget.try_spend()
    assert 98 <= spent <= 100


def test_good_times_save_up_ten_retries_at_most():
    budget = RetryBudget(0.1)
    budget.calls = 1_000_000
    assert sum(budget.try_spend() for _ in range(50)) <= 11


def rejected(status):
    return UpstreamRejected(response=UpstreamErrorResponse(status))


@for_each(
    ("error", "outcome"),
    [
        (UpstreamTimeout(), AttemptOutcome.FAILURE),
        (UpstreamUnreachable(), AttemptOutcome.FAILURE),
        (rejected(502), AttemptOutcome.FAILURE),
        (rejected(503), AttemptOutcome.FAILURE),
        (rejected(504), AttemptOutcome.FAILURE),
        (rejected(500), AttemptOutcome.SERVER_ERROR),
        (rejected(501), AttemptOutcome.SERVER_ERROR),
        (UpstreamMalformed(), AttemptOutcome.SERVER_ERROR),
        (rejected(400), AttemptOutcome.RESPONDED),
        (rejected(429), AttemptOutcome.RESPONDED),
        (rejected(302), AttemptOutcome.RESPONDED),
        (UpstreamUnauthorized(response=UpstreamErrorResponse(401)), AttemptOutcome.RESPONDED),
        (ResponseTooLarge(), AttemptOutcome.RESPONDED),
    ],
)
def test_what_an_error_says_about_its_upstream(error, outcome):
    assert classify_error(error) is outcome
