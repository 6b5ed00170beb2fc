"""The vault of the unit tests of calls."""

from tests.unit.calls.conftest import vault

__all__ = ["vault"]
