"""The services of a gateway, and an application with the routes of API keys."""

from tests.harness.access import access_settings, gateway, own_database_url

__all__ = ["access_settings", "gateway", "own_database_url"]
