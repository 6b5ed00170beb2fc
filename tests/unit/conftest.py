"""Fixtures of all unit tests, none of which needs PostgreSQL or Redis."""

import pytest
import structlog


@pytest.fixture(autouse=True)
def _all_is_logged() -> None:
    """Reset the level of logs, which an application of another file may have left, so that a test sees warnings."""
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def servers() -> None:
    """Fail: a test that needs a database stands in tests/integration."""
    pytest.fail("A test that needs PostgreSQL or Redis belongs into tests/integration.")
