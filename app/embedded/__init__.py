"""The embedded pair: a real PostgreSQL and a real Valkey, from wheels, in one folder, without a TCP port."""

from app.embedded.folder import EmbeddedBusy, EmbeddedError, EmbeddedFailed, sealing_key
from app.embedded.servers import EmbeddedServers, Running

__all__ = ["EmbeddedBusy", "EmbeddedError", "EmbeddedFailed", "EmbeddedServers", "Running", "sealing_key"]
