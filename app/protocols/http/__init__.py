"""UTCP's `http`."""
