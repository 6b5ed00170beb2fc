"""UTCP's `sse`."""
