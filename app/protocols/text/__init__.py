"""UTCP's `text`."""
