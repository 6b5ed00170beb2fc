"""Unexpected errors: logged under an id that the client gets in place of their text."""

import traceback
from collections.abc import Iterable
from typing import Final

import structlog

from app.core.errors import GatewayError
from app.core.uuid7 import uuid7

_MAX_FRAMES: Final = 8

_log = structlog.get_logger(__name__)


def log_unexpected_error(error: BaseException) -> GatewayError:
    """Log an unexpected error, and return the one that the client sees, which has the id of the log line."""
    error_id = str(uuid7())
    _log.error(
        "unexpected error",
        error_id=error_id,
        error=type(error).__qualname__,
        frames=list(_list_frames(error)),
    )
    # The text may contain anything, even a secret: it is logged only at level debug.
    _log.debug("text of the unexpected error", error_id=error_id, text=str(error))
    return GatewayError(
        "An internal error occurred; the gateway's log has details under this id.",
        extra={"error_id": error_id},
    )


def _list_frames(error: BaseException) -> Iterable[str]:
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return (f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
