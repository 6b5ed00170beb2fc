"""Who is refused under overload, and who never is."""

import asyncio
import time

from app.server.admission import Admission


def refused(admission, calls=1000):
    return sum(admission.rejects() for _ in range(calls))


def test_nothing_is_rejected_while_all_is_well():
    admission = Admission(max_running=10, max_lag=0.05)
    admission.running = 9
    assert refused(admission) == 0


def test_more_calls_than_may_be_under_way_are_rejected():
    admission = Admission(max_running=10, max_lag=0.05)
    admission.running = 10
    assert refused(admission) == 1000
    assert admission.rejected == 1000


def test_a_single_stall_is_no_overload():
    admission = Admission(max_running=1000, max_lag=0.05)
    admission.running = 500
    for _ in range(50):
        for late in (2.0, 2.0, 0.0):
            admission.record_lag(late)
    assert refused(admission) == 0


def test_the_longer_it_lasts_the_more_are_rejected_but_never_all():
    admission = Admission(max_running=1000, max_lag=0.05)
    admission.running = 500
    shares = []
    for _ in range(10):
        for _ in range(8):
            admission.record_lag(0.1)
        shares.append(refused(admission))
    assert 100 < shares[0] < shares[3] < 990
    assert shares[-1] < 1000


def test_it_ends_when_the_loop_is_in_time_again():
    admission = Admission(max_running=1000, max_lag=0.05)
    admission.running = 500
    for _ in range(100):
        admission.record_lag(0.1)
    for _ in range(60):
        admission.record_lag(0.001)
    assert refused(admission) == 0


def test_few_calls_are_not_what_keeps_the_loop_busy():
    admission = Admission(max_running=1000, max_lag=0.05, min_running=64)
    for _ in range(100):
        admission.record_lag(1.0)
    admission.running = 63
    assert refused(admission) == 0
    admission.running = 64
    assert refused(admission) > 0


async def test_a_busy_loop_is_noticed_and_an_idle_one_too():
    admission = Admission(max_running=1000, max_lag=0.05)
    admission.start()
    try:
        for _ in range(15):
            time.sleep(0.1)  # noqa: ASYNC251 - it is to keep the loop busy.
            await asyncio.sleep(0)
        busy = admission.pressure
        assert busy > 0
        for _ in range(200):
            await asyncio.sleep(0.05)
            if admission.pressure < busy / 2:
                break
        assert admission.pressure < busy / 2
    finally:
        admission.stop()
    assert admission.pressure == 0


def test_calls_whose_key_is_being_looked_up_do_not_shut_out_others():
    admission = Admission(max_running=100, max_lag=0.05)
    admission.running = 300
    admission.unverified = lambda: 299
    for _ in range(100):
        admission.record_lag(0.5)
    assert refused(admission) == 0
    admission.unverified = lambda: 200
    assert refused(admission) == 1000
