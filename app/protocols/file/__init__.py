"""UTCP's `file`."""
