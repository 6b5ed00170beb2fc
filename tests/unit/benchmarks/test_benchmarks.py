"""`make bench` and `make scale` still run: tiny numbers, no figures."""

import subprocess
import sys

import pytest

from benchmarks import startup
from benchmarks.population import manual, population
from benchmarks.scale import Report
from benchmarks.venvs import Environment, NotInstalled


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=240, check=False
    )


@pytest.mark.long
def test_the_table_of_calls_has_a_line_for_each_row():
    done = run(
        "benchmarks", "--calls", "20", "--warm-up", "5", "--rounds", "1", "--seconds", "0.2",
        "--only", "bare", "limits", "executors",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "left out" not in done.stderr
    for row in ("bare Starlette", "rate limit", "Idempotency-Key", "POST /ubp/commands", "second worker"):
        assert row in done.stdout


def test_a_row_that_cannot_run_is_left_out_by_name():
    with pytest.raises(NotInstalled, match=r"Python 3\.90"):
        Environment("none", ("nothing",), probe="raise SystemExit(1)", at_least=90).python()


@pytest.mark.long
def test_the_table_of_scale_has_figures_and_targets():
    done = run(
        "benchmarks.scale", "--tools", "60", "--providers", "2", "--manual-tools", "20", "--operations", "20",
        "--times", "3",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for row in ("/tools/search, 60 tools: p50", "304, CPU", "start with 60 tools", "manual of 20 tools"):
        assert row in done.stdout


def test_a_figure_beyond_its_target_is_missed():
    report = Report()
    report.add("small", 1.0, "ms", 2.0)
    report.add("large", 3.0, "ms", 2.0)
    report.add("told only", 9.0, "ms")
    assert report.missed() == ["large"]


def test_a_ratio_beyond_its_target_is_missed():
    report = startup.Report()
    report.add("python -c pass", [0.1, 0.1], None)
    report.add_ratio("small", [1.0, 3.0, 2.0], [1.0, 1.0, 9.0], 2.0)
    report.add_ratio("large", [3.0], [1.0], 2.0)
    assert report.missed() == ["large"]


def test_the_population_is_the_same_in_every_run():
    assert population(50, server="http://a", seed=3) == population(50, server="http://a", seed=3)
    assert population(50, server="http://a", seed=3) != population(50, server="http://a", seed=4)
    assert manual(2, server="http://a").count(b'"tool_call_template"') == 2
