"""Embedded servers: a real PostgreSQL and a real Valkey, from wheels, in one folder, without TCP ports."""

from app.cli.embedded.folder import EmbeddedBusy, EmbeddedError, EmbeddedFailed, read_sealing_key
from app.cli.embedded.servers import EmbeddedServers, EmbeddedUrls

__all__ = [
    "EmbeddedBusy",
    "EmbeddedError",
    "EmbeddedFailed",
    "EmbeddedServers",
    "EmbeddedUrls",
    "read_sealing_key",
]
