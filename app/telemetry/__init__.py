"""What the operator sees: structured logs without secrets, and Prometheus figures."""

from app.telemetry.logs import configure_logging
from app.telemetry.metrics import Metrics

__all__ = ["Metrics", "configure_logging"]
