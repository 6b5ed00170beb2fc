"""UTCP's `streamable_http`."""
