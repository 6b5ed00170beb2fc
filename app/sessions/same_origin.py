"""Requests from other sites (placeholder)."""

from typing import Any


def check_same_origin(scope: Any, settings: Any) -> None:
    """Raise Forbidden for a request that another site has caused."""
