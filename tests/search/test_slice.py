"""The ranking by words finds no less on the public sets than what is recorded, and a defect is noticed."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.search.index import IndexedTool
from benchmarks.search.evaluation import outcome, quality
from benchmarks.search.figures import TARGETS, WORDS, losses, missed_targets, recorded
from benchmarks.search.measurement import BFCL, PublicSet, outcomes, quality_figures
from benchmarks.search.queries import Query


def without_description(tool: IndexedTool) -> IndexedTool:
    return replace(tool, description="")


def without_inputs(tool: IndexedTool) -> IndexedTool:
    return replace(tool, inputs={})


def without_name(tool: IndexedTool) -> IndexedTool:
    return replace(tool, alias="x", description=tool.description[40:])


def test_nothing_is_lost_against_the_recorded_figures(sets: list[PublicSet]) -> None:
    found = quality_figures({one.name: outcomes(one) for one in sets})
    assert losses(WORDS, found, recorded()["quality"]) == []
    assert missed_targets(WORDS, found) == []


@pytest.mark.parametrize("defect", [without_description, without_inputs, without_name])
def test_a_planted_defect_is_noticed(
    sets: list[PublicSet], defect: Callable[[IndexedTool], IndexedTool]
) -> None:
    functions = next(one for one in sets if one.name == BFCL)
    defective = replace(functions, tools=[defect(tool) for tool in functions.tools])
    assert losses(WORDS, quality_figures({BFCL: outcomes(defective)}), recorded()["quality"])


def test_a_ranking_that_finds_nothing_misses_its_targets() -> None:
    nothing = quality_figures({BFCL: [outcome(Query("a text", (frozenset({"a.tool"}),)), [])]})
    assert len(missed_targets(WORDS, nothing)) == len(TARGETS[WORDS])


def test_several_needs_are_counted_by_their_share() -> None:
    query = Query("two things", (frozenset({"a.one", "b.one"}), frozenset({"a.two"})))
    found = outcome(query, ["x.other", "b.one", "x.a", "x.b", "x.c", "a.two"])
    assert (found.recall_5, found.recall_100, found.hit_1, found.reciprocal_rank) == (0.5, 1.0, 0.0, 0.5)


def test_intervals_contain_the_mean_and_are_the_same_in_every_run() -> None:
    query = Query("a text", (frozenset({"a.tool"}),))
    some = [outcome(query, ["a.tool"] if number % 4 else []) for number in range(100)]
    found = quality(some)
    low, high = found.recall_5_interval
    assert low < found.recall_5 == 0.75 < high
    assert quality(some) == found
