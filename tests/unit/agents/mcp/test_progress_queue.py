"""Notifications of progress: rising values at a bounded rate."""

import itertools
import math

from app.agents.mcp.progress_queue import INTERVAL, MAX_BURST, ProgressQueue


def taken(queue):
    return [queue.take() for _ in range(len(queue))]


def test_values_totals_and_messages_are_passed_on():
    queue = ProgressQueue()
    queue.add(0.0, 3.0, "begun", now=100.0)
    queue.add(1.5, None, None, now=100.0)
    first, second = taken(queue)
    assert first == {"progress": 0.0, "total": 3.0, "message": "begun"}
    assert second == {"progress": 1.5}


def test_a_value_that_does_not_rise_is_dropped():
    queue = ProgressQueue()
    for value in (1, 3, 2, 3, math.nan, math.inf, 5):
        queue.add(value, None, None, now=100.0)
    assert [one["progress"] for one in taken(queue)] == [1, 3, 5]


def test_a_total_that_is_no_number_is_left_out():
    queue = ProgressQueue()
    queue.add(1, math.inf, None, now=100.0)
    assert taken(queue) == [{"progress": 1}]


def test_values_rise_across_reports_that_the_call_is_still_running():
    queue = ProgressQueue()
    values = [queue.describe_still_running()["progress"], queue.describe_still_running()["progress"]]
    for value in (0, 1e-9, 0.25, 1e15):
        queue.add(value, 1, None, now=100.0)
        values.append(queue.take()["progress"])
        values.append(queue.describe_still_running()["progress"])
    assert all(a < b for a, b in itertools.pairwise(values))
    assert 0.25 in values
    assert 1e15 in values


def test_a_burst_is_sent_at_once_and_then_the_last_report_of_each_interval():
    queue = ProgressQueue()
    for value in range(1, 1001):
        queue.add(value, None, None, now=100.0)
    assert len(queue) == MAX_BURST + 1
    for value in range(1, MAX_BURST + 1):
        assert queue.seconds(100.0) == 0
        assert queue.take()["progress"] == value
    assert math.isclose(queue.seconds(100.0), INTERVAL, abs_tol=1e-6)
    assert queue.take()["progress"] == 1000
    queue.add(1001, None, None, now=100.1)
    assert queue.seconds(100.1) > 0


def test_reports_that_are_not_sent_do_not_pile_up():
    queue = ProgressQueue()
    for value in range(1, 1001):
        queue.add(value, None, None, now=100.0 + value)
    assert len(queue) == MAX_BURST + 1
    assert taken(queue)[-1]["progress"] == 1000


def test_a_long_message_is_cut_and_a_lone_surrogate_is_replaced():
    queue = ProgressQueue()
    queue.add(1, None, "\ud800" + "x" * 1000, now=100.0)
    assert queue.take()["message"] == "?" + "x" * 499
