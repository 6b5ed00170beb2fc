"""A Valkey of each test's own, and clients of it, as in the unit tests of calls."""

from tests.unit.calls.conftest import clients, limiter_on, valkey, vault, wire

__all__ = ["clients", "limiter_on", "valkey", "vault", "wire"]
