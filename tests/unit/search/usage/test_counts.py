"""The prior of tools by what was called after searches for the same stems."""

import math
from uuid import UUID, uuid4

import pytest

from app.search.usage.counts import (
    MAX_PRIORS,
    MIN_KEYS,
    SHARED_MAX,
    LabelCount,
    UsageCounts,
)

DAY = 86_400.0
REFUND, OTHER, ATTACK = (UUID(int=number) for number in (1, 2, 3))
MINE, THEIRS = b"mine", b"theirs"


class Clock:
    """A clock that is set by hand, in seconds since the epoch."""

    def __init__(self) -> None:
        self.now = 1_000 * DAY

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def confidence(labels: float) -> float:
    return labels / (labels + 0.5)


def count(
    stem: bytes,
    tool: UUID,
    key: bytes = MINE,
    labels: int = 2,
    *,
    weight: float | None = None,
    at: float = 1_000 * DAY,
) -> LabelCount:
    return LabelCount(stem, tool, key, labels if weight is None else weight, labels, at)


def model(
    clock: Clock, *counts: LabelCount, across_keys: bool = False, half_life_days: float = 30
) -> UsageCounts:
    made = UsageCounts(half_life_days=half_life_days, across_keys=across_keys, clock=clock)
    made.merge(counts)
    return made


def test_a_tool_that_was_called_after_the_same_words_has_a_prior(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND), count(b"custom", REFUND))
    assert counts.get_priors([b"refund", b"custom"], MINE) == {REFUND: pytest.approx(confidence(2))}


def test_words_that_nobody_searched_by_lower_the_prior(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND), count(b"custom", REFUND))
    known = counts.get_priors([b"refund", b"custom"], MINE)[REFUND]
    assert counts.get_priors([b"refund", b"custom", b"new"], MINE)[REFUND] == pytest.approx(known * 2 / 3)


def test_priors_rise_with_the_number_of_labels_and_stay_below_one(clock: Clock) -> None:
    found = [
        model(clock, count(b"refund", REFUND, labels=labels)).get_priors([b"refund"], MINE)[REFUND]
        for labels in (1, 2, 5, 50)
    ]
    assert found == sorted(found)
    assert 0 < found[0] < found[-1] < 1


def test_a_stem_after_which_many_tools_are_called_says_less(clock: Clock) -> None:
    tools = [uuid4() for _ in range(9)]
    common = [count(b"custom", tool) for tool in (REFUND, *tools)]
    counts = model(clock, *common, count(b"refund", REFUND))
    found = counts.get_priors([b"custom", b"refund"], MINE)
    assert found[REFUND] > 10 * found[tools[0]]


def test_a_single_label_counts_only_for_a_third_of_the_words_of_a_query(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND, labels=1))
    assert REFUND in counts.get_priors([b"refund", b"a", b"b"], MINE)
    assert REFUND not in counts.get_priors([b"refund", b"a", b"b", b"c"], MINE)


def test_labels_of_a_key_have_no_effect_on_others(clock: Clock) -> None:
    counts = model(clock, count(b"refund", ATTACK, THEIRS, labels=1_000))
    assert counts.get_priors([b"refund"], MINE) == {}
    assert list(counts.get_priors([b"refund"], THEIRS)) == [ATTACK]


def test_a_label_counts_half_after_a_half_life(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND, labels=3))
    assert counts.get_priors([b"refund"], MINE)[REFUND] == pytest.approx(confidence(3))
    clock.now += 30 * DAY
    assert counts.get_priors([b"refund"], MINE)[REFUND] == pytest.approx(confidence(1.5))


def test_old_labels_are_read_with_their_age(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND, labels=4, at=clock.now - 60 * DAY))
    assert counts.get_priors([b"refund"], MINE)[REFUND] == pytest.approx(confidence(1))


def test_a_label_that_was_read_again_replaces_the_older_count(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND, labels=2), count(b"refund", OTHER, labels=2))
    counts.merge([count(b"refund", REFUND, labels=6)])
    found = counts.get_priors([b"refund"], MINE)
    assert found[REFUND] == pytest.approx(6 / 8 * confidence(6))
    assert found[OTHER] == pytest.approx(2 / 8 * confidence(2))


