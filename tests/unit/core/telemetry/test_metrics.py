"""The figures that `/metrics` shows, of one worker and of several."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.core.telemetry import families as of
from app.core.telemetry.families import SECONDS, list_families
from app.core.telemetry.metrics import Metrics
from app.core.telemetry.worker_metrics import MergedSamples, MetricsFolder
from tests.harness.cases import for_each


async def _text(metrics: Metrics) -> str:
    return (await metrics.render())[0].decode()


def _value(text: str, series: str) -> float:
    """The value of one series, written as Prometheus does."""
    found = [line.rpartition(" ")[2] for line in text.splitlines() if line.rpartition(" ")[0] == series]
    assert len(found) == 1, (series, found)
    return float(found[0])


async def test_requests_are_counted_by_route_method_and_status():
    metrics = Metrics()
    metrics.observe_request("/tools/{name}", "GET", 200, 0.002)
    metrics.observe_request("/tools/{name}", "GET", 200, 0.002)
    metrics.observe_request("/tools/{name}", "GET", 404, 0.002)
    text = await _text(metrics)
    assert 'utcp_gateway_requests_total{method="GET",route="/tools/{name}",status="200"} 2.0' in text
    assert 'utcp_gateway_requests_total{method="GET",route="/tools/{name}",status="404"} 1.0' in text
    assert 'utcp_gateway_request_duration_seconds_count{method="GET",route="/tools/{name}"} 3.0' in text
    assert 'le="0.001",method="GET",route="/tools/{name}"} 0.0' in text
    assert 'le="0.0025",method="GET",route="/tools/{name}"} 3.0' in text
    assert 'le="+Inf",method="GET",route="/tools/{name}"} 3.0' in text


@for_each("bound", SECONDS)
async def test_a_bucket_holds_what_is_no_longer_than_its_bound(bound):
    metrics = Metrics()
    metrics.observe_call("p", "ok", bound)
    metrics.observe_call("p", "ok", bound * 1.001)
    text = await _text(metrics)
    assert f'utcp_gateway_call_duration_seconds_bucket{{le="{bound}",provider="p"}} 1.0' in text
    assert 'utcp_gateway_call_duration_seconds_bucket{le="+Inf",provider="p"} 2.0' in text


async def test_methods_that_clients_invent_share_one_label():
    metrics = Metrics()
    for number in range(50):
        metrics.observe_request("(none)", f"METHOD{number}", 405, 0.001)
    text = await _text(metrics)
    assert "METHOD" not in text
    assert 'method="other",route="(none)",status="405"} 50.0' in text


async def test_calls_are_counted_by_provider_and_outcome_and_so_is_their_upstream():
    metrics = Metrics()
    metrics.observe_call("library", "ok", 0.2, 0.125, 1)
    metrics.observe_call("library", "upstream-timeout", 30, 29.5, 3)
    text = await _text(metrics)
    assert 'utcp_gateway_calls_total{outcome="ok",provider="library"} 1.0' in text
    assert 'utcp_gateway_calls_total{outcome="upstream-timeout",provider="library"} 1.0' in text
    assert 'utcp_gateway_call_duration_seconds_count{provider="library"} 2.0' in text
    assert 'utcp_gateway_upstream_seconds_total{provider="library"} 29.625' in text
    assert 'utcp_gateway_upstream_attempts_total{provider="library"} 4.0' in text


async def test_beyond_a_thousand_providers_share_one_series():
    metrics = Metrics()
    for number in range(1_200):
        metrics.observe_call(f"provider{number}", "ok", 0.01)
    text = await _text(metrics)
    assert 'calls_total{outcome="ok",provider="provider999"} 1.0' in text
    assert 'calls_total{outcome="ok",provider="other"} 200.0' in text
    assert "provider1000" not in text
    assert _value(text, "utcp_gateway_series_overflow_total") == 200


async def test_two_gateways_in_one_process_do_not_share_figures():
    first, second = Metrics(), Metrics()
    first.observe_call("library", "ok", 0.01)
    assert "library" not in await _text(second)


async def test_collectors_are_read_when_metrics_are_requested():
    metrics = Metrics()
    lost = [3]
    metrics.add_source(lambda: [(of.RECORDS_DROPPED, (), lost[0])])
    assert _value(await _text(metrics), "utcp_gateway_call_records_dropped_total") == 3
    lost[0] = 5
    assert _value(await _text(metrics), "utcp_gateway_call_records_dropped_total") == 5


async def test_failing_source_does_not_hide_the_others():
    metrics = Metrics()
    metrics.add_source(lambda: 1 / 0)
    metrics.add_source(lambda: [(of.PLAN_CACHE_ENTRIES, (), 7)])
    with capture_logs() as logs:
        assert _value(await _text(metrics), "utcp_gateway_plan_cache_entries") == 7
    assert any("a source of metrics raised an error" in one["event"] for one in logs)


async def test_the_process_and_the_version_are_shown():
    text = await _text(Metrics())
    assert re.search(r'utcp_gateway_build_info\{python="3\.\d+\.\d+",version="[0-9.]+"\} 1\.0', text)
    assert _value(text, 'process_resident_memory_bytes{worker="0"}') > 1e6
    assert _value(text, 'process_open_fds{worker="0"}') >= 3
    assert _value(text, 'process_cpu_seconds_total{worker="0"}') > 0


async def test_every_family_is_named_and_helped_and_follows_the_conventions():
    text = await _text(Metrics())
    for known in list_families():
        shown = f"{known.name}_total" if known.kind == "counter" else known.name
        assert f"# TYPE {shown} {known.kind}\n" in text
        assert known.description
        assert not known.name.endswith("_total")
        assert re.fullmatch(r"(utcp_gateway|process)_[a-z_]+", known.name)
        assert "milli" not in known.name


_WORKER = """
import asyncio, sys
from app.core.telemetry import families as of
from app.core.telemetry.metrics import Metrics
metrics = Metrics()
metrics.add_source(lambda: [(of.FEED_POSITION, (), int(sys.argv[1])), (of.FEED_LAG, (), int(sys.argv[1]))])
metrics.start()
for line in sys.stdin:
    word = line.strip()
    if word == "call":
        metrics.observe_call("library", "ok", 0.01)
    elif word == "enter":
        metrics.calls_in_flight += 1
    elif word == "publish":
        metrics.publish()
    elif word == "show":
        sys.stdout.write(asyncio.run(metrics.render())[0].decode() + "# EOF\\n")
        sys.stdout.flush()
        continue
    sys.stdout.write("done\\n")
    sys.stdout.flush()
