"""Structured logs without secrets, Prometheus metrics, and traces."""

from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Metrics

__all__ = ["Metrics", "configure_logging"]