def test_no_more_than_fifty_tools_have_a_prior_the_best_ones(clock: Clock) -> None:
    # Four stems, after each of which fifteen tools were called.
    tools = [UUID(int=number) for number in range(1, 61)]
    counts = model(
        clock, *(count(b"s%d" % (number % 4), tool, labels=number + 2) for number, tool in enumerate(tools))
    )
    found = counts.get_priors([b"s0", b"s1", b"s2", b"s3"], MINE)
    assert set(found) == set(tools[-MAX_PRIORS:])


@pytest.mark.parametrize("keys", [1, MIN_KEYS - 1])
def test_fewer_than_three_keys_have_no_effect_on_others(clock: Clock, keys: int) -> None:
    votes = [count(b"refund", ATTACK, b"key %d" % key, labels=10_000) for key in range(keys)]
    assert model(clock, *votes, across_keys=True).get_priors([b"refund"], MINE) == {}


def test_three_keys_have_an_effect_on_others_where_that_is_allowed(clock: Clock) -> None:
    votes = [count(b"refund", REFUND, b"key %d" % key) for key in range(MIN_KEYS)]
    assert model(clock, *votes, across_keys=False).get_priors([b"refund"], MINE) == {}
    found = model(clock, *votes, across_keys=True).get_priors([b"refund"], MINE)
    assert 0 < found[REFUND] <= SHARED_MAX


def test_the_prior_that_others_give_is_bounded_however_many_they_are(clock: Clock) -> None:
    votes = [count(b"refund", ATTACK, b"key %d" % key, weight=50.0, labels=9_999) for key in range(500)]
    assert model(clock, *votes, across_keys=True).get_priors([b"refund"], MINE) == {ATTACK: SHARED_MAX}


def test_a_key_that_floods_has_one_vote(clock: Clock) -> None:
    honest = [count(b"refund", REFUND, b"key %d" % key, labels=3) for key in range(4)]
    few = [count(b"refund", ATTACK, b"bad %d" % key, labels=3) for key in range(MIN_KEYS)]
    flood = [count(b"refund", ATTACK, b"bad %d" % key, weight=50.0, labels=10**6) for key in range(MIN_KEYS)]
    small = model(clock, *honest, *few, across_keys=True).get_priors([b"refund"], MINE)
    large = model(clock, *honest, *flood, across_keys=True).get_priors([b"refund"], MINE)
    assert large[ATTACK] < large[REFUND]
    assert large[ATTACK] <= small[ATTACK] * 1.5


def test_own_labels_count_where_those_of_others_do_not_yet(clock: Clock) -> None:
    counts = model(clock, count(b"refund", REFUND), across_keys=True)
    assert counts.get_priors([b"refund"], MINE) == {REFUND: pytest.approx(confidence(2))}
    assert counts.get_priors([b"refund"], THEIRS) == {}


@pytest.mark.parametrize("across_keys", [False, True])
def test_priors_are_numbers_from_zero_to_one(clock: Clock, across_keys: bool) -> None:
    stems = [b"s%d" % number for number in range(12)]
    counts = model(
        clock,
        *(
            count(stem, UUID(int=1 + (number * key) % 7), b"key %d" % key, labels=number % 5 + 1)
            for key in range(6)
            for number, stem in enumerate(stems)
        ),
        across_keys=across_keys,
    )
    clock.now += 4_000 * DAY
    for length in range(len(stems) + 1):
        found = counts.get_priors(stems[:length], b"key 3")
        assert all(0 <= prior <= 1 and math.isfinite(prior) for prior in found.values())
    assert counts.get_priors([], b"key 3") == {}


@pytest.mark.parametrize("half_life_days", [0.001, 0.1, 3650.0])
def test_no_age_makes_a_weight_zero_or_infinite(clock: Clock, half_life_days: float) -> None:
    counts = UsageCounts(half_life_days=half_life_days, across_keys=True, clock=clock)
    years = [count(b"refund", REFUND, key, at=clock.now - 3_650 * DAY) for key in (MINE, THEIRS, b"third")]
    counts.merge(years)
    counts.merge([count(b"later", OTHER, MINE, at=clock.now + 90 * DAY)])
    for stems in ([b"refund"], [b"later"], [b"refund", b"later"]):
        assert all(0 <= prior <= 1 for prior in counts.get_priors(stems, MINE).values())
