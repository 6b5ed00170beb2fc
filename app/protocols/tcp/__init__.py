"""UTCP's `tcp`."""
