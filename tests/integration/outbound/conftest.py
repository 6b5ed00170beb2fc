"""Upstreams and clients of Redis, as in the unit tests of outbound."""

from tests.unit.outbound.conftest import (
    engine,
    provider,
    quick,
    raw,
    redis,
    serve,
    token_request,
    vault,
)

__all__ = ["engine", "provider", "quick", "raw", "redis", "serve", "token_request", "vault"]
