"""The heartbeat: lateness of the loop, and figures that reach the other workers by themselves."""

import asyncio
import time

from structlog.testing import capture_logs

from app.core.telemetry.heartbeat import Heartbeat
from app.core.telemetry.metrics import Metrics
from app.core.telemetry.worker_metrics import MetricsFolder


async def test_a_stall_of_the_loop_is_seen():
    metrics = Metrics()
    pulse = Heartbeat(metrics)
    pulse.start()
    await asyncio.sleep(0.25)
    time.sleep(0.4)  # noqa: ASYNC251 - the stall
    await asyncio.sleep(0.15)
    pulse.aclose()
    assert sum(metrics.lag[-2:]) >= 1, "one beat was late by more than 0.25 s"
    assert metrics.lag_seconds >= 0.25


async def test_metrics_are_published_without_being_requested(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    pulse = Heartbeat(metrics)
    pulse.start()
    other = MetricsFolder(tmp_path)
    metrics.observe_call("library", "ok", 0.1)
    seen = []
    # A second is what is promised; the loop ends at once when it has come.
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
        seen = [s for s in other.gather().list_samples() if s[0].name == "utcp_gateway_calls"]
    assert seen
    assert seen[0][1:] == (("library", "ok"), 1)
    pulse.aclose()
    other.close()


async def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    metrics = Metrics()
    pulse = Heartbeat(metrics)
    with capture_logs() as logs:
        pulse.start()
        # Its name is taken by a folder, so that the file cannot be put there.
        (tmp_path / "0.json").unlink()
        (tmp_path / "0.json").mkdir()
        await asyncio.sleep(0.75)
        assert sum(metrics.lag) >= 4
        (tmp_path / "0.json").rmdir()
        pulse.aclose()
    assert "the metrics of this worker cannot be published" in [one["event"] for one in logs]
