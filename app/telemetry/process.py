"""Metrics of the operating system about this process."""

from prometheus_client import ProcessCollector

from app.telemetry import families
from app.telemetry.families import Family, Number

_SHOWN = {
    "process_cpu_seconds": families.CPU,
    "process_resident_memory_bytes": families.RESIDENT,
    "process_virtual_memory_bytes": families.VIRTUAL,
    "process_open_fds": families.OPEN_FDS,
    "process_max_fds": families.MAX_FDS,
    "process_start_time_seconds": families.STARTED,
}
_collector = ProcessCollector(registry=None)


def process_samples() -> list[tuple[Family, Number]]:
    """Return CPU time, memory and open files of this process; an empty list where there is no /proc."""
    return [
        (_SHOWN[metric.name], metric.samples[0].value)
        for metric in _collector.collect()
        if metric.name in _SHOWN
    ]
