"""Structured logs without secrets, Prometheus metrics, and traces."""

from app.core.telemetry.logs import configure_logging
from app.core.telemetry.metrics import Metrics

__all__ = ["Metrics", "configure_logging"]
