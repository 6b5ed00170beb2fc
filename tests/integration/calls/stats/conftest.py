"""A database of each test's own, as in the tests of the call log."""

from tests.integration.calls.log.conftest import database, own_database_url

__all__ = ["database", "own_database_url"]