metrics.aclose()
"""


class Worker:
    """Another process with figures of its own, told what to do line by line."""

    def __init__(self, folder: Path, number: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(number)],
            env=os.environ | {"PROMETHEUS_MULTIPROC_DIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, *words: str) -> None:
        for word in words:
            self.process.stdin.write(word + "\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n"

    def show(self) -> str:
        self.process.stdin.write("show\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) != "# EOF\n":
            assert line
            lines.append(line)
        return "".join(lines)

    def stop(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(20) == 0

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(20)


@pytest.fixture
def start(tmp_path):
    """Starts workers that share a folder; those still running are killed at the end."""
    workers = []

    def begin(number: int = 1) -> Worker:
        workers.append(Worker(tmp_path, number))
        workers[-1].do("publish")
        return workers[-1]

    yield begin
    for worker in workers:
        if worker.process.poll() is None:
            worker.kill()
        worker.process.stdin.close()
        worker.process.stdout.close()


CALLS = 'utcp_gateway_calls_total{outcome="ok",provider="library"}'


def test_every_worker_shows_the_figures_of_all(start):
    first, second = start(), start()
    first.do("call", "enter", "publish")
    second.do("call", "call", "enter")
    for worker in (second, first):
        text = worker.show()
        assert _value(text, CALLS) == 3
        assert _value(text, 'utcp_gateway_call_duration_seconds_count{provider="library"}') == 3
        assert _value(text, "utcp_gateway_calls_in_flight") == 2
        assert _value(text, "utcp_gateway_workers") == 2
        assert {"0", "1"} == set(re.findall(r'process_resident_memory_bytes\{worker="(\d)"\}', text))


def test_what_was_shown_once_never_falls_whichever_worker_is_asked(start):
    first, second = start(), start()
    first.do("call", "call")
    # Not published by its timer, but shown: so the other one must know it from now on.
    assert _value(first.show(), CALLS) == 2
    assert _value(second.show(), CALLS) == 2


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_worker_that_has_ended_leaves_its_counts_and_no_gauges(start, end):
    first, second = start(), start()
    second.do("call", "enter", "publish")
    getattr(second, end)()
    text = first.show()
    assert _value(text, CALLS) == 1
    assert _value(text, "utcp_gateway_calls_in_flight") == 0
    assert _value(text, "utcp_gateway_workers") == 1
    assert 'worker="1"' not in text


def test_workers_that_follow_one_another_in_a_place_count_once_each(start):
    first = start()
    for number in range(1, 4):
        follower = start()
        follower.do("call", "publish")
        assert _value(first.show(), CALLS) == number
        follower.kill()
        assert _value(first.show(), CALLS) == number


def test_a_retirement_that_was_cut_short_counts_nothing_twice(start, tmp_path):
    first, second = start(), start()
    second.do("call", "publish")
    held = (tmp_path / "1.json").read_bytes()
    second.kill()
    start()
    # As if the file had not been removed before the power went.
    (tmp_path / "1.json").write_bytes(held)
    assert _value(first.show(), CALLS) == 1


def test_gauges_of_positions_are_not_added(start):
    first, second = start(5), start(7)
    second.do("publish")
    text = first.show()
    assert _value(text, "utcp_gateway_feed_position") == 5
    assert _value(text, "utcp_gateway_feed_lag_seconds") == 7


def test_a_broken_or_foreign_file_in_the_folder_is_left_aside(tmp_path):
    folder = MetricsFolder(tmp_path)
    (tmp_path / "7.json").write_text("{")
    unknown = [("utcp_gateway_of_a_newer_version_total", [], 1), (of.PLAN_CACHE_ENTRIES.name, [], 2)]
    (tmp_path / "8.json").write_text(json.dumps({"birth": "x", "samples": unknown}))
    folder.publish([(of.CALLS.name, ("library", "ok"), 1)])
    assert list(folder.gather().list_samples()) == [(of.CALLS, ("library", "ok"), 1)]
    folder.close()


def test_merging_histograms_adds_bucket_by_bucket():
    merged = MergedSamples()
    merged.add([(of.LOOP_LAG.name, (), [1, 2, 0.5])])
    merged.add([(of.LOOP_LAG.name, (), [10, 20, 0.25])])
    assert list(merged.list_samples()) == [(of.LOOP_LAG, (), [11, 22, 0.75])]


LABELS = {
    "route", "method", "status", "provider", "outcome", "version", "python", "state", "worker",
    # Of fixed values: kinds of key lookups, reasons of rejections, and commit queues; transports of executors.
    "kind", "reason", "queue", "transport",
}  # fmt: skip


def test_no_label_but_that_of_providers_names_what_a_limited_key_must_not_see():
    """A new label is judged here: series that name tools, origins or keys would need a filter of their own."""
    assert {label for family in list_families() for label in family.labels} == LABELS
    assert of.PROVIDER in LABELS


@pytest.mark.parametrize("shared", [False, True])
async def test_a_reader_of_some_providers_is_shown_theirs_and_what_names_none(tmp_path, monkeypatch, shared):
    if shared:
        monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics, beside = Metrics(), Metrics()
    named = [family for family in list_families() if of.PROVIDER in family.labels]

    def samples():
        for family in named:
            for provider in ("mine", "theirs", "other"):
                labels = tuple(provider if label == of.PROVIDER else "x" for label in family.labels)
                yield family, labels, [1] * (len(family.bounds) + 2) if family.bounds else 1

    beside.add_source(samples)
    if not shared:
        metrics.add_source(samples)
    metrics.start()
    beside.start()
    try:
        everything = await _text(metrics)
        some = (await metrics.render(["mine"]))[0].decode()
    finally:
        metrics.aclose()
        beside.aclose()
    for family in named:
        assert re.search(rf'{family.name}\w*{{.*provider="theirs"', everything), family.name
        assert re.search(rf'{family.name}\w*{{.*provider="mine"', some), family.name
    assert "theirs" not in some
    assert 'provider="other"' not in some
    assert _value(some, "utcp_gateway_calls_in_flight") == 0
