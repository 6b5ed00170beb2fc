"""A gateway with upstreams, for tests of the console."""

from tests.api.providers.conftest import admin, gateway_app, upstream

__all__ = ["admin", "gateway_app", "upstream"]
