"""Responses that last: writing to slow clients, formats of events, heartbeats, and streams of new records."""
